"""Write the pictures of the street that README.md and docs/correct.md show, into docs/images.

    python benchmarks/street_pictures.py [--output docs/images]

`before_after.jpg` has the frame of the clip of `qrsc demo` that is bent most: from the camera, corrected with the
default options, and the truth, with the same two parts of each enlarged twice. `video.jpg` has three frames of the clip
before and after.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import torch
from _provenance import ROOT
from torch import Tensor

from qrsc.evaluate.demo import READOUT
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.image.resize import resized_picture
from qrsc.media.annotate import above, beside, labelled
from qrsc.pipeline import Corrector
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.demo_scene import demo_scene

SIZE, FRAMES = (480, 640), 24
PARTS = ((20, 200), (215, 80))  # upper left corners of what is enlarged: a post before the sky, letters on the van
PART, ZOOM = (120, 160), 2  # their height and width
SHOWN = (4, 12, 20)
QUALITY = [cv2.IMWRITE_JPEG_QUALITY, 88, cv2.IMWRITE_JPEG_OPTIMIZE, 1]


def column(frame: Tensor, caption: str) -> Tensor:
    """A frame `[3, H, W]` above its enlarged parts."""
    width = ZOOM * PART[1]
    parts = []
    for top, left in PARTS:
        part = frame[:, top : top + PART[0], left : left + PART[1]]
        parts.append(part.repeat_interleave(ZOOM, 1).repeat_interleave(ZOOM, 2))
    whole = resized_picture(frame[None], (width * SIZE[0] // SIZE[1], width))[0]
    return above([labelled(whole, caption), *parts])


def write(path: Path, picture: Tensor) -> None:
    pixels = (255.0 * picture.clamp(0.0, 1.0)).round().byte().permute(1, 2, 0).flip(-1).numpy()  # BGR, for OpenCV
    cv2.imwrite(str(path), pixels, QUALITY)
    print(f"wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "images")
    arguments = parser.parse_args()
    scene = demo_scene(SIZE, FRAMES, 0)
    before = [(255.0 * render_rs(scene, READOUT, index)[0]).round() / 255.0 for index in range(FRAMES)]
    after = [each.frame for each in Corrector(READOUT).stream(before)]
    truth = [render_gs(scene, index + READOUT.instant("middle"))[0] for index in range(FRAMES)]
    scores = torch.tensor(
        [[float(psnr(frame, truth[index])) for frame in (before[index], after[index])] for index in range(FRAMES)]
    )
    worst = int(scores[:, 0].argmin())
    captions = (f"before  {scores[worst, 0]:.1f} dB", f"after  {scores[worst, 1]:.1f} dB", "truth")
    views = (before[worst], after[worst], truth[worst])
    write(arguments.output / "before_after.jpg", beside([column(*each) for each in zip(views, captions, strict=True)]))
    rows = []
    for caption, clip in (("from the camera", before), ("qrsc correct", after)):
        small = [resized_picture(clip[index][None], (315, 420))[0] for index in SHOWN]
        rows.append(beside([labelled(small[0], caption), *small[1:]]))
    write(arguments.output / "video.jpg", above(rows))


if __name__ == "__main__":
    main()
