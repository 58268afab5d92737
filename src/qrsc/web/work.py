"""What the page has done with a clip: look at it, show gammas, preview, correct. Each is a call of the library."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.backend.device import choose_device
from qrsc.backend.progress import CancelToken, ProgressCallback
from qrsc.calibrate.decision import ChosenReadout
from qrsc.calibrate.estimate import Calibration
from qrsc.calibrate.grey_frames import open_clip
from qrsc.calibrate.recorded import recorded_figures
from qrsc.calibrate.shown_scan import as_shown, stored_scan
from qrsc.calibrate.sweep import corrected_at
from qrsc.media.atomic import atomic_file
from qrsc.media.orientation import IDENTITY, Matrix, degrees, upright
from qrsc.media.probe import ClipInfo, clip_info
from qrsc.media.reader import read_pixels
from qrsc.names import PresetName, Scan
from qrsc.pipeline import Corrected
from qrsc.video.correct import correct_job, correct_video
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.expected_time import estimated_seconds
from qrsc.video.preview import PREVIEW_SCALE
from qrsc.video.result import VideoResult
from qrsc.video.slowmo import slowmo_video
from qrsc.web.readout_ahead import ReadoutAhead, same_picture
from qrsc.web.settings import PREVIEW_SECONDS, Settings, compare_name, output_name

STILLS = 11  # gammas, from 0 to 1
LONGEST_PICTURE = 1280  # pixels of a side of the first frame
THUMBNAIL = 320
THUMBNAIL_INTERVAL = 0.4  # seconds
MOST_BINS = 300  # of a time line
# What browsers play: codecs with the file formats that they take them in, 8 bits and colour at half resolution.
_PLAYED = {
    "h264": (".mp4", ".m4v", ".mov"),
    "vp8": (".webm",),
    "vp9": (".webm", ".mp4"),
    "av1": (".webm", ".mp4"),
}
# A video that every browser plays.
FOR_BROWSERS: dict[str, Any] = {"codec": "h264", "pixel_format": "yuv420p", "crf": 20.0, "verify": False}
PREVIEW: dict[str, Any] = {"scale": PREVIEW_SCALE, "encoder_preset": "ultrafast"}


@dataclass
class Watch:
    """Who is told about the work on a clip, and may stop it.

    Attributes:
        progress: gets a `Progress` for every frame.
        note: gets what a user should know.
        shown: gets the number of the newest thumbnail.
        untested: gets the report of a preview whose readout is still being tested.
        cancel: stops the work.
    """

    progress: ProgressCallback | None = None
    note: Callable[[str], None] | None = None
    shown: Callable[[int], None] | None = None
    untested: Callable[[dict[str, Any]], None] | None = None
    cancel: CancelToken | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `correct_video` and `slowmo_video`."""
        return {"progress": self.progress, "on_note": self.note, "cancel": self.cancel}


def look(source: Path, folder: Path) -> dict[str, Any]:
    """What a clip is, as values that JSON can hold; its first frame becomes `first.jpg`."""
    info = clip_info(source)
    assert info is not None  # a file
    clip = open_clip(source, info=info)
    recorded = recorded_figures(clip)
    pixels = upright(next(iter(read_pixels(source, info=info))), info.matrix)
    _write_picture(folder / "first.jpg", _shrunk(pixels, LONGEST_PICTURE))
    height, width = info.size if degrees(info.matrix) in (0, 180) else info.size[::-1]
    device = choose_device("auto").type
    presets: tuple[PresetName, ...] = ("fast", "default", "best")
    return {
        "width": width,
        "height": height,
        "fps": info.fps,
        "frames": info.frames,
        "seconds": None if info.frames is None else info.frames * info.interval,
        "codec": info.codec,
        "camera": clip.camera or recorded.camera,
        "file_readout_ms": recorded.readout_ms,
        "stabilisation": recorded.stabilisation,
        "device": device,
        # Of a single frame; the page multiplies.
        "frame_seconds": {preset: estimated_seconds(1, info.size, preset, device=device) for preset in presets},
        "frame_seconds_denoised": {
            preset: estimated_seconds(1, info.size, preset, denoise=True, device=device) for preset in presets
        },
    }


def stills(source: Path, folder: Path, scan: Scan | None) -> dict[str, Any]:
    """One frame with much motion, corrected at gammas from 0 to 1: `still-00.jpg` and on."""
    clip = open_clip(source)
    gammas = [step / (STILLS - 1) for step in range(STILLS)]
    stored = "top-down" if scan is None else stored_scan(scan, clip.matrix)
    for number, picture in enumerate(corrected_at(clip, gammas, stored)):
        _write_picture(folder / f"still-{number:02d}.jpg", upright(_pixels(picture), clip.matrix))
    return {"gammas": gammas}


