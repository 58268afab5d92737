"""Rolling-shutter video in, straight video out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

from qrsc.backend.memory import freed_memory_kept
from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.backend.threads import at_most_threads
from qrsc.flow import FlowEstimator
from qrsc.fusion import Fusion
from qrsc.names import DeviceName, Instant, MotionName, PresetName, Scan, Unsure, VideoBorder, WarpMethod
from qrsc.pipeline import Corrected, Corrector
from qrsc.video.announcement import Announcement
from qrsc.video.checked_run import CheckedRun, Lessening, NotBetterError
from qrsc.video.clip_job import ClipJob, choose_end
from qrsc.video.compare import BothTargets, open_comparison
from qrsc.video.concurrent_io import concurrent_correction
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.pass_through import can_pass_through, pass_through
from qrsc.video.picture import picture_of
from qrsc.video.planning import plan_clip
from qrsc.video.preview import require_preview, write_preview
from qrsc.video.result import VideoResult
from qrsc.video.result_check import CheckedResult
from qrsc.video.source import Source, SourceFrame, clip_size, open_source
from qrsc.video.target import Target, open_target


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
    duration: float | None = None,
    preset: PresetName = "default",
    motion: MotionName = "path",
    fusion: str | Fusion | None = None,
    denoise: bool = False,
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
    preview: str | Path | None = None,
    overwrite: bool = False,
    verify: bool | None = None,
    progressive: bool = False,
    always: bool = False,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] | None = None,
    on_frame: Callable[[Corrected], None] | None = None,
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
        border: what becomes of pixels that the frame does not show: `fill` from neighbouring frames, `crop` them off
            and scale back to the size of the clip, `crop-only`, `repeat` the edge, or leave them `transparent`.
        margin: what cropping cuts off on each side, as a part of that side's length.
        start, end, duration: the part of a video, in seconds; an end or a duration, not both.
        preset: `fast`, `default` or `best`; options given beside it come first.
        motion, warp, unsure, frames: as for `qrsc.Corrector`.
        fusion, flow: by name, by a file of weights, or as an object; None is what the preset or the device suggests.
        scale: size at which flow is found, relative to the frames; None reduces frames beyond full HD.
        device: `auto` takes a GPU where there is one.
        codec, crf, pixel_format, encoder_preset: of the output; those of the input if not given.
        compare: another video to write, with before and after side by side.
        preview: another video, written first: two seconds from the middle, corrected at low cost, before and after side
            by side.
        overwrite: replace files that exist.
        verify: read a video again before it gets its name, and compare frames, timestamps and the packets of other
            tracks with the input. None does as much as 5 % of the time allows, False nothing.
        progressive: the frames of a clip that is marked as interlaced are progressive, each from one exposure.
        always: correct even if the result is more distorted than the input, by points that are followed from frame to
            frame. Without it, less is corrected then, or nothing. A readout that is given as a figure is used in any
            case, with a warning.
        dry_run: find the readout, try a few frames, and write nothing: `plan` of the result says what a run would do,
            how long it would take and how large its output would be.
        progress: called with a `Progress` for every frame of every stage.
        cancel: asked for every frame; once it is set the call raises `Cancelled` and leaves no file behind.
        on_note: called at once with everything that a user should know; the result has all notes, too.
        on_frame: called with every corrected frame, to show it or to count something; not if the clip is copied.

    Raises:
        ValueError, OSError: the options or the input cannot be used; the message says what to do.
        VerificationError: the output was written, but does not hold what it should; it is kept under another name.
        Cancelled: `cancel` was set.
    """
    options = CorrectionOptions(
        gamma=gamma,
        readout_ms=readout_ms,
        percent=percent,
        camera=camera,
        fps=fps,
        scan=scan,
        at=at,
        tau=tau,
        strength=strength,
        border=border,
        margin=margin,
        preset=preset,
        motion=motion,
        fusion=fusion,
        denoise=denoise,
        flow=flow,
        warp=warp,
        unsure=unsure,
        frames=frames,
        scale=scale,
        device=device,
        codec=codec,
        crf=crf,
        pixel_format=pixel_format,
        encoder_preset=encoder_preset,
        verify=verify,
        progressive=progressive,
        always=always,
    )
    if preview is not None:
        if dry_run:
            raise ValueError("a dry run writes nothing, and a preview is a file: choose one of the two.")
        beside = None if compare is None else Path(compare)
        require_preview(Path(preview), Path(source), Path(output), beside, overwrite=overwrite)
    job = options.job(
        source,
        output,
        compare=compare,
        start=start,
        end=choose_end(start, end, duration),
        overwrite=overwrite,
        progress=progress,
        cancel=cancel,
        on_note=on_note,
        on_frame=on_frame,
    )
    if preview is not None:
        write_preview(job, options, Path(preview), correct_job)
    return planned(job, options) if dry_run else correct_job(job, options)


