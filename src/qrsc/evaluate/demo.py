"""The demonstration: a simulated clip is corrected from its pixels alone and held against its truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qrsc.evaluate.metrics.pixels import psnr, ssim
from qrsc.evaluate.report.page import Figures, write_report
from qrsc.media.annotate import beside, error_picture, labelled
from qrsc.media.image_folder import write_frame
from qrsc.media.mp4 import write_video
from qrsc.pipeline import Corrector
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout

READOUT = Readout(0.9)
FRAMES_PER_SECOND = 15  # the clip is shown at half speed, so that the wobble can be followed
ERROR_GAIN = 4.0


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration measured and wrote.

    Attributes:
        psnr_before, psnr_after: mean over the frames, in dB.
        ssim_before, ssim_after: mean over the frames.
        files: video, still and report.
    """

    psnr_before: float
    psnr_after: float
    ssim_before: float
    ssim_after: float
    files: tuple[Path, ...]


def run_demo(
    output: Path,
    *,
    size: tuple[int, int] = (480, 640),
    frames: int = 24,
    seed: int = 0,
    advance: Callable[[str], None] = lambda step: None,
) -> DemoResult:
    """Render, correct, measure and write.

    Args:
        output: folder for `before_after.mp4`, `still.png` and `report.html`; files of these names are replaced.
        size: `(height, width)` of the clip.
        frames: its length, at least 3.
        seed: of the scene.
        advance: called after each of the `3 * frames` steps with a word for what is being done.
    """
    if frames < 3:
        raise ValueError(f"the demonstration needs at least 3 frames for quadratic motion, got {frames}.")
    rolling, truth = [], []
    scene = demo_scene(size, frames, seed)
    for index in range(frames):
        rolling.append(render_rs(scene, READOUT, index)[0])
        truth.append(render_gs(scene, index + READOUT.instant("middle"))[0])
        advance("rendering")
    # What a camera would store: the truth of the correction is nothing finer than 8 bits.
    rolling = [(frame * 255.0).round() / 255.0 for frame in rolling]
    corrected = []
    # A search finds the flow of this clip as well as the network (33.7 and 33.6 dB), in a tenth of the time.
    for each in Corrector(READOUT, flow="dis").stream(rolling):
        corrected.append(each.frame)
        advance("correcting")

    output.mkdir(parents=True, exist_ok=True)
    scores = torch.tensor(
        [
            [float(measure(frame, exact)) for measure in (psnr, ssim) for frame in (before, after)]
            for before, after, exact in zip(rolling, corrected, truth, strict=True)
        ]
    )  # [T, 4]: PSNR before and after, SSIM before and after
    # The still shows the frame that the rolling shutter bent most.
    index = int(scores[:, 0].argmin())
    files = (output / "before_after.mp4", output / "still.png", output / "report.html")
    write_video(files[0], _video(rolling, corrected, advance), FRAMES_PER_SECOND)
    strip = _strip(rolling[index], corrected[index], truth[index])
    write_frame(files[1], strip)
    mean = scores.mean(0).tolist()
    result = DemoResult(mean[0], mean[1], mean[2], mean[3], files)
    figures = Figures(
        rows=[("mean of all frames", mean), (f"frame {index}, shown here", scores[index].tolist())],
        facts={
            "clip": f"{frames} frames of {size[1]} × {size[0]}, simulated, seed {seed}",
            "readout": f"γ = {READOUT.gamma:g}, {READOUT.scan}, corrected to the middle row",
            "method": "DIS flow, the camera's path, a parabola per pixel, exact field inversion, three frames fused",
        },
    )
    write_report(files[2], rolling[index], corrected[index], strip, files[0], figures)
    return result


def _video(rolling: list[Tensor], corrected: list[Tensor], advance: Callable[[str], None]) -> Iterator[Tensor]:
    for before, after in zip(rolling, corrected, strict=True):
        yield beside([labelled(before, "rolling shutter"), labelled(after, "corrected")])
        advance("encoding")


def _strip(before: Tensor, after: Tensor, truth: Tensor) -> Tensor:
    """Before, after, truth and error side by side: `[3, H, 4 W]` with gaps."""
    return beside(
        [
            labelled(before, f"before  {float(psnr(before, truth)):.1f} dB"),
            labelled(after, f"after  {float(psnr(after, truth)):.1f} dB"),
            labelled(truth, "truth"),
            labelled(error_picture(after, truth, ERROR_GAIN), f"error of after x {ERROR_GAIN:g}"),
        ]
    )
