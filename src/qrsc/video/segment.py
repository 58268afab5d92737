"""A part of a long clip, corrected by itself: every frame as it would be in one run over the whole clip.

What a stream knows at a frame goes back several frames: the camera path, the frames that are fused, cuts, repeats. So
each segment begins some frames early, in a lead whose results are not written. How far back is enough depends on the
clip: a still picture that lasts is the result of its first frame. Each segment therefore keeps marks of what its stream
knew at its beginning and its end. Where those of neighbours differ, the later one is done again with a longer lead
(see `lead_is_enough`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qrsc.backend.memory import freed_memory_kept
from qrsc.backend.progress import Stage
from qrsc.backend.threads import at_most_threads
from qrsc.files.documents import read_json
from qrsc.media.atomic import atomic_file
from qrsc.media.frame_ranges import FrameRangeError, FrameTable, list_frames_of, read_range
from qrsc.media.probe import ClipInfo, opened
from qrsc.media.reader import ReadReport
from qrsc.media.segments import undivided_reason
from qrsc.media.writer import open_segment
from qrsc.pipeline import Corrected, Seconds, TimedFrame
from qrsc.pipeline.window import FrameMark
from qrsc.video.checked_run import CheckedRun
from qrsc.video.clip_job import ClipJob
from qrsc.video.concurrent_io import concurrent_correction
from qrsc.video.correction_options import CorrectionOptions
from qrsc.video.frame_distortion import Bending
from qrsc.video.picture import picture_of
from qrsc.video.result import Tally
from qrsc.video.result_check import ResultCheck
from qrsc.video.source import SourceFrame, VideoSource
from qrsc.video.target import VideoTarget

LEAD = 18  # frames before a segment that are read, too
SETTLED = 10  # frames before a segment whose marks have to be those of the segment before
# Frames behind a segment that may be read: its last results need six frames that differ, and each may have repeats.
TAIL = 64
SHORT = "it is short"


@dataclass(frozen=True)
class Segment:
    """Frames of a clip that are corrected together.

    Attributes:
        number: of the segment.
        first, end: numbers of its first frame, and of the one after its last.
        lead: frames before it that are read, too.
    """

    number: int
    first: int
    end: int
    lead: int = LEAD

    @property
    def reads_from(self) -> int:
        """The number of the first frame that is read."""
        return max(0, self.first - self.lead)

    def longer_lead(self) -> Segment:
        """The same frames, with twice the lead."""
        return replace(self, lead=2 * self.lead)

    def part_of(self, table: FrameTable) -> FrameTable:
        """What is read of a clip."""
        return table.part(self.reads_from, min(table.first + len(table), self.end + TAIL))


def divide(table: FrameTable, length: int) -> list[Segment]:
    """Segments of about so many frames, that begin at key frames of the clip where there are any nearby."""
    if length < 2:
        raise ValueError(f"a segment has 2 frames or more; got {length!r}.")
    count = max(1, round(len(table) / length))
    starts = [0]
    for number in range(1, count):
        wanted = number * len(table) // count
        near = table.keys[np.abs(table.keys - wanted) <= length // 3]
        nearest = int(near[np.abs(near - wanted).argmin()]) if len(near) else wanted
        starts.append(max(nearest, starts[-1] + 2))
    return [Segment(n, a, b) for n, (a, b) in enumerate(zip(starts, [*starts[1:], len(table)], strict=True))]


def frames_to_divide(job: ClipJob, length: int) -> FrameTable:
    """All frames of a clip that is to be divided.

    Raises:
        FrameRangeError: it has to be corrected as a whole; the message says why.
    """
    if job.info is None or job.encoding is None:
        raise FrameRangeError("it is a folder of images")
    if job.info.frames is not None and job.info.frames < 1.5 * length:
        raise FrameRangeError(SHORT)
    if job.start is not None or job.end is not None or job.compare is not None:
        raise FrameRangeError("a part of it, or a comparison, was asked for")
    reason = undivided_reason(job.encoding)
    if reason:
        raise FrameRangeError(reason)
    table = list_frames_of(job.info)
    if len(table) < 1.5 * length:
        raise FrameRangeError(SHORT)
    return table


@dataclass(frozen=True)
class SegmentRecord:
    """What became of a segment; goes into a file of JSON beside it.

    Attributes:
        segment: which one.
        first_pts, last_pts, last_duration: of its frames, in the clip's time base.
        head, tail: what the stream knew of the last frames before its first one, and before its end.
        links: what bends the picture from frame to frame; see `ResultCheck`.
        tally: of its frames.
        unsure: share of the pixels of each frame whose motion is uncertain.
        spent: seconds by kind of work.
        seconds: for everything.
    """

    segment: Segment
    first_pts: int
    last_pts: int
    last_duration: int
    head: list[list[int]]
    tail: list[list[int]]
    links: list[Bending | None]
    tally: dict[str, Any]
    unsure: list[float]
    spent: Mapping[str, float]
    seconds: float

    def write(self, path: Path) -> None:
        """Write it as JSON, exactly."""
        content = {**vars(self), "segment": asdict(self.segment)}
        content["links"] = [None if link is None else [part.tolist() for part in link] for link in self.links]
        with atomic_file(path) as work:
            work.write_text(json.dumps(content))

    @classmethod
    def read(cls, path: Path) -> SegmentRecord:
        """Read what `write` wrote.

        Raises:
            OSError, ValueError: the file is missing, or not such a record.
        """
        content = read_json(path)
        try:
            links = [None if link is None else Bending(*map(np.array, link)) for link in content.pop("links")]
            return cls(segment=Segment(**content.pop("segment")), links=links, **content)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} does not describe a segment: {error}.") from error


def lead_is_enough(before: SegmentRecord, after: SegmentRecord) -> bool:
    """Whether a segment began early enough to be what it is in a run over the whole clip, as the one before it is."""
    if after.segment.reads_from == 0:
        return True
    known = after.head[-SETTLED:]
    return (
        len(known) == SETTLED and known == before.tail[-SETTLED:] and not known[0][2]
    )  # which is frozen: see FrameMark


def correct_segment(
    job: ClipJob,
    options: CorrectionOptions,
    segment: Segment,
    part: FrameTable,
    path: Path,
    *,
    strength: float,
    on_frame: Callable[[SourceFrame, Corrected], None] | None = None,
) -> SegmentRecord:
    """Correct a segment of a clip into a file of its own.

    Args:
        job: the clip, with the readout that all segments share.
        options: of the correction.
        segment: which part of it.
        part: its frames with those around it; see `Segment.part_of`.
        path: the file; its record goes to the same name with the suffix `.json`, before it gets its own.
        strength: of the correction.
        on_frame: called with every frame that is written.

    Raises:
        FrameRangeError: the clip has to be corrected as a whole.
        NotBetterError: its first segment shows clearly that the result is worse than the input.
    """
    assert job.info is not None  # see `frames_to_divide`
    assert job.encoding is not None
    corrector = options.corrector(job, strength)
    stream, own = corrector.new_stream(), Tally()
    work = _Work(segment, job, strength)
    threads = options.threads(job)
    with ExitStack() as stack:
        if threads is not None:
            stack.enter_context(at_most_threads(threads))
        source = stack.enter_context(_opened_range(job.source, job.info, part, job.device, corrector.seconds))
        stack.enter_context(freed_memory_kept())
        edges = options.edges(source.size)
        unfinished = stack.enter_context(atomic_file(path))
        writer = stack.enter_context(open_segment(unfinished, job.encoding, edges.size, job.info))
        target = VideoTarget(writer, corrector.seconds, job.encoding.layout.bits)
        stage = Stage("correcting", segment.end - segment.first, job.progress, job.cancel)

        def corrections(frames: Iterator[TimedFrame]) -> Iterator[Corrected | None]:
            return stream.corrected_from(segment.first - part.first, frames)

        with concurrent_correction(
            source, corrections, target.take, work.check, corrector.seconds, job.cancel
        ) as (results, pass_on, pass_to_check):  # fmt: skip
            for number, (frame, corrected) in enumerate(results, part.first):
                if number == segment.first:
                    work.head = _marks(stream.marks_before(segment.first - part.first), part.first)
                if corrected is None:
                    continue
                pass_to_check((number, frame, corrected))
                if number < segment.first:
                    continue
                pass_on(picture_of(corrected, frame, edges))
                own.add(corrected)
                work.note(frame, corrected)
                if on_frame is not None:
                    on_frame(frame, corrected)
                stage.advance()
                if number == segment.end - 1:
                    break
        record = SegmentRecord(
            segment,
            int(part.stamps[segment.first - part.first]),
            int(part.stamps[segment.end - 1 - part.first]),
            work.last_duration,
            work.head,
            _marks(stream.marks_before(segment.end - part.first), part.first),
            work.links,
            own.counted(),
            work.unsure,
            corrector.seconds.spent,
            own.seconds,
        )
        record.write(path.with_suffix(".json"))
    return record


@dataclass
class _Work:
    """Gathers what a record holds beside its figures."""

    segment: Segment
    job: ClipJob
    strength: float
    head: list[list[int]] = field(default_factory=list)
    links: list[Bending | None] = field(default_factory=list)
    unsure: list[float] = field(default_factory=list)
    last_duration: int = 0
    _run: CheckedRun = field(init=False)
    _check: ResultCheck = field(init=False)

    def __post_init__(self) -> None:
        # That a result is worse is often clear early. Only the first segment has all frames up to there.
        lessens = not self.job.ordered and self.segment.first == 0
        self._run = CheckedRun(self.job, self.job.chosen.readout, self.strength, lessens=lessens)
        self._check = ResultCheck(self.job.chosen.readout)

    def check(self, result: tuple[int, SourceFrame, Corrected]) -> None:
        number, frame, corrected = result
        if corrected.repeats:
            return
        link = self._check.link(frame.frame, corrected, restarts=frame.restarts)
        if number >= self.segment.first:
            self.links.append(link)
            self._run.replay([link], (frame.frame.shape[-2], frame.frame.shape[-1]))

    def note(self, frame: SourceFrame, corrected: Corrected) -> None:
        self.unsure.append(round(corrected.unsure, 4))
        self.last_duration = int(getattr(getattr(frame.origin, "frame", None), "duration", 0) or 0)


def _marks(marks: list[FrameMark], first: int) -> list[list[int]]:
    """Marks for JSON, with the numbers that frames have in the clip."""
    return [[mark.number + first, *(int(each) for each in mark[1:])] for mark in marks]


@dataclass(frozen=True)
class _RangeSource(VideoSource):
    """A part of a video file, open."""

    part: FrameTable | None = None

    @property
    def frames(self) -> int:
        return 0 if self.part is None else len(self.part)

    def _read(self) -> Iterator[Any]:
        assert self.part is not None
        return read_range(self.container, self.info, self.part)


@contextmanager
def _opened_range(
    path: Path, info: ClipInfo, part: FrameTable, device: torch.device, seconds: Seconds
) -> Iterator[_RangeSource]:
    with opened(path) as container:
        source = _RangeSource(container, info, device, seconds, [], None, None, report=ReadReport(), part=part)
        try:
            yield source
        finally:
            source.close()
