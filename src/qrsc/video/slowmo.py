"""Slow motion: several global-shutter instants for every rolling-shutter frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.flow import FlowEstimator
from qrsc.fusion import Fusion
from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.image_folder import StoredFrame, write_frame
from qrsc.media.writer import VideoWriter, open_writer
from qrsc.names import DeviceName, Keep, MotionName, PresetName, Scan
from qrsc.pipeline import Corrected, Corrector, Seconds
from qrsc.pipeline.presets import choose_scale, get_preset
from qrsc.video.announcement import Announcement
from qrsc.video.checked_run import CheckedRun, Lessening, NotBetterError
from qrsc.video.clip_job import ClipJob, EncodingOptions, choose_end, prepare_clip
from qrsc.video.concurrent_io import concurrent_io
from qrsc.video.edges import choose_edges
from qrsc.video.planning import plan_clip
from qrsc.video.readout import ReadoutOptions
from qrsc.video.result import VideoResult
from qrsc.video.result_check import CheckedResult
from qrsc.video.source import Source, SourceFrame, VideoSource, clip_size, open_source

FIELD_SCALE = 0.5  # at which motion is solved, relative to the frames, or more


def slowmo_video(
    source: str | Path,
    output: str | Path,
    *,
    factor: int,
    keep: Keep = "rate",
    gamma: float | None = None,
    readout_ms: float | None = None,
    percent: float | None = None,
    camera: str | None = None,
    fps: float | None = None,
    scan: Scan | None = None,
    start: float | None = None,
    end: float | None = None,
    duration: float | None = None,
    preset: PresetName = "default",
    motion: MotionName = "path",
    fusion: str | Fusion | None = None,
    denoise: bool = False,
    flow: str | FlowEstimator | None = None,
    scale: float | None = None,
    device: DeviceName = "auto",
    codec: str | None = None,
    crf: float | None = None,
    pixel_format: str | None = None,
    encoder_preset: str | None = None,
    overwrite: bool = False,
    progressive: bool = False,
    always: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] | None = None,
    on_frame: Callable[[Corrected], None] | None = None,
) -> VideoResult:
    """Make slow motion of a clip: what `qrsc slowmo` does, with the same options and defaults.

    Args:
        source, output: as for `qrsc.correct_video`.
        factor: instants for every frame interval, 1 to 64.
        keep: `rate` plays them at the clip's own rate, so that it lasts longer, without its sound; `duration` plays
            them in the clip's own time, with its sound.
        gamma, readout_ms, percent, camera, fps, scan: the readout, as for `qrsc.correct_video`.
        start, end, duration, preset, motion, fusion, denoise, flow, scale, device: as for `qrsc.correct_video`.
        codec, crf, pixel_format, encoder_preset, overwrite: of the output, as for `qrsc.correct_video`.
        progressive, dry_run: as for `qrsc.correct_video`.
        always: as for `qrsc.correct_video`. Without it, slow motion may be made of less of a correction, or of none.
        progress, cancel, on_note, on_frame: as for `qrsc.correct_video`.

    Raises:
        ValueError, OSError: the options or the input cannot be used; the message says what to do.
        Cancelled: `cancel` was set.
    """
    if not 1 <= factor <= 64:
        raise ValueError(f"the factor is from 1 to 64 instants for every frame, got {factor!r}.")
    job = prepare_clip(
        source,
        output,
        ReadoutOptions(gamma, readout_ms, percent, camera, fps, scan),
        EncodingOptions(codec, crf, pixel_format, encoder_preset, preset == "fast"),
        start=start,
        end=choose_end(start, end, duration),
        device=device,
        overwrite=overwrite,
        progressive=progressive,
        always=always,
        progress=progress,
        cancel=cancel,
        on_note=on_note,
        on_frame=on_frame,
    )
    readout, lessening = job.chosen.readout, Lessening(1.0)
    while True:
        # Of less correction, as of a shorter readout: between frames there is no strength.
        shorter = replace(readout, gamma=lessening.strength * readout.gamma)
        corrector = Corrector(
            shorter,
            preset=preset,
            motion=motion,
            fusion=fusion,
            denoise=denoise,
            flow=flow,
            scale=choose_scale(scale, clip_size(job.source, job.info)),
            # Between frames, pixels move further than in a correction: coarser fields leave ragged outlines.
            field_scale=max(FIELD_SCALE, get_preset(preset).field_scale),
            find_cuts=True,
            find_repeats=True,
            flows_ahead=1,
        )
        edges = choose_edges("fill", 0.0, clip_size(job.source, job.info))
        if dry_run:
            between = partial(corrector.between, count=factor)
            return job.planned(plan_clip(job, between, edges, preset, copied=False, factor=factor))
        run = CheckedRun(job, readout, lessening.strength, lessens=not job.ordered)
        announcement = Announcement(job, edges, preset, denoise=denoise, factor=factor)
        try:
            return _slow_down(job, corrector, factor, keep, run, announcement, lessening.checked)
        except NotBetterError as error:
            lessening = lessening.after(job, error.checked)


def _slow_down(
    job: ClipJob,
    corrector: Corrector,
    factor: int,
    keep: Keep,
    run: CheckedRun,
    announcement: Announcement,
    checked: CheckedResult | None,
) -> VideoResult:
    """Read, correct and write; `checked` is of an earlier try that was no better than the input."""
    with ExitStack() as stack:
        container = job.encoding.container if job.encoding is not None and keep == "duration" else None
        source = stack.enter_context(
            open_source(
                job.source,
                job.info,
                device=job.device,
                seconds=corrector.seconds,
                container=container,
                start=job.start,
                end=job.end,
            )
        )
        job.note_changes()
        job.note_left_out(source.left_out)
        if job.info is not None and job.encoding is not None and container is None:
            job.tally.note(
                f"the clip lasts {factor} times as long, and its sound is left out; --keep duration keeps both"
            )
        if job.info is not None and job.info.layout.alpha:
            job.tally.note("transparency is left out: the frames of slow motion are opaque")
        announcement.guess(source.frames, source.size)
        target = _opened_target(stack, job, source, corrector.seconds, factor, keep)
        total = None if source.frames is None else (source.frames - 1) * factor + 1
        stage = Stage("slowing down", total, job.progress, job.cancel)
        waiting: deque[SourceFrame] = deque()
        corrects = corrector.settings.readout.gamma > 0.0

        def on_frame(frame: SourceFrame) -> None:
            target.on_frame(frame)
            if corrects:
                waiting.append(frame)

        with concurrent_io(source, target.take, on_frame, job.cancel) as (frames, pass_on):
            for time, result in corrector.between(frames, factor):
                pass_on(_Instant(time, result.frame))
                job.tally.add(result)
                # The first instant of each frame is that frame, corrected; frames that only repeat another are passed.
                while waiting and waiting[0].time <= time:
                    frame = waiting.popleft()
                    if frame.time == time:
                        with corrector.seconds.of("check"):
                            run.add(frame.frame, result, restarts=frame.restarts)
                stage.advance()
                announcement.measure(stage.now())
        if corrects:
            run.conclude()
            checked = run.checked
    return job.result(
        corrector.seconds.spent,
        source.left_out,
        source.report,
        slowed=keep == "rate",
        checked=checked,
        strength=run.strength,
    )


@dataclass(frozen=True)
class _Instant:
    time: float  # in frame intervals
    frame: Tensor  # [3, H, W]


class _Folder:
    """A folder of numbered PNG files; deep frames get 16 bits."""

    def __init__(self, folder: Path, seconds: Seconds, bits: int) -> None:
        self._folder, self._seconds, self._bits = folder, seconds, bits
        self._count = 0

    def on_frame(self, frame: SourceFrame) -> None:
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

    def on_frame(self, frame: SourceFrame) -> None:
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
    stack: ExitStack, job: ClipJob, source: Source, seconds: Seconds, factor: int, keep: Keep
) -> _Folder | _Video:
    info = job.info
    if job.encoding is None:
        folder = stack.enter_context(atomic_folder(job.output, overwrite=job.overwrite))
        return _Folder(folder, seconds, 8 if info is None else info.layout.bits)
    work = stack.enter_context(atomic_file(job.output, overwrite=job.overwrite))
    rate = Fraction(info.fps if info is not None else job.fps or 30.0).limit_denominator(1001)
    if keep == "duration":
        rate *= factor
    time_base = info.time_base if info is not None else 1 / Fraction(job.fps or 30.0).limit_denominator(1001)
    if keep == "duration":
        time_base /= factor
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
            chapters=keep == "duration" and job.start is None and job.end is None,
        )
    )
    return _Video(writer, seconds, factor)
