"""Score variants on data sets, sequence by sequence; figures that the record holds are not computed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.dataset import TruthInstant
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import METHODS, MethodTable, method_fingerprint
from qrsc.evaluate.methods.shared_flow import shared_flow_fingerprint
from qrsc.evaluate.run.plan import Plan, count_frames, evaluate
from qrsc.evaluate.run.record import Record, record_key
from qrsc.evaluate.run.scores import FrameScore
from qrsc.evaluate.studies.entries import Variant
from qrsc.evaluate.studies.variants import identity, method_of


@dataclass(frozen=True)
class Settings:
    """How all variants of a study are scored.

    Attributes:
        flow: name of the flow that all share.
        at: the instant of the truth.
        metrics: from `qrsc.evaluate.metrics.metric_table.METRICS`.
        device: where frames are corrected and measured.
        flow_folder: keeps flows from run to run.
        record: folder that keeps the figures of every variant on every finished sequence.
        table: the methods that variants can name.
    """

    flow: str
    at: TruthInstant
    metrics: Sequence[str]
    device: torch.device | str = "cpu"
    flow_folder: Path | None = None
    record: Path | None = None
    table: MethodTable = field(default_factory=lambda: METHODS)

    def recorded(self) -> dict[str, Any]:
        """What figures depend on besides the method and the sequence, for the keys of the record."""
        return {
            "at": self.at,
            "metrics": list(self.metrics),
            "flow": shared_flow_fingerprint(self.flow),
            "device": torch.device(self.device).type,
        }


def score_variants(
    sets: Mapping[str, Sequence[SequenceFiles]],
    variants: Sequence[Variant],
    settings: Settings,
    *,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> list[FrameScore]:
    """The figures of every frame by every variant whose weights exist, under the names of sets and variants.

    A sequence goes through all variants side by side, so that they share its flows.

    Args:
        sets: sequences by the name of their data set.
        progress: called with a `Progress` for every frame; each data set is a stage.
        cancel: asked for every frame; once it is set the call raises `Cancelled`.
    """
    known = {variant.name: identity(variant) for variant in variants if variant.missing is None}
    if not known:
        raise ValueError(
            "there is nothing to score: of all variants the weights are missing ("
            f"{', '.join(str(variant.missing) for variant in variants)})."
        )
    networks = {identity(each): method_of(each) for each in variants if each.missing is None and each.method is None}
    settings = replace(settings, table={**settings.table, **networks})
    keys = _Keys({each: method_fingerprint(each, settings.table) for each in known.values()}, settings.recorded())
    record = Record(settings.record)
    scores: list[FrameScore] = []
    for title, sequences in sets.items():
        stage = Stage(title, sum(len(sequence.frames) for sequence in sequences), progress, cancel)
        for sequence in sequences:
            if not any(settings.at in frame.files for frame in sequence.frames):
                count_frames(stage, len(sequence.frames))
                continue
            found = _scored(title, sequence, keys, settings, record, stage)
            scores += [
                replace(score, set=title, method=name) for name, known_as in known.items() for score in found[known_as]
            ]
    return scores


@dataclass(frozen=True)
class _Keys:
    """The keys of the record: fingerprints of the methods by their identities, and what all have in common."""

    fingerprints: Mapping[str, str]
    common: Mapping[str, Any]

    def of(self, sequence: SequenceFiles, known_as: str) -> str:
        return record_key(sequence, {"method": self.fingerprints[known_as], **self.common})


def _scored(
    title: str,
    sequence: SequenceFiles,
    keys: _Keys,
    settings: Settings,
    record: Record,
    stage: Stage,
) -> dict[str, list[FrameScore]]:
    """The figures of a sequence, by the variants' identities."""
    found = {each: record.scores(keys.of(sequence, each)) for each in sorted(keys.fingerprints)}
    pending = [each for each, scores in found.items() if scores is None]
    if not pending:
        count_frames(stage, len(sequence.frames))
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
            table=settings.table,
        )
        scores = evaluate(plan, progress=lambda each: stage.advance())
        for each in pending:
            mine = [score for score in scores if score.method == each]
            record.add(keys.of(sequence, each), mine)
            found[each] = mine
    return {each: scores for each, scores in found.items() if scores is not None}
