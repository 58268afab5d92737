"""What a worker does with its tasks."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from qrsc.backend.memory import is_out_of_memory
from qrsc.backend.progress import CancelToken, Progress
from qrsc.backend.threads import at_most_threads
from qrsc.farm.storage import below, fetch, files_below, is_remote, put, remove_folder, state_of
from qrsc.farm.tasks import (
    ClipDivided,
    ClipDone,
    ClipTask,
    JoinTask,
    LeadTooShort,
    NotBetter,
    SegmentDone,
    SegmentTask,
    Task,
    Undividable,
    Value,
    readout_for_json,
    readout_from_json,
)
from qrsc.farm.thumbnails import thumbnail_of
from qrsc.media.frame_ranges import FrameRangeError
from qrsc.media.orientation import IDENTITY
from qrsc.pipeline import Corrected
from qrsc.video.checked_run import Lessening, NotBetterError
from qrsc.video.clip_job import ClipJob
from qrsc.video.correct import correct_job
from qrsc.video.join import join_clip
from qrsc.video.result import VideoResult
from qrsc.video.segment import SHORT, SegmentRecord, correct_segment, frames_to_divide, lead_is_enough
from qrsc.weights import file_sha256

UNSURE = 0.25  # share of the pixels from which on a frame is listed as unsure
BEGUN = ".begun"  # suffix of the marks of segments that were begun
NO_MEMORY = "there is not enough memory"


@dataclass
class Desk:
    """Where a worker works.

    Attributes:
        scratch: a folder of its own, on its own disk.
        advance: called for every frame that is done.
        cancel: asked for every frame.
    """

    scratch: Path
    advance: Callable[[], None] = lambda: None
    cancel: CancelToken | None = None

    def progress(self, now: Progress) -> None:
        if now.stage == "correcting":
            self.advance()


class OutOfMemoryError(Exception):
    """A task needs more memory than there is."""


def perform(task: Task, desk: Desk) -> Value:
    """Do a task.

    Raises:
        ValueError, OSError: the clip cannot be corrected; the message says why.
        OutOfMemoryError: it may be, with more memory.
    """
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *rest: None  # the notes of a result have them
        try:
            with at_most_threads(1) if task.frugal else nullcontext():
                if isinstance(task, SegmentTask):
                    return _segment(task, desk)
                if isinstance(task, JoinTask):
                    return _join(task, desk)
                assert isinstance(task, ClipTask)
                return _clip(task, desk)
        except Exception as error:
            if is_out_of_memory(error):
                raise OutOfMemoryError(NO_MEMORY) from error
            raise


def _clip(task: ClipTask, desk: Desk) -> Value:
    """Find the readout and divide a clip, or correct it at once."""
    started = time.perf_counter()
    source = fetch(task.clip.source, desk.scratch / "staged")
    unsure: list[float] = []
    output = _unfinished(task, desk)
    job = task.settings.options.job(
        source,
        output,
        overwrite=True,
        chosen=None if task.readout is None else readout_from_json(task.readout),
        progress=desk.progress,
        cancel=desk.cancel,
        on_frame=lambda corrected: unsure.append(_unsure(corrected)),
    )
    sha256 = file_sha256(source)
    lessening = task.lessening or Lessening(task.settings.options.strength)
    undivided = task.undivided
    if not undivided and task.settings.segment and not _keeps_all(task, job, lessening):
        try:
            table = frames_to_divide(job, task.settings.segment)
        except FrameRangeError as error:
            undivided = "" if str(error) == SHORT else str(error)
        else:
            present = tuple(line["number"] for line in task.segments if _is_whole(line, task, desk))
            notes = tuple(job.tally.notes)
            return ClipDivided(readout_for_json(job.chosen), table, sha256, present, notes)
    if lessening.tries:
        lessening.tell(job)
    result = correct_job(job, task.settings.options, lessening)
    del unsure[: len(unsure) - (0 if result.copied else result.frames)]  # of tries that were given up
    return _finished(task, desk, job, result, sha256, unsure, time.perf_counter() - started, undivided=undivided)


def _keeps_all(task: ClipTask, job: ClipJob, lessening: Lessening) -> bool:
    options = task.settings.options
    return options.corrector(job, lessening.strength).changes_nothing


def _is_whole(line: dict[str, Any], task: Task, desk: Desk) -> bool:
    """Whether a segment of an earlier run is there as it was written."""
    for kind in ("file", "record"):
        name = below(task.folder, line[kind])
        if state_of(name) is None:
            return False
        local = fetch(name, desk.scratch / "segment") if is_remote(name) else Path(name)
        if file_sha256(local) != line[f"{kind}_sha256"]:
            return False
    return True


def _segment(task: SegmentTask, desk: Desk) -> Value:
    source = fetch(task.clip.source, desk.scratch / "staged")
    readout = readout_from_json(task.readout)
    name = segment_name(task.lessening, task.segment.number)
    folder = desk.scratch / "segments" if is_remote(task.folder) else Path(task.folder)
    path = folder / name
    _mark_begun(task, folder, path.stem)
    job = task.settings.options.job(
        source, path.with_suffix(Path(task.clip.relative).suffix), overwrite=True, chosen=readout,
        progress=desk.progress, cancel=desk.cancel,
    )  # fmt: skip
    try:
        record = correct_segment(
            job, task.settings.options, task.segment, task.part, path, strength=task.lessening.strength
        )
    except FrameRangeError as error:
        return Undividable(str(error))
    except NotBetterError as error:
        return NotBetter(task.lessening.after(job, error.checked))
    line = {
        "number": task.segment.number,
        "first": task.segment.first,
        "end": task.segment.end,
        "lead": task.segment.lead,
        "frames": task.segment.end - task.segment.first,
        "first_pts": record.first_pts,
        "last_pts": record.last_pts,
        "file": name,
        "file_sha256": file_sha256(path),
        "record": path.with_suffix(".json").name,
        "record_sha256": file_sha256(path.with_suffix(".json")),
        "seconds": round(record.seconds, 3),
    }
    if is_remote(task.folder):
        for each in (path, path.with_suffix(".json")):
            put(each, below(task.folder, each.name))
    return SegmentDone(line)


def segment_name(lessening: Lessening, number: int) -> str:
    """The name of a segment's file: by the try that it belongs to, and its number."""
    return f"{lessening.tries}-{number:06d}.segment"


