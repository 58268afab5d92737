"""Where a clip stands in a batch: which of its tasks are done, and which are next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from qrsc.farm.inputs import Clip
from qrsc.farm.settings import Settings
from qrsc.farm.storage import FileState
from qrsc.farm.tasks import (
    ClipDivided,
    ClipTask,
    JoinTask,
    Json,
    LeadTooShort,
    SegmentTask,
    Task,
    lessening_from_json,
)
from qrsc.media.frame_ranges import FrameTable
from qrsc.video.checked_run import Lessening
from qrsc.video.segment import Segment, divide


@dataclass
class ClipState:
    """A clip that is being worked on.

    Attributes:
        clip: which one.
        state: of its input when it was begun.
        folder: for what is kept on the way.
        settings: of the batch.
        overwrite: replace an output that is there.
        lessening: tries that were no better than the input.
        restarts: how often its workers ended.
        under_way: tasks that have been begun.
    """

    clip: Clip
    state: FileState
    folder: str
    settings: Settings
    overwrite: bool
    lessening: Lessening
    readout: Json | None = None
    known_segments: tuple[Json, ...] = ()
    restarts: int = 0
    under_way: int = 0
    sha256: str = ""
    table: FrameTable | None = None
    notes: tuple[str, ...] = ()
    segments: list[Segment] = field(default_factory=list)
    done: set[int] = field(default_factory=set)

    def first_task(self, undivided: str = "") -> ClipTask:
        """Find the readout and divide the clip, or correct all of it."""
        return ClipTask(
            **self._common(),
            undivided=undivided,
            readout=self.readout,
            lessening=self.lessening,
            segments=() if undivided else self.known_segments,
        )

    def divided(self, value: ClipDivided) -> Iterator[Task]:
        """Take how a clip is divided, and give the tasks for what is missing."""
        self.readout, self.table, self.sha256, self.notes = value.readout, value.table, value.sha256, value.notes
        self.segments = divide(value.table, self.settings.segment)
        places = {(each.number, each.first, each.end) for each in self.segments}
        for line in self.known_segments:
            place = (line["number"], line["first"], line["end"])
            if line["number"] in value.present and place in places:
                self.done.add(line["number"])
                self.segments[line["number"]] = replace(self.segments[line["number"]], lead=line["lead"])
        if len(self.done) == len(self.segments):
            yield self.join_task()
        for segment in self.segments:
            if segment.number not in self.done:
                yield self._segment_task(segment)

    def lessened(self, lessening: Lessening) -> Iterator[Task]:
        """Begin again with less of a correction; with none of it, in one piece."""
        self.lessening, self.done, self.known_segments = lessening, set(), ()
        if lessening.strength == 0.0:
            yield self.first_task("nothing is corrected")
        else:
            yield from (self._segment_task(segment) for segment in self.segments)

    def segment_done(self, number: int) -> Iterator[Task]:
        """Take that a segment is done; the last one is followed by joining them."""
        self.done.add(number)
        if len(self.done) == len(self.segments):
            yield self.join_task()

    def again(self, value: LeadTooShort) -> Iterator[Task]:
        """Do segments again."""
        for segment in value.segments:
            self.segments[segment.number] = segment
            self.done.discard(segment.number)
            yield self._segment_task(segment)

    def belongs(self, task: Task) -> bool:
        """Whether a task is of the present try, and not of one that has been given up."""
        if isinstance(task, (SegmentTask, JoinTask)):
            return task.lessening.tries == self.lessening.tries
        return True

    def join_task(self) -> JoinTask:
        assert self.readout is not None
        assert self.table is not None
        return JoinTask(
            **self._common(),
            readout=self.readout,
            lessening=self.lessening,
            table=self.table,
            segments=tuple(self.segments),
            notes=self.notes,
        )

    def _segment_task(self, segment: Segment) -> SegmentTask:
        assert self.readout is not None
        assert self.table is not None
        part = segment.part_of(self.table)
        return SegmentTask(**self._common(), readout=self.readout, lessening=self.lessening, segment=segment, part=part)

    def _common(self) -> Json:
        return {"clip": self.clip, "folder": self.folder, "settings": self.settings, "overwrite": self.overwrite}


def begin(
    clip: Clip, state: FileState, folder: str, settings: Settings, *, overwrite: bool, clip_line: Json | None,
    lessened: Json | None, segments: tuple[Json, ...],
) -> ClipState:  # fmt: skip
    """A clip at its beginning, or where an earlier run left it.

    Args:
        clip, state, folder, settings, overwrite: as in `ClipState`.
        clip_line, lessened, segments: lines of the manifest about it that still hold.
    """
    lessening = Lessening(settings.options.strength) if lessened is None else lessening_from_json(lessened["lessening"])
    readout = None if clip_line is None else clip_line.get("readout")
    return ClipState(clip, state, folder, settings, overwrite, lessening, readout, segments)
