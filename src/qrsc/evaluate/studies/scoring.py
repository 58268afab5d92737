"""Variants scored on data sets by `qrsc.evaluate`, sequence by sequence; what was scored before is not scored again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from qrsc.data.dataset import TruthInstant
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import METHODS, Method
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.evaluate.run.record import Record, record_key
from qrsc.evaluate.run.scores import FrameScore
from qrsc.evaluate.studies.entries import Variant
from qrsc.evaluate.studies.variants import identity, method_of
from qrsc.weights import card, shipped_weights


@dataclass(frozen=True)
class Settings:
    """How all variants of a study are scored.

    Attributes:
        flow: that all share.
        at: the instant of the truth.
        metrics: from `qrsc.evaluate.run.scores.METRICS`.
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
    record = Record(settings.record)
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
    record: Record,
    advance: Callable[[str, int], None],
) -> dict[str, list[FrameScore]]:
    """The figures of a sequence, by the variants' identities."""
    found = {each: record.scores(_key(sequence, each, settings)) for each in sorted(identities)}
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
            record.add(_key(sequence, each, settings), mine)
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


def _key(sequence: SequenceFiles, known_as: str, settings: Settings) -> str:
    return record_key(sequence, [_told_apart(known_as), settings.at, list(settings.metrics), settings.flow])


def _told_apart(known_as: str) -> str:
    """A method that is a network from the package changes with the weights that come with it."""
    return f"{known_as}@{card(known_as)['sha256'][:16]}" if known_as in shipped_weights() else known_as
