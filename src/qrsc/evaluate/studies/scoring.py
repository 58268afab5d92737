"""Variants scored on data sets by `qrsc.evaluate`, sequence by sequence; what was scored before is not scored again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from qrsc import __version__
from qrsc.data.dataset import TruthInstant
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.flows import SharedFlow
from qrsc.evaluate.methods import METHODS, Method
from qrsc.evaluate.run import RESUME_FILE, Plan, evaluate
from qrsc.evaluate.scores import FrameScore, score_from_dict
from qrsc.evaluate.studies.entries import Variant
from qrsc.evaluate.studies.variants import identity, method_of


@dataclass(frozen=True)
class Settings:
    """How all variants of a study are scored.

    Attributes:
        flow: that all share.
        at: the instant of the truth.
        metrics: from `qrsc.evaluate.scores.METRICS`.
        device: where frames are corrected and measured.
        flow_folder: keeps flows from run to run.
        record: folder that keeps the figures of every variant on every finished sequence.
    """

    flow: str
    at: TruthInstant
    metrics: Sequence[str]
    device: torch.device | str = "cpu"
    flow_folder: Path | None = None
    record: Path | None = None


def score_variants(
    sets: Mapping[str, Sequence[SequenceFiles]],
    variants: Sequence[Variant],
    settings: Settings,
    advance: Callable[[str, int], None] = lambda name, frames: None,
) -> list[FrameScore]:
    """The figures of every frame by every variant whose weights are there, under the names of sets and variants.

    A sequence goes through all variants side by side, so that they share its flows.

    Args:
        sets: sequences by the name of their data set.
        advance: called with the name of the data set and the number of frames that are done.
    """
    known = {variant.name: identity(variant) for variant in variants if variant.missing is None}
    entries = {identity(each): method_of(each) for each in variants if each.missing is None and each.method is None}
    if not known:
        raise ValueError(
            "there is nothing to score: of all variants the weights are missing ("
            f"{', '.join(str(variant.missing) for variant in variants)})."
        )
    record = _Record(settings)
    scores: list[FrameScore] = []
    with _registered(entries):
        for title, sequences in sets.items():
            for sequence in sequences:
                if not any(settings.at in frame.files for frame in sequence.frames):
                    advance(title, len(sequence.frames))
                    continue
                found = _scored(title, sequence, set(known.values()), settings, record, advance)
                scores += [
                    replace(score, set=title, method=name)
                    for name, known_as in known.items()
                    for score in found[known_as]
                ]
    return scores


def _scored(
    title: str,
    sequence: SequenceFiles,
    identities: set[str],
    settings: Settings,
    record: _Record,
    advance: Callable[[str, int], None],
) -> dict[str, list[FrameScore]]:
    """The figures of a sequence, by the variants' identities."""
    found = {each: record.scores(sequence, each) for each in sorted(identities)}
    pending = [each for each, scores in found.items() if scores is None]
    if not pending:
        advance(title, len(sequence.frames))
    else:
        plan = Plan(
            title,
            [sequence],
            methods=pending,
            instants=[settings.at],
            metrics=settings.metrics,
            flow=settings.flow,
            device=settings.device,
            flow_folder=settings.flow_folder,
        )
        scores = evaluate(plan, lambda frames: advance(title, frames))
        for each in pending:
            mine = [score for score in scores if score.method == each]
            record.add(sequence, each, mine)
            found[each] = mine
    return {each: scores for each, scores in found.items() if scores is not None}


@contextmanager
def _registered(entries: Mapping[str, Callable[[SharedFlow], Method]]) -> Iterator[None]:
    """Methods that can be asked for by name for a while."""
    METHODS.update(entries)
    try:
        yield
    finally:
        for name in entries:
            METHODS.pop(name, None)


class _Record:
    """Figures of finished sequences, a line of JSON for each sequence and variant."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = None if settings.record is None else settings.record / RESUME_FILE
        self._found: dict[str, list[FrameScore]] = {}
        if self._path is not None and self._path.is_file():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                except json.JSONDecodeError:
                    continue  # the last line of a run that was cut off in the middle of it
                self._found[entry["key"]] = [score_from_dict(values) for values in entry["scores"]]

    def scores(self, sequence: SequenceFiles, known_as: str) -> list[FrameScore] | None:
        return self._found.get(self._key(sequence, known_as))

    def add(self, sequence: SequenceFiles, known_as: str, scores: list[FrameScore]) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        entry = {"key": self._key(sequence, known_as), "scores": [score.as_dict() for score in scores]}
        with self._path.open("a", encoding="utf-8") as file:
            # Started on a line of its own: a run that was cut off may have left half a line.
            file.write("\n" * (file.tell() > 0) + json.dumps(entry))

    def _key(self, sequence: SequenceFiles, known_as: str) -> str:
        """What the figures depend on, as far as this program can know."""
        told = [
            __version__,
            str(sequence.folder.resolve()),
            [(frame.number, sorted(frame.files)) for frame in sequence.frames],
            repr(sequence.readout),
            known_as,
            self._settings.at,
            list(self._settings.metrics),
            self._settings.flow,
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