def preview(
    source: Path, folder: Path, settings: Settings, watch: Watch, ahead: ReadoutAhead | None = None
) -> dict[str, Any]:
    """Two seconds by the fast preset with flow at half size, before and after, as videos that browsers play.

    A readout that is to be found is used as soon as there is a first estimate. What it looks like is shown while that
    is tested, and made again if the readout turns out to be another.

    Args:
        source, folder, settings, watch: as for `run`.
        ahead: looks for the readout already.
    """
    info = clip_info(source)
    start = _preview_start(info, settings.start)
    part: dict[str, Any] = {"start": start, "duration": PREVIEW_SECONDS}
    more = part | FOR_BROWSERS | PREVIEW
    quick = Settings(**asdict(settings) | {"preset": "fast", "beside": False})
    before = source
    if start > 0.0 or not _starts_at_zero(info) or not plays_in_browsers(source, info):
        before = folder / "before.mp4"
        _as_it_is(source, before, part, watch)
    shown = {"before": before.name, "after": "after.mp4"}
    if not settings.finds or settings.slows:
        result, timeline = _corrected(source, folder / "after.mp4", quick, info, watch, folder, more)
        return _report(result, timeline, settings, info) | shown
    ahead = ahead or ReadoutAhead(source)

    def corrected_with(chosen: ChosenReadout, **names: str) -> dict[str, Any]:
        timeline = TimeLine(folder, IDENTITY if info is None else info.matrix, watch.shown)
        options = CorrectionOptions(**quick.arguments(), **FOR_BROWSERS, **PREVIEW)
        given = {"start": start, "end": start + PREVIEW_SECONDS, "on_frame": timeline.add, **watch.arguments}
        job = options.job(source, folder / names["after"], chosen=chosen, **given)
        return _report(correct_job(job, options), timeline, settings, info) | names

    with ahead.first(watch.progress, watch.cancel) as first:
        report = corrected_with(first, **shown)
    if not ahead.tested and watch.untested is not None:
        watch.untested(report)
    final = ahead.final(watch.cancel)
    if not same_picture(first, final):
        report = corrected_with(final, **shown | {"after": "after-tested.mp4"})
    return report | _found(final, info) | {"notes": [*ahead.notes, *report["notes"]]}


def run(source: Path, folder: Path, settings: Settings, watch: Watch, name: str) -> dict[str, Any]:
    """All of a clip: the video, the side-by-side, a JSON of the result, and what the browser needs to show it.

    Args:
        source: the clip.
        folder: for what is written.
        settings: from the page.
        watch: is told how it goes.
        name: of the clip, as the user knows it.
    """
    info = clip_info(source)
    output = folder / f"result{Path(output_name(name)).suffix}"
    more: dict[str, Any] = {}
    if settings.beside and not settings.slows:
        more["compare"] = folder / "compare.mp4"
    result, timeline = _corrected(source, output, settings, info, watch, folder, more)
    report = _report(result, timeline, settings, info) | {
        "source": name,
        "output": output_name(name),
        "compare": compare_name(name) if more else None,
        "command": settings.command(name),
        "settings": asdict(settings),
    }
    with atomic_file(folder / "result.json") as work:
        work.write_text(json.dumps(report, indent=2), encoding="utf-8")
    shown = {"before": source, "after": output}
    for which, path in shown.items():
        if not plays_in_browsers(path, clip_info(path)):
            shown[which] = folder / f"{which}.mp4"
            _as_it_is(path, shown[which], {}, watch)
    return report | {which: path.name for which, path in shown.items()} | {"file": output.name}


def plays_in_browsers(path: Path, info: ClipInfo | None) -> bool:
    """Whether browsers play a video as it is, by its codec, its file format and how its pictures are stored."""
    if info is None or path.suffix.lower() not in _PLAYED.get(info.codec, ()):
        return False
    return info.layout.bits == 8 and info.layout.kind == "yuv" and (info.layout.down, info.layout.across) == (2, 2)


def _starts_at_zero(info: ClipInfo | None) -> bool:
    """Whether the first frame of a clip is shown at once, so that the clip itself can run beside its corrected part."""
    return info is not None and info.start == 0 and info.earliest == 0.0


def _preview_start(info: ClipInfo | None, asked: float) -> float:
    """Where a preview starts: as asked, but so that there is something to show."""
    if info is None or info.frames is None:
        return asked
    return max(0.0, min(asked, info.frames * info.interval - PREVIEW_SECONDS))


def _as_it_is(source: Path, output: Path, part: dict[str, Any], watch: Watch) -> None:
    """A clip in a format that browsers play, not corrected."""
    correct_video(source, output, gamma=0.0, preset="fast", cancel=watch.cancel, **part, **FOR_BROWSERS)


