"""The figures of one corrected frame, and the means of many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.data.dataset import LoadedFrame, TruthInstant
from qrsc.evaluate.methods.results import Result, frame_of
from qrsc.evaluate.metrics.measures import Measure, PrecedingFrame, ScoredFrame
from qrsc.evaluate.metrics.metric_table import FIGURES, METRICS, require_metrics


@dataclass(frozen=True)
class FrameScore:
    """The figures of one frame by one method.

    Attributes:
        set: title of the data set.
        sequence: name of the sequence.
        frame: number of the frame.
        at: the instant of the truth.
        method: name of the method.
        figures: by the names in `metric_table.FIGURES`, without those that do not apply.
    """

    set: str
    sequence: str
    frame: int
    at: TruthInstant
    method: str
    figures: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For a line of JSON; `score_from_dict` is the inverse."""
        return asdict(self)


def score_from_dict(values: Mapping[str, Any]) -> FrameScore:
    """The inverse of `FrameScore.as_dict`."""
    return FrameScore(**values)


@dataclass
class Scorer:
    """Measures the frames of one clip; in order, if a metric compares consecutive frames.

    Attributes:
        title: of the data set.
        sequence: name of the sequence.
        folder: of the sequence.
        measures: from `load_measures`.
    """

    title: str
    sequence: str
    folder: Path
    measures: Mapping[str, Measure]
    _last: dict[TruthInstant, tuple[int, PrecedingFrame]] = field(default_factory=dict)

    @torch.no_grad()
    def score(self, loaded: LoadedFrame, at: TruthInstant, results: Mapping[str, Result]) -> list[FrameScore]:
        """The figures of all methods for one frame that has a truth at the instant."""
        truth, number = loaded.truths[at], loaded.files.number
        last = self._last.get(at)
        frame = ScoredFrame(
            self.folder,
            number,
            at,
            truth,
            pictures={name: _checked_frame(name, result, truth) for name, result in results.items()},
            correction_fields={
                name: result.correction_field for name, result in results.items() if not isinstance(result, Tensor)
            },
            mask=loaded.masks.get(at),
            preceding=last[1] if last is not None and last[0] == number - 1 else None,
        )
        figures: dict[str, dict[str, float]] = {name: {} for name in results}
        for measure in self.measures.values():
            for figure, values in measure(frame).items():
                for own, value in zip(figures.values(), values, strict=True):
                    if not math.isnan(value):
                        own[figure] = value
        if needs_order(self.measures):
            self._last[at] = number, PrecedingFrame(truth, frame.pictures)
        return [FrameScore(self.title, self.sequence, number, at, name, own) for name, own in figures.items()]


def needs_order(metrics: Mapping[str, Measure] | Sequence[str]) -> bool:
    """Whether one of some metrics compares consecutive frames."""
    return any(METRICS[name].in_order for name in metrics)


def load_measures(metrics: Sequence[str]) -> dict[str, Measure]:
    """The functions of some metrics, in the order of the table.

    Raises:
        ValueError: a name is unknown, or what a metric needs is not installed.
    """
    require_metrics(metrics)
    return {name: metric.load() for name, metric in METRICS.items() if name in metrics}


def mean_rows(scores: Sequence[FrameScore]) -> list[dict[str, Any]]:
    """One row for each data set, instant and method, in the order they come in: the means of all figures over frames.

    A figure that does not apply to a frame is not counted for it; one that applies to none is left out.
    """
    groups: dict[tuple[str, str, str], list[FrameScore]] = {}
    for score in scores:
        groups.setdefault((score.set, score.at, score.method), []).append(score)
    rows = []
    for (title, at, method), members in groups.items():
        row: dict[str, Any] = {"set": title, "method": method, "at": at, "frames": len(members)}
        for figure in FIGURES:
            values = [score.figures[figure] for score in members if figure in score.figures]
            if values:
                row[figure] = sum(values) / len(values)
        rows.append(row)
    return rows


def _checked_frame(name: str, result: Result, truth: Tensor) -> Tensor:
    frame = frame_of(result)
    if not isinstance(frame, Tensor) or frame.shape != truth.shape:
        came = list(frame.shape) if isinstance(frame, Tensor) else type(frame).__name__
        raise ValueError(f"the method {name} must give frames {list(truth.shape)} like those it was given; got {came}.")
    return frame.to(truth.device)
