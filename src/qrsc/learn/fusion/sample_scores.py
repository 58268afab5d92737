"""Scores of fusions on samples: PSNR over all pixels and over those occluded in the centre frame, and more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from qrsc.fusion import Fusion
from qrsc.learn.fusion.samples import FusionSamples

# Functions of pictures and their truths, `[B, 3, H, W]` each, to one figure for each picture, `[B]`; by heading.
Measures = Mapping[str, Callable[[Tensor, Tensor], Tensor]]


@dataclass(frozen=True)
class FusionScore:
    """PSNR in dB, and further measures.

    Attributes:
        everywhere: mean over the samples.
        hidden: over the pixels of all samples that are occluded in the centre frame; NaN if there is none.
        seen: over the pixels of all samples that are visible there; NaN if there is none.
        worst: smallest gain of a sample over the centre frame alone.
        figures: the means of further measures over the samples for which they exist, by heading.
    """

    everywhere: float
    hidden: float
    seen: float
    worst: float
    figures: Mapping[str, float] = field(default_factory=dict)


@torch.no_grad()
def score_fusion(
    fusion: Fusion | None,
    samples: FusionSamples,
    batch: int = 8,
    chosen: slice | None = None,
    measures: Measures | None = None,
) -> FusionScore:
    """Score a fusion.

    Args:
        fusion: to be scored; None for the centre frame alone.
        samples: with truth.
        batch: samples that are fused at a time.
        chosen: the frames of the samples that it gets; all if None.
        measures: further measures, such as SSIM.
    """
    errors, single = [], []
    measured: dict[str, list[Tensor]] = {heading: [] for heading in measures or {}}
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        aligned = part.aligned(chosen)
        alone = aligned.frames[:, aligned.centre]
        fused = alone if fusion is None else fusion(aligned).image
        fused = fused.clamp(0.0, 1.0)
        errors.append((fused - part.truth).square().mean(1, keepdim=True))
        for heading, measure in (measures or {}).items():
            measured[heading].append(measure(fused, part.truth))
        single.append((alone - part.truth).square().mean((1, 2, 3)))
    error = torch.cat(errors)  # [N, 1, H, W]
    each = _decibels(error.mean((1, 2, 3)))
    seen = samples.seen
    return FusionScore(
        float(each.mean()),
        float(_decibels(error[~seen].mean())) if bool((~seen).any()) else math.nan,
        float(_decibels(error[seen].mean())) if bool(seen.any()) else math.nan,
        float((each - _decibels(torch.cat(single))).min()),
        {heading: float(torch.cat(values).nanmean()) for heading, values in measured.items()},
    )


def fusion_table(scores: Mapping[str, FusionScore]) -> str:
    """A Markdown table of scores by name."""
    more = list(dict.fromkeys(heading for score in scores.values() for heading in score.figures))
    headings = ["PSNR", "hidden", "seen", "least gain", *more]
    lines = [f"| fusion | {' | '.join(headings)} |", "| --- |" + " ---: |" * len(headings)]
    for name, score in scores.items():
        cells = [f"{value:.2f}" for value in (score.everywhere, score.hidden, score.seen)]
        cells += [f"{score.worst:+.2f}", *(f"{score.figures.get(heading, math.nan):.4f}" for heading in more)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _decibels(squared: Tensor) -> Tensor:
    return -10.0 * torch.log10(squared.clamp_min(1e-10))