def _corrected(
    source: Path,
    output: Path,
    settings: Settings,
    info: ClipInfo | None,
    watch: Watch,
    folder: Path,
    more: dict[str, Any],
) -> tuple[VideoResult, TimeLine]:
    """Correct a clip or slow it down, with thumbnails on the way."""
    timeline = TimeLine(folder, IDENTITY if info is None else info.matrix, watch.shown)
    given = settings.arguments() | watch.arguments | more | {"on_frame": timeline.add}
    if settings.slows:
        given.pop("verify", None)
        return slowmo_video(source, output, **given), timeline
    return correct_video(source, output, **given), timeline


@dataclass
class TimeLine:
    """What was met along a clip, frame by frame, with a thumbnail of the newest frame now and then."""

    folder: Path
    matrix: Matrix
    shown: Callable[[int], None] | None
    cuts: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)
    unsure: list[float] = field(default_factory=list)
    _next: float = 0.0

    def add(self, corrected: Corrected) -> None:
        """Count a frame of the output."""
        number = len(self.unsure)
        if corrected.after_cut:
            self.cuts.append(number)
        if corrected.repeats:
            self.repeated.append(number)
        self.unsure.append(corrected.unsure)
        if self.shown is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + THUMBNAIL_INTERVAL
            _write_picture(
                self.folder / "thumb.jpg", upright(_shrunk(_pixels(corrected.frame), THUMBNAIL), self.matrix)
            )
            self.shown(number + 1)

    def figures(self, frames: int) -> dict[str, Any]:
        """The last so many frames as values that JSON can hold: earlier ones are of tries that were given up.

        Unsure shares are in at most `MOST_BINS` parts, the largest of each.
        """
        before = len(self.unsure) - frames
        unsure = self.unsure[before:]
        bins = min(MOST_BINS, frames)
        parts = np.array_split(np.array(unsure), bins) if bins else []
        return {
            "frames": frames,
            "cuts": [number - before for number in self.cuts if number >= before],
            "repeated": [number - before for number in self.repeated if number >= before],
            "unsure": [round(float(part.max()), 4) for part in parts],
        }


def _report(result: VideoResult, timeline: TimeLine, settings: Settings, info: ClipInfo | None) -> dict[str, Any]:
    """The result as values that JSON can hold."""
    figures = result.figures()
    fps = None if info is None else info.fps
    del figures["output"]
    return figures | {
        "readout_ms": None if fps is None else 1000.0 * result.readout.gamma / fps,
        "fps": fps,
        "slow": settings.slow,
        "seconds": result.seconds,
        "notes": list(result.notes),
        "calibration": None if result.calibration is None else _calibration(result.calibration),
        "timeline": timeline.figures(0 if result.copied else result.frames),
    }


def _found(chosen: ChosenReadout, info: ClipInfo | None) -> dict[str, Any]:
    """What is known of a readout, as in a report."""
    found = None if chosen.found is None else as_shown(chosen.found, IDENTITY if info is None else info.matrix)
    return {"readout_from": chosen.message, "calibration": None if found is None else _calibration(found)}


def _calibration(found: Calibration) -> dict[str, Any]:
    costs = found.curve_costs - found.curve_costs.min() if found.measured else found.curve_costs
    return {
        "gamma": found.gamma,
        "low": found.low,
        "high": found.high,
        "scan": found.scan,
        "determined": found.determined,
        "reason": found.reason,
        "curve_gammas": [round(float(gamma), 4) for gamma in found.curve_gammas],
        "curve_costs": [round(float(cost), 4) for cost in costs],
    }


def _pixels(frame: Tensor) -> npt.NDArray[np.uint8]:
    """A frame `[3, H, W]` as pixels `[H, W, 3]`."""
    shown = (frame.clamp(0.0, 1.0) * 255.0).round().to(torch.uint8).permute(1, 2, 0).contiguous().cpu()
    pixels: npt.NDArray[np.uint8] = shown.numpy()
    return pixels


def _shrunk(pixels: npt.NDArray[np.uint8], longest: int) -> npt.NDArray[np.uint8]:
    """Pixels `[H, W, 3]` with no side longer than asked."""
    import cv2

    scale = longest / max(pixels.shape[:2])
    if scale >= 1.0:
        return pixels
    size = (max(1, round(scale * pixels.shape[1])), max(1, round(scale * pixels.shape[0])))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _write_picture(path: Path, pixels: npt.NDArray[np.uint8]) -> None:
    """Write pixels `[H, W, 3]` as a JPEG that is there whole: the page may ask for it at any time."""
    import cv2

    done, data = cv2.imencode(".jpg", np.ascontiguousarray(pixels[..., ::-1]), [cv2.IMWRITE_JPEG_QUALITY, 85])
    if not done:
        raise ValueError(f"{path.name} could not be encoded as a picture.")
    work = path.with_suffix(".partial")
    work.write_bytes(data.tobytes())
    os.replace(work, path)
