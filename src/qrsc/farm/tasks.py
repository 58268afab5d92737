"""What a worker is told, and what it answers: plain values that travel between processes and machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qrsc.calibrate.decision import ChosenReadout
from qrsc.farm.inputs import Clip
from qrsc.farm.settings import Settings
from qrsc.media.frame_ranges import FrameTable
from qrsc.timing import Readout
from qrsc.video.checked_run import Lessening
from qrsc.video.result_check import CheckedResult
from qrsc.video.segment import Segment

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Something to do with a clip.

    Attributes:
        clip: which one.
        folder: for what is kept of it on the way; a path, or remote.
        settings: of the batch.
        overwrite: replace an output that is there.
        frugal: use one thread: the clip has ended its worker twice.
    """

    clip: Clip
    folder: str
    settings: Settings
    overwrite: bool = False
    frugal: bool = False


@dataclass(frozen=True, kw_only=True)
class ClipTask(Task):
    """Find the readout of a clip, and correct it if it is short.

    Attributes:
        undivided: why it is to be corrected in one piece; empty if it may be divided.
        readout: that was found before, for JSON; None to find it.
        lessening: tries that were no better than the input.
        segments: lines of the manifest about segments that should be there.
    """

    undivided: str = ""
    readout: Json | None = None
    lessening: Lessening | None = None
    segments: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SegmentTask(Task):
    """Correct a segment of a clip.

    Attributes:
        readout: that all segments share, for JSON.
        lessening: how strongly to correct.
        segment, part: which frames.
    """

    readout: Json
    lessening: Lessening
    segment: Segment
    part: FrameTable


@dataclass(frozen=True, kw_only=True)
class JoinTask(Task):
    """Check the segments of a clip together, and join them.

    Attributes:
        readout, lessening: as in `SegmentTask`.
        table: all frames.
        segments: all of them.
        notes: what has been said about the clip.
    """

    readout: Json
    lessening: Lessening
    table: FrameTable
    segments: tuple[Segment, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClipDone:
    """A clip has its output.

    Attributes:
        figures: everything about it, for the manifest and the report.
        frames: how many it has.
    """

    figures: Json
    frames: int


@dataclass(frozen=True)
class ClipDivided:
    """A clip is to be corrected in segments.

    Attributes:
        readout: to correct it with, for JSON.
        table: its frames.
        sha256: of the input.
        present: numbers of the segments that are there already, and whole.
        notes: what has been said about the clip.
    """

    readout: Json
    table: FrameTable
    sha256: str
    present: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SegmentDone:
    """A segment has its file.

    Attributes:
        line: about it, for the manifest.
    """

    line: Json


@dataclass(frozen=True)
class NotBetter:
    """A correction was no better than the input: the clip is to be corrected again, with less."""

    lessening: Lessening


@dataclass(frozen=True)
class Undividable:
    """The clip is to be corrected in one piece after all."""

    reason: str


@dataclass(frozen=True)
class LeadTooShort:
    """Segments that have to be done again with a longer lead."""

    segments: tuple[Segment, ...]


Value = ClipDone | ClipDivided | SegmentDone | NotBetter | Undividable | LeadTooShort


def readout_for_json(chosen: ChosenReadout) -> Json:
    """A chosen readout, with what the clip showed in a few figures."""
    found = chosen.found
    shown = None
    if found is not None:
        shown = {"gamma": found.gamma, "low": found.low, "high": found.high, "determined": found.determined}
    return {
        "gamma": chosen.readout.gamma,
        "scan": chosen.readout.scan,
        "message": chosen.message,
        "nothing_to_correct": chosen.nothing_to_correct,
        "calibration": shown,
    }


def readout_from_json(content: Json) -> ChosenReadout:
    """The readout that was found before."""
    readout = Readout(content["gamma"], content["scan"])
    return ChosenReadout(readout, content["message"], content["nothing_to_correct"])


def lessening_for_json(lessening: Lessening) -> Json:
    """For the manifest."""
    return {**vars(lessening), "checked": None if lessening.checked is None else vars(lessening.checked)}


def lessening_from_json(content: Mapping[str, Any]) -> Lessening:
    """From the manifest."""
    given = {name: content[name] for name in ("strength", "tries", "why")}
    checked = content["checked"]
    return Lessening(**given, checked=None if checked is None else CheckedResult(**checked))


@dataclass
class Outcome:
    """What became of a task, as the executor tells it.

    Attributes:
        number: of the task.
        value: its answer; None if it has none.
        error: why it failed, in a sentence; empty if it did not.
        died: its worker ended, more than once, or ran out of memory.
        restarts: how often its worker ended before it was done.
        where: the worker that did it, in words.
    """

    number: int
    value: Value | None = None
    error: str = ""
    died: bool = False
    restarts: int = 0
    where: str = ""