def planned(job: ClipJob, options: CorrectionOptions) -> VideoResult:
    """What a correction would do, without a file."""
    corrector = options.corrector(job, options.strength)
    copied = options.keeps_all(corrector) and can_pass_through(job)
    edges = options.edges(clip_size(job.source, job.info))
    threads = options.threads(job)
    with nullcontext() if threads is None else at_most_threads(threads):
        return job.planned(plan_clip(job, corrector.stream, edges, options.preset, copied=copied), options.strength)


def correct_job(job: ClipJob, options: CorrectionOptions, lessening: Lessening | None = None) -> VideoResult:
    """Correct a clip that is ready; `lessening` is of tries that were no better than the input."""
    lessening = lessening or Lessening(options.strength)
    while True:
        corrector = options.corrector(job, lessening.strength)
        if options.keeps_all(corrector):
            if can_pass_through(job):
                return pass_through(job, lessening.checked, lessening.strength)
            if job.info is not None and job.encoding is not None:
                job.tally.note("nothing is corrected, but encoded anew: a clip is copied whole, into the same format")
        run = CheckedRun(job, job.chosen.readout, lessening.strength, lessens=not job.ordered)
        try:
            return _correct_clip(job, options, corrector, run, lessening.checked)
        except NotBetterError as error:
            lessening = lessening.after(job, error.checked)
        except _NothingChangedError:
            return pass_through(job, lessening.checked, lessening.strength)


class _NothingChangedError(Exception):
    """No frame of a clip was changed, so that it can be copied; caught where the correction was started."""


def _correct_clip(
    job: ClipJob, options: CorrectionOptions, corrector: Corrector, run: CheckedRun, checked: CheckedResult | None
) -> VideoResult:
    """Read, correct and write; `checked` is of an earlier try that was no better than the input."""
    threads = options.threads(job)
    with ExitStack() as stack:
        if threads is not None:
            stack.enter_context(at_most_threads(threads))
        source = stack.enter_context(
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
        stack.enter_context(freed_memory_kept())
        edges = options.edges(source.size)
        note_losses(job, source, edges.size)
        announcement = Announcement(job, edges, options.preset, denoise=options.denoise)
        announcement.guess(source.frames, source.size)
        target: Target = stack.enter_context(
            open_target(
                job.output,
                source,
                size=edges.size,
                seconds=corrector.seconds,
                encoding=job.encoding,
                fps=job.fps,
                overwrite=job.overwrite,
                verifier=job.verifier,
            )
        )
        if job.compare is not None:
            beside = open_comparison(
                job.compare, source, edges.size, fps=job.fps, quick=job.asked.quick, overwrite=job.overwrite
            )
            target = BothTargets(stack.enter_context(beside), target)
        stage = Stage("correcting", source.frames, job.progress, job.cancel)

        def check(both: tuple[SourceFrame, Corrected]) -> None:
            run.add(both[0].frame, both[1], restarts=both[0].restarts)

        with concurrent_correction(
            source, corrector.stream, target.take, check, corrector.seconds, job.cancel
        ) as (results, pass_on, pass_to_check):  # fmt: skip
            for frame, corrected in results:
                pass_on(picture_of(corrected, frame, edges, compared=job.compare is not None))
                job.tally.add(corrected)
                if not corrector.changes_nothing:
                    pass_to_check((frame, corrected))
                stage.advance()
                announcement.measure(stage.now())
        if job.tally.unchanged == job.tally.frames and not edges.crops and can_pass_through(job):
            raise _NothingChangedError
        if not corrector.changes_nothing:
            run.conclude()
            checked = run.checked
    return job.result(
        corrector.seconds.spent,
        source.left_out,
        source.report,
        checked=checked,
        strength=run.strength,
    )


def note_losses(job: ClipJob, source: Source, size: tuple[int, int]) -> None:
    """Say what the output cannot hold of its source; `size` is `(H, W)` of its frames."""
    job.note_changes()
    job.note_left_out(source.left_out)
    if job.encoding is not None and job.encoding.stored_size(size) != size:
        job.tally.note(f"{job.encoding.encoder} takes even sizes: the last row or column is written twice")