def _mark_begun(task: SegmentTask, folder: Path, stem: str) -> None:
    """Leave an empty file that says which process has begun a segment: whatever is killed, tries can be counted."""
    mark = folder / f"{stem}.{os.getpid()}-{uuid4().hex[:8]}{BEGUN}"
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()
    if is_remote(task.folder):
        put(mark, below(task.folder, mark.name))


def _join(task: JoinTask, desk: Desk) -> Value:
    started = time.perf_counter()
    source = fetch(task.clip.source, desk.scratch / "staged")
    paths = [_local_segment(task, desk, segment.number) for segment in task.segments]
    records = [SegmentRecord.read(path.with_suffix(".json")) for path in paths]
    unproven = [after.segment for before, after in pairwise(records) if not lead_is_enough(before, after)]
    if unproven:
        return LeadTooShort(tuple(segment.longer_lead() for segment in unproven))
    job = task.settings.options.job(
        source, _unfinished(task, desk), overwrite=True, chosen=readout_from_json(task.readout), cancel=desk.cancel
    )
    for note in task.notes:
        job.tally.note(note)
    if task.lessening.tries:
        task.lessening.tell(job)
    try:
        result = join_clip(job, task.settings.options, task.table, paths, records, task.lessening)
    except NotBetterError as error:
        return NotBetter(task.lessening.after(job, error.checked))
    unsure = [share for record in records for share in record.unsure]
    seconds = sum(record.seconds for record in records) + time.perf_counter() - started
    begun = sum(name.endswith(BEGUN) for _, name in files_below(task.folder))
    done = _finished(
        task, desk, job, result, file_sha256(source), unsure, seconds,
        segments=len(records), begun=begun, readout=task.readout,
    )  # fmt: skip
    remove_folder(task.folder)
    return done


def _local_segment(task: JoinTask, desk: Desk, number: int) -> Path:
    name = segment_name(task.lessening, number)
    if not is_remote(task.folder):
        return Path(task.folder, name)
    folder = desk.scratch / "join" / f"{number:06d}"
    record = fetch(below(task.folder, str(Path(name).with_suffix(".json"))), folder / "record")
    file = fetch(below(task.folder, name), folder / "file")
    return file.rename(record.with_suffix(".segment"))


def _unfinished(task: Task, desk: Desk) -> Path:
    """Where an output is written before it gets its name; what a killed worker left there is replaced."""
    folder = desk.scratch / "output" if is_remote(task.folder) else Path(task.folder)
    return folder / f"output{Path(task.clip.relative).suffix}"


def _finished(
    task: Task,
    desk: Desk,
    job: ClipJob,
    result: VideoResult,
    sha256: str,
    unsure: list[float],
    seconds: float,
    *,
    segments: int = 0,
    begun: int = 0,
    undivided: str = "",
    readout: dict[str, Any] | None = None,
) -> ClipDone:
    """Give an output its name, and gather what is told about it."""
    thumbnail = thumbnail_of(job.source, result.output, IDENTITY if job.info is None else job.info.matrix)
    written_sha256, written = file_sha256(result.output), result.output.stat().st_size
    put(result.output, task.clip.output, overwrite=task.overwrite)
    fps = job.info.fps if job.info is not None else job.fps
    figures = {
        **result.figures(),
        "output": task.clip.output,
        "sha256": sha256,
        "written": written,
        "written_sha256": written_sha256,
        "readout": readout or readout_for_json(job.chosen),
        "readout_ms": None if fps is None else round(result.readout.milliseconds(fps), 3),
        "unsure_parts": unsure_parts(unsure, fps),
        "notes": list(result.notes),
        "seconds": round(seconds, 3),
        "segments": segments,
        "segments_begun": begun,
        "undivided": undivided,
        "thumbnail": thumbnail,
    }
    return ClipDone(figures, result.frames)


def _unsure(corrected: Corrected) -> float:
    return 0.0 if corrected.unchanged else round(corrected.unsure, 4)


def unsure_parts(shares: list[float], fps: float | None) -> list[dict[str, float]]:
    """Stretches of frames of which much is unsure: from and to in seconds, and the mean share of unsure pixels."""
    parts: list[dict[str, float]] = []
    start: int | None = None
    for number, share in enumerate([*shares, 0.0]):
        if share >= UNSURE and start is None:
            start = number
        elif share < UNSURE and start is not None:
            rate = fps or 1.0
            mean = sum(shares[start:number]) / (number - start)
            parts.append({"from": round(start / rate, 3), "to": round(number / rate, 3), "unsure": round(mean, 3)})
            start = None
    return parts
