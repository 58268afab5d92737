"""What `qrsc slowmo` does between its options and its summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.cli.options import KeepOption, ProgressOption
from qrsc.cli.progress import reporting
from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.codecs import Encoding
from qrsc.media.image_folder import StoredFrame, write_frame
from qrsc.media.probe import ClipInfo
from qrsc.media.writer import VideoWriter, open_writer
from qrsc.pipeline import Corrected, Corrector, Seconds
from qrsc.video.clips import FolderSource, SourceFrame, VideoSource, open_source
from qrsc.video.readout import Say
from qrsc.video.side_by_side import side_by_side
from qrsc.video.summary import Summary


@dataclass(frozen=True)
class SlowJob:
    """One clip to slow down.

    Attributes:
        source, output, info, encoding, device, start, end, overwrite: as for `qrsc.video.correct.Job`.
        factor: instants for every frame interval.
        keep: `rate` plays them at the clip's own rate, so that it lasts longer, without its sound; `duration` plays
            them in the clip's own time, with its sound.
        fps: of a video made from a folder.
    """

    source: Path
    output: Path
    info: ClipInfo | None
    encoding: Encoding | None
    device: torch.device
    factor: int
    keep: KeepOption = "rate"
    fps: float | None = None
    start: float | None = None
    end: float | None = None
    overwrite: bool = False


def slow_down(job: SlowJob, corrector: Corrector, *, progress: ProgressOption = "auto", say: Say) -> Summary:
    """Makes slow motion of a clip; `say` hears what a user should know before it is done."""
    with ExitStack() as stack:
        sounding = job.encoding is not None and job.keep == "duration"
        source, left_out = stack.enter_context(
            open_source(
                job.source,
                job.info,
                device=job.device,
                seconds=corrector.seconds,
                container=job.encoding.container if sounding and job.encoding is not None else None,
                start=job.start,
                end=job.end,
            )
        )
        for track in left_out:
            say(f"left out: {track}, which {job.output.suffix} files cannot hold")
        if job.info is not None and job.encoding is not None and not sounding:
            say(f"the clip lasts {job.factor} times as long, and its sound is left out; --keep duration keeps both")
        target = _opened_target(stack, job, source, corrector.seconds)
        total = None if source.frames is None else (source.frames - 1) * job.factor + 1
        reporter = stack.enter_context(reporting(progress, total, "slowing down"))
        summary = Summary()
        for result in _run(source, target, corrector, job.factor):
            summary.add(result)
            reporter.advance()
    return summary


def _run(
    source: FolderSource | VideoSource, target: _Folder | _Video, corrector: Corrector, factor: int
) -> Iterator[Corrected]:
    with side_by_side(source, target.take, target.heard_of) as (frames, hand_over):
        for time, result in corrector.between(frames, factor):
            hand_over(_Instant(time, result.frame))
            yield result


@dataclass(frozen=True)
class _Instant:
    time: float  # in frame intervals
    frame: Tensor  # [3, H, W]


class _Folder:
    """A folder of numbered PNG files; deep frames get 16 bits."""

    def __init__(self, folder: Path, seconds: Seconds, bits: int) -> None:
        self._folder, self._seconds, self._bits = folder, seconds, bits
        self._count = 0

    def heard_of(self, frame: SourceFrame) -> None:
        if isinstance(frame.origin, StoredFrame):
            self._bits = frame.origin.bits

    def take(self, item: Any) -> None:
        if not isinstance(item, _Instant):
            return
        with self._seconds.of("encode"):
            path = self._folder / f"{self._count:06d}.png"
            write_frame(path, item.frame, StoredFrame(path, item.frame, 8 if self._bits == 8 else 16, 3, None))
        self._count += 1


class _Video:
    """A video whose timestamps lie between those of the source, in units that are `factor` times as fine."""

    def __init__(self, writer: VideoWriter, seconds: Seconds, factor: int) -> None:
        self._writer, self._seconds, self._factor = writer, seconds, factor
        # Times and timestamps of source frames, told by one thread and asked for by another.
        self._known: list[tuple[float, int]] = []
        self._last: int | None = None

    def heard_of(self, frame: SourceFrame) -> None:
        stamp = None if isinstance(frame.origin, StoredFrame) else frame.origin.frame.pts
        self._known.append((frame.time, round(frame.time) if stamp is None else stamp))

    def take(self, item: Any) -> None:
        if not isinstance(item, _Instant):
            self._writer.copy(item)
            return
        with self._seconds.of("encode"):
            stamp = self._stamp(item.time)
            if self._last is not None:
                stamp = max(stamp, self._last + 1)
            self._writer.write_at(item.frame, stamp, 0)
            self._last = stamp

    def _stamp(self, time: float) -> int:
        """The timestamp between those of the frames around, times the factor."""
        while len(self._known) > 2 and self._known[1][0] <= time:
            del self._known[0]  # never asked for again
        (start, first), *following = self._known[:2]
        if not following:
            return self._factor * first
        end, second = following[0]
        return round(self._factor * (first + (second - first) * (time - start) / (end - start)))


def _opened_target(
    stack: ExitStack, job: SlowJob, source: FolderSource | VideoSource, seconds: Seconds
) -> _Folder | _Video:
    info = job.info
    if job.encoding is None:
        folder = stack.enter_context(atomic_folder(job.output, overwrite=job.overwrite))
        return _Folder(folder, seconds, 8 if info is None else info.layout.bits)
    work = stack.enter_context(atomic_file(job.output, overwrite=job.overwrite))
    rate = Fraction(info.fps if info is not None else job.fps or 30.0).limit_denominator(1001)
    if job.keep == "duration":
        rate *= job.factor
    time_base = info.time_base if info is not None else 1 / Fraction(job.fps or 30.0).limit_denominator(1001)
    if job.keep == "duration":
        time_base /= job.factor
    writer = stack.enter_context(
        open_writer(
            work,
            job.encoding,
            source.size,
            info=info,
            source=source.container if isinstance(source, VideoSource) else None,
            copied=source.copied if isinstance(source, VideoSource) else None,
            rate=rate,
            time_base=time_base,
            chapters=job.keep == "duration" and job.start is None and job.end is None,
        )
    )
    return _Video(writer, seconds, job.factor)
