"""Rolling-shutter video in, straight video out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qrsc.backend.device import choose_device
from qrsc.backend.memory import keep_freed_memory
from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.backend.threads import at_most_threads
from qrsc.flow import FlowEstimator
from qrsc.fusion import Fusion
from qrsc.media.codecs import Encoding, choose_encoding, is_video_name
from qrsc.media.probe import ClipInfo
from qrsc.media.reader import ReadReport
from qrsc.names import DeviceName, Instant, MotionName, PresetName, Scan, Unsure, VideoBorder, WarpMethod
from qrsc.pipeline import Corrected, Corrector
from qrsc.pipeline.presets import choose_scale, choose_threads, get_preset
from qrsc.video.compare import BothTargets, ComparedPicture, open_comparison
from qrsc.video.concurrent_io import concurrent_io
from qrsc.video.readout import ReadoutOptions, choose_readout, choose_tau
from qrsc.video.result import Tally, VideoResult
from qrsc.video.source import Source, SourceFrame, clip_info, clip_size, open_source
from qrsc.video.target import Picture, Target, open_target, require_output

Crop = tuple[slice, slice]


def correct_video(
    source: str | Path,
    output: str | Path,
    *,
    gamma: float | None = None,
    readout_ms: float | None = None,
    percent: float | None = None,
    camera: str | None = None,
    fps: float | None = None,
    scan: Scan | None = None,
    at: Instant | None = None,
    tau: float | None = None,
    strength: float = 1.0,
    border: VideoBorder = "fill",
    margin: float = 0.04,
    start: float | None = None,
    end: float | None = None,
    preset: PresetName = "default",
    motion: MotionName = "path",
    fusion: str | Fusion | None = None,
    flow: str | FlowEstimator | None = None,
    warp: WarpMethod = "invert",
    unsure: Unsure = "linear",
    frames: int = 5,
    scale: float | None = None,
    device: DeviceName = "auto",
    codec: str | None = None,
    crf: float | None = None,
    pixel_format: str | None = None,
    encoder_preset: str | None = None,
    compare: str | Path | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] | None = None,
) -> VideoResult:
    """Correct a video file or a folder of images: what `qrsc correct` does, with the same options and defaults.

    Sound, subtitles, timestamps, rotation and colour tags are kept. The input is never touched; the output appears
    under its name when it is complete.

    Args:
        source: a video, or a folder of images.
        output: a video by its suffix (.mp4 .mov .mkv .webm .avi .ts), else a folder of images.
        gamma, readout_ms, percent, camera: the readout, given once, as part of the frame interval, in milliseconds, in
            per cent of the frame interval, or by the name of a camera in the table. Found in the clip if none is given.
        fps: frames per second, for a folder.
        scan: direction of the readout in the picture as people see it.
        at, tau: the instant to show: that of a row, or a time in frame intervals after the frame's start. Middle row if
            neither is given.
        strength: part of the correction, 0 to 1.
        border: what becomes of pixels that the frame does not show: `fill` from neighbouring frames, `crop` them off,
            `repeat` the edge, or leave them `transparent`.
        margin: what `crop` cuts off on each side, as a part of that side's length.
        start, end: the part of a video, in seconds.
        preset: `fast`, `default` or `best`; options given beside it come first.
        motion, warp, unsure, frames: as for `qrsc.Corrector`.
        fusion, flow: by name, by a file of weights, or as an object; None is what the preset or the device suggests.
        scale: size at which flow is found, relative to the frames; None reduces frames beyond full HD.
        device: `auto` takes a GPU where there is one.
        codec, crf, pixel_format, encoder_preset: of the output; those of the input if not given.
        compare: another video to write, with before and after side by side.
        overwrite: replace files that exist.
        progress: called with a `Progress` for every frame of every stage.
        cancel: asked for every frame; once it is set the call raises `Cancelled` and leaves no file behind.
        on_note: called at once with everything that a user should know; the result has all notes, too.

    Raises:
        ValueError, OSError: the options or the input cannot be used; the message says what to do.
        Cancelled: `cancel` was set.
    """
    source, output = Path(source), Path(output)
    compare = None if compare is None else Path(compare)
    require_output(source, output, compare=compare, overwrite=overwrite)
    chosen_device = choose_device(device)
    tally = Tally(on_note)
    info = clip_info(source)
    given = ReadoutOptions(gamma, readout_ms, percent, camera, fps, scan)
    chosen = choose_readout(source, info, given, say=tally.note, progress=progress, cancel=cancel)
    encoding = None
    if is_video_name(output):
        if info is None and fps is None:
            raise ValueError("a folder of images has no frame rate: give that of the video as --fps.")
        encoding = choose_encoding(
            output,
            info,
            codec=codec,
            crf=crf,
            pixel_format=pixel_format,
            preset=encoder_preset,
            quick=preset == "fast",
            alpha=border == "transparent",
        )
    corrector = Corrector(
        chosen.readout,
        preset=preset,
        tau=choose_tau(chosen.readout, tau, at),
        motion=motion,
        fusion=fusion,
        warp=warp,
        flow=flow,
        frames=frames,
        strength=strength,
        border="repeat" if border == "repeat" else "fill",
        unsure=unsure,
        scale=choose_scale(scale, clip_size(source, info)),
        find_cuts=True,
        find_repeats=True,
        flows_ahead=1,
    )
    # Networks asked for beside the fast preset have more to do than a search, and get all cores.
    searched = get_preset(preset).halves_threads and flow is None and fusion is None
    job = _Job(source, output, info, encoding, border, margin, compare, fps, start, end, overwrite)
    threads = choose_threads(chosen_device) if searched else None
    left_out, report = _correct_clip(job, corrector, tally, chosen_device, threads, progress, cancel)
    return tally.result(
        output=output,
        compare=compare,
        readout=chosen.readout,
        readout_from=chosen.message,
        left_out=left_out,
        damaged=report.damaged,
        mended_timestamps=report.clock.mended,
        truncated=report.missing_bytes > 0,
        seconds_by_work=dict(corrector.seconds.spent),
    )


@dataclass(frozen=True)
class _Job:
    """What is read and written; fields as the arguments of `correct_video`."""

    source: Path
    output: Path
    info: ClipInfo | None
    encoding: Encoding | None
    border: VideoBorder
    margin: float
    compare: Path | None
    fps: float | None
    start: float | None
    end: float | None
    overwrite: bool


def _correct_clip(
    job: _Job,
    corrector: Corrector,
    tally: Tally,
    device: torch.device,
    threads: int | None,
    progress: ProgressCallback | None,
    cancel: CancelToken | None,
) -> tuple[tuple[str, ...], ReadReport]:
    """Read, correct and write; returns the tracks that were left out, and what was met while reading."""
    with ExitStack() as stack:
        if threads is not None:
            stack.enter_context(at_most_threads(threads))
        source = stack.enter_context(
            open_source(
                job.source,
                job.info,
                device=device,
                seconds=corrector.seconds,
                container=None if job.encoding is None else job.encoding.container,
                start=job.start,
                end=job.end,
            )
        )
        keep_freed_memory(source.size)
        crop = _crop(source.size, job)
        size = source.size if crop is None else (crop[0].stop - crop[0].start, crop[1].stop - crop[1].start)
        _note_losses(job, source, size, tally)
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
            beside = open_comparison(job.compare, source, size, fps=job.fps, overwrite=job.overwrite)
            target = BothTargets(stack.enter_context(beside), target)
        stage = Stage("correcting", source.frames, progress, cancel)
        for corrected in _corrected_frames(source, target, corrector, job, crop, cancel):
            tally.add(corrected)
            stage.advance()
    for message in source.report.messages(job.source, tally.frames):
        tally.warn(message)
    return source.left_out, source.report


def _note_losses(job: _Job, source: Source, size: tuple[int, int], tally: Tally) -> None:
    for track in source.left_out:
        tally.note(f"left out: {track}, which {job.output.suffix} files cannot hold")
    if job.encoding is None:
        return
    if job.encoding.container == "avi":
        tally.note("AVI holds a constant frame rate and no start time; .mp4, .mov and .mkv keep timestamps")
    if job.encoding.stored_size(size) != size:
        tally.note(f"{job.encoding.encoder} takes even sizes: the last row or column is written twice")


def _corrected_frames(
    source: Source,
    target: Target,
    corrector: Corrector,
    job: _Job,
    crop: Crop | None,
    cancel: CancelToken | None,
) -> Iterator[Corrected]:
    """Read, correct and write side by side in threads; the results pass by here."""
    waiting: deque[SourceFrame] = deque()
    with concurrent_io(source, target.take, waiting.append, cancel) as (frames, pass_on):
        for corrected in corrector.stream(frames):
            pass_on(_picture(corrected, waiting.popleft(), job, crop))
            yield corrected


def _picture(corrected: Corrected, source: SourceFrame, job: _Job, crop: Crop | None) -> Picture:
    transparent = job.border == "transparent"
    frame: Tensor | None = corrected.frame
    before, opaque = source.frame, corrected.valid
    if crop is not None:
        frame, before, opaque = (part[:, crop[0], crop[1]] for part in (corrected.frame, before, opaque))
    elif corrected.unchanged and not transparent:
        frame = None
    shown = opaque if transparent else None
    if job.compare is not None:
        return ComparedPicture(frame, source.origin, shown, before)
    return Picture(frame, source.origin, shown)


def _crop(size: tuple[int, int], job: _Job) -> Crop | None:
    if job.border != "crop":
        return None
    if not 0.0 < job.margin < 0.5:
        raise ValueError(f"--margin is a part of each side, over 0 and under 0.5; got {job.margin!r}.")
    # Even margins keep chroma samples whole.
    down, right = (2 * round(side * job.margin / 2) for side in size)
    return slice(down, size[0] - down), slice(right, size[1] - right)
