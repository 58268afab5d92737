"""What `qrsc correct` does between its options and its summary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.backend.memory import keep_freed_memory
from qrsc.backend.threads import at_most_threads
from qrsc.cli.options import BorderOption, ProgressOption
from qrsc.cli.progress import reporting
from qrsc.media.codecs import Encoding, choose_encoding
from qrsc.media.orientation import degrees
from qrsc.media.probe import ClipInfo
from qrsc.pipeline import Corrected, Corrector, Seconds
from qrsc.video.clips import FolderSource, Picture, SourceFrame, Target, VideoSource, open_source, open_target
from qrsc.video.readout import Say, choose_device
from qrsc.video.side_by_side import side_by_side
from qrsc.video.summary import Summary

__all__ = ["Job", "choose_device", "correct_clip"]

Crop = tuple[slice, slice]


@dataclass(frozen=True)
class Job:
    """One clip to correct.

    Attributes:
        source, output: video files or folders.
        info: of the source; None for a folder.
        encoding: of the output; None for a folder.
        device: where frames are corrected.
        border: what becomes of pixels that the frame itself does not show.
        margin: what `crop` cuts off on each side, as a part of that side's length.
        compare: another video that gets the frames before and after side by side.
        fps: of a video made from a folder.
        start, end: the part of a video, in seconds.
        overwrite: replace what is there.
        threads: that one operation may use at most; None leaves it to the libraries.
    """

    source: Path
    output: Path
    info: ClipInfo | None
    encoding: Encoding | None
    device: torch.device
    border: BorderOption = "fill"
    margin: float = 0.04
    compare: Path | None = None
    fps: float | None = None
    start: float | None = None
    end: float | None = None
    overwrite: bool = False
    threads: int | None = None


def correct_clip(job: Job, corrector: Corrector, *, progress: ProgressOption = "auto", say: Say) -> Summary:
    """Corrects a clip; `say` hears what a user should know before it is done."""
    with ExitStack() as stack:
        if job.threads is not None:
            stack.enter_context(at_most_threads(job.threads))
        source, left_out = stack.enter_context(
            open_source(
                job.source,
                job.info,
                device=job.device,
                seconds=corrector.seconds,
                container=None if job.encoding is None else job.encoding.container,
                start=job.start,
                end=job.end,
            )
        )
        keep_freed_memory(source.size)
        for track in left_out:
            say(f"left out: {track}, which {job.output.suffix} files cannot hold")
        if job.encoding is not None and job.encoding.container == "avi":
            say("AVI holds a constant frame rate and no start time; .mp4, .mov and .mkv keep timestamps")
        crop = _crop(source.size, job)
        size = source.size if crop is None else (crop[0].stop - crop[0].start, crop[1].stop - crop[1].start)
        if job.encoding is not None and job.encoding.stored_size(size) != size:
            say(f"{job.encoding.encoder} takes even sizes: the last row or column is written twice")
        target: Target = stack.enter_context(
            open_target(
                job.output,
                source,
                size=size,
                seconds=corrector.seconds,
                encoding=job.encoding,
                fps=job.fps,
                overwrite=job.overwrite,
            )
        )
        if job.compare is not None:
            target = _Both(stack.enter_context(_comparison(job.compare, job, source, size)), target)
        reporter = stack.enter_context(reporting(progress, source.frames, "correcting"))
        summary = Summary()
        for corrected in _run(source, target, corrector, job, crop):
            summary.add(corrected)
            reporter.advance()
    return summary


def _run(
    source: FolderSource | VideoSource, target: Target, corrector: Corrector, job: Job, crop: Crop | None
) -> Iterator[Corrected]:
    """Reads, corrects and writes side by side; the results pass by here."""
    waiting: deque[SourceFrame] = deque()
    with side_by_side(source, target.take, waiting.append) as (frames, hand_over):
        for corrected in corrector.stream(frames):
            hand_over(_picture(corrected, waiting.popleft(), job, crop))
            yield corrected


def _picture(corrected: Corrected, source: SourceFrame, job: Job, crop: Crop | None) -> Picture:
    transparent = job.border == "transparent"
    frame: Tensor | None = corrected.frame
    before, opaque = source.frame, corrected.valid
    if crop is not None:
        frame, before, opaque = (part[:, crop[0], crop[1]] for part in (corrected.frame, before, opaque))
    elif corrected.unchanged and not transparent:
        frame = None
    shown = opaque if transparent else None
    if job.compare is not None:
        return _Compared(frame, source.origin, shown, before)
    return Picture(frame, source.origin, shown)


def _crop(size: tuple[int, int], job: Job) -> Crop | None:
    if job.border != "crop":
        return None
    if not 0.0 < job.margin < 0.5:
        raise ValueError(f"--margin is a part of each side, over 0 and under 0.5; got {job.margin!r}.")
    # Even margins keep chroma samples whole.
    down, right = (2 * round(side * job.margin / 2) for side in size)
    return slice(down, size[0] - down), slice(right, size[1] - right)


# --- before and after ---


@dataclass(frozen=True)
class _Compared(Picture):
    """A picture with the frame as it came in, `[3, H, W]`."""

    before: Tensor | None = None


class _Both:
    """Writes into two targets."""

    def __init__(self, first: Target, second: Target) -> None:
        self._targets = (first, second)

    def take(self, item: Any) -> None:
        for target in self._targets:
            target.take(item)


class _Comparison:
    """Writes the frame as it came in beside the corrected one, as people see the picture."""

    def __init__(self, target: Target, across: int) -> None:
        self._target, self._across = target, across

    def take(self, item: Any) -> None:
        if isinstance(item, _Compared) and item.before is not None:
            after = item.before if item.frame is None else item.frame
            self._target.take(Picture(torch.cat([item.before, after], self._across), item.origin))


@contextmanager
def _comparison(
    path: Path, job: Job, source: FolderSource | VideoSource, size: tuple[int, int]
) -> Iterator[_Comparison]:
    upright = job.info is None or degrees(job.info.matrix) in (0, 180)
    with open_target(
        path,
        replace(source, copied=[]) if isinstance(source, VideoSource) else source,
        size=(size[0], 2 * size[1]) if upright else (2 * size[0], size[1]),
        seconds=Seconds(),
        encoding=choose_encoding(path, job.info),
        fps=job.fps,
        overwrite=job.overwrite,
    ) as target:
        yield _Comparison(target, -1 if upright else -2)
