"""A clip that needs no correction is copied, byte for byte, and not encoded again."""

from __future__ import annotations

import filecmp
from pathlib import Path

from qrsc.backend.progress import Stage
from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.codecs import same_format
from qrsc.media.errors import VerificationError
from qrsc.media.image_folder import list_frames
from qrsc.media.probe import count_frames
from qrsc.media.reader import ReadReport, note_missing
from qrsc.video.clip_job import ClipJob
from qrsc.video.result import VideoResult
from qrsc.video.result_check import CheckedResult

BLOCK = 1 << 22  # bytes that are copied at a time


def can_pass_through(job: ClipJob) -> bool:
    """Whether the output can be a copy: all of the clip, as it is stored, and nothing beside it."""
    if job.start is not None or job.end is not None or job.compare is not None or job.asked.differ:
        return False
    if job.info is None:
        return job.encoding is None  # a folder into a folder
    return same_format(job.source, job.output)


def pass_through(job: ClipJob, checked: CheckedResult | None = None, strength: float = 1.0) -> VideoResult:
    """Copy a clip; `checked` and `strength` are of the correction, if one was tried."""
    report = ReadReport()
    if job.info is None:
        frames = _copy_folder(job)
    else:
        frames = job.info.frames if job.info.counted and job.info.frames is not None else count_frames(job.source)
        with atomic_file(job.output, overwrite=job.overwrite) as work:
            _copy(job, [(job.source, work)])
        note_missing(job.info, report)
    job.tally.frames = job.tally.unchanged = frames
    return job.result({}, (), report, copied=True, checked=checked, strength=strength)


def _copy_folder(job: ClipJob) -> int:
    paths = list_frames(job.source)
    with atomic_folder(job.output, overwrite=job.overwrite) as work:
        _copy(job, [(path, work / path.name) for path in paths])
    return len(paths)


def _copy(job: ClipJob, pairs: list[tuple[Path, Path]]) -> None:
    """Copy files, and compare them with the originals unless that was declined."""
    blocks = sum(-(-source.stat().st_size // BLOCK) for source, _ in pairs)
    stage = Stage("copying", blocks, job.progress, job.cancel)
    for source, target in pairs:
        with source.open("rb") as old, target.open("wb") as new:
            while block := old.read(BLOCK):
                new.write(block)
                stage.advance()
        if job.verifier.wanted is not False and not filecmp.cmp(source, target, shallow=False):
            raise VerificationError(f"{source} was copied, and the copy differs; the disk may be failing.")
    if job.verifier.wanted is not False:
        job.verifier.confirm("the output is the input, byte for byte")
