"""End-point errors of flows, by the length of the motion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.flow.protocol import FlowEstimator
from qrsc.learn.flow.pairs import FlowPairs

# Length of the true motion in pixels: from, to.
BINS: tuple[tuple[float, float], ...] = ((0.0, 10.0), (10.0, 40.0), (40.0, math.inf))


@dataclass(frozen=True)
class FlowScore:
    """End-point errors in pixels: mean distances between estimated and true flow.

    Attributes:
        all_pixels: over all pixels that have a true flow.
        visible: over those whose point is visible in the other frame.
        by_length: over the visible ones, for each of `BINS`; NaN for an empty bin.
        within_one: share of the visible ones with an error below 1 pixel.
    """

    all_pixels: float
    visible: float
    by_length: tuple[float, ...]
    within_one: float


@torch.no_grad()
def score_flow(estimator: FlowEstimator, pairs: FlowPairs, batch: int = 4) -> FlowScore:
    """Score an estimator on both flows of all pairs, `batch` pairs at a time."""
    errors, lengths, visible, known = [], [], [], []
    for start in range(0, len(pairs), batch):
        part = pairs[start : start + batch]
        found = estimator(part.first, part.second)
        truth = part.both_flows
        errors.append(torch.linalg.vector_norm(torch.cat([found.forward, found.backward]) - truth, dim=1).flatten())
        lengths.append(torch.linalg.vector_norm(truth, dim=1).flatten())
        visible.append(part.both_visible.flatten())
        known.append(part.both_known.flatten())
    error, length, seen = torch.cat(errors), torch.cat(lengths), torch.cat(visible)
    by_length = tuple(_mean(error, seen & (length >= low) & (length < high)) for low, high in BINS)
    return FlowScore(_mean(error, torch.cat(known)), _mean(error, seen), by_length, _mean((error < 1).float(), seen))


def score_table(scores: Mapping[str, FlowScore]) -> str:
    """A Markdown table of scores by name."""
    spans = [f"{low:g}-{high:g} px" if math.isfinite(high) else f"{low:g}+ px" for low, high in BINS]
    lines = [_line(["flow", "all", "visible", *spans, "< 1 px"]), _line(["---"] * (4 + len(spans)))]
    for name, score in scores.items():
        values = [score.all_pixels, score.visible, *score.by_length]
        lines.append(_line([name, *(f"{value:.3f}" for value in values), f"{100 * score.within_one:.1f} %"]))
    return "\n".join(lines)


def _mean(values: Tensor, chosen: Tensor) -> float:
    return float(values[chosen].double().mean()) if bool(chosen.any()) else math.nan


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
