"""Two seconds of a clip, corrected at low cost and shown beside the input, before all of it is corrected."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from qrsc.media.probe import ClipInfo
from qrsc.video.clip_job import ClipJob
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.result import VideoResult
from qrsc.video.target import require_output

PREVIEW_SECONDS = 2.0
# Of the flow, which saves a third of the processor time. Points that are followed through 60 frames of a street then
# bend by 0.335 px from frame to frame, with flow at full size by 0.334 px.
PREVIEW_SCALE = 0.5


def require_preview(path: Path, source: Path, output: Path, compare: Path | None, *, overwrite: bool) -> None:
    """Refuse a preview that cannot be written, before any work.

    Raises:
        ValueError, OSError: the clip is a folder, or as for any output.
    """
    if source.is_dir():
        raise ValueError(f"a preview is of a video; {source} is a folder of images.")
    require_output(source, output, beside={"--compare": compare, "--preview": path}, overwrite=overwrite)


def write_preview(
    job: ClipJob, options: CorrectionOptions, path: Path, correct: Callable[[ClipJob, CorrectionOptions], VideoResult]
) -> None:
    """Write part of a clip that is ready, before and after its correction side by side.

    Args:
        job: the clip, whose readout is known.
        options: of the correction; flow and fusion are those of the preset `fast`.
        path: of the preview.
        correct: corrects a clip.
    """
    assert job.info is not None  # a video: see `require_preview`
    start, end = previewed(job.info, job.start, job.end)
    border = "fill" if options.border == "transparent" else options.border
    quick = replace(
        options,
        preset="fast",
        fusion=None,
        denoise=False,
        flow=None,
        scale=PREVIEW_SCALE,
        border=border,
        codec="h264",
        crf=None,
        pixel_format=None,
        encoder_preset="ultrafast",
        verify=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        part = quick.job(
            job.source,
            Path(folder) / "after.mp4",
            compare=path,
            start=start,
            end=end,
            overwrite=job.overwrite,
            chosen=job.chosen,
            progress=job.progress,
            cancel=job.cancel,
        )
        correct(part, quick)
    job.tally.note(f"preview: {path} shows seconds {start:.4g} to {end:.4g} before and after; the clip itself follows")


def previewed(info: ClipInfo, start: float | None, end: float | None) -> tuple[float, float]:
    """Which seconds of a clip, or of a part of it, a preview shows: those in the middle."""
    first = start or 0.0
    last = end if end is not None else None if info.frames is None else info.frames * info.interval
    if last is None:
        return first, first + PREVIEW_SECONDS
    first = max(first, 0.5 * (first + last - PREVIEW_SECONDS))
    return first, min(last, first + PREVIEW_SECONDS)
