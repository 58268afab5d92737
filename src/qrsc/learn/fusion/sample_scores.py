"""PSNR of fusions on samples: over all pixels, and over those that are occluded in the centre frame."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.fusion import Fusion
from qrsc.learn.fusion.samples import FusionSamples


@dataclass(frozen=True)
class FusionScore:
    """PSNR in dB.

    Attributes:
        everywhere: mean over the samples.
        hidden: over the pixels of all samples that are occluded in the centre frame; NaN if there is none.
        seen: over the pixels of all samples that are visible there; NaN if there is none.
        worst: smallest gain of a sample over the centre frame alone.
    """

    everywhere: float
    hidden: float
    seen: float
    worst: float


@torch.no_grad()
def score_fusion(
    fusion: Fusion | None, samples: FusionSamples, batch: int = 8, chosen: slice | None = None
) -> FusionScore:
    """Score a fusion.

    Args:
        fusion: to be scored; None for the centre frame alone.
        samples: with truth.
        batch: samples that are fused at a time.
        chosen: the frames of the samples that it gets; all if None.
    """
    errors, single = [], []
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        aligned = part.aligned(chosen)
        alone = aligned.frames[:, aligned.centre]
        fused = alone if fusion is None else fusion(aligned).image
        errors.append((fused.clamp(0.0, 1.0) - part.truth).square().mean(1, keepdim=True))
        single.append((alone - part.truth).square().mean((1, 2, 3)))
    error = torch.cat(errors)  # [N, 1, H, W]
    each = _decibels(error.mean((1, 2, 3)))
    seen = samples.seen
    return FusionScore(
        float(each.mean()),
        float(_decibels(error[~seen].mean())) if bool((~seen).any()) else math.nan,
        float(_decibels(error[seen].mean())) if bool(seen.any()) else math.nan,
        float((each - _decibels(torch.cat(single))).min()),
    )


def fusion_table(scores: Mapping[str, FusionScore]) -> str:
    """A Markdown table of scores by name."""
    lines = ["| fusion | PSNR | hidden | seen | least gain |", "| --- | ---: | ---: | ---: | ---: |"]
    for name, score in scores.items():
        lines.append(
            f"| {name} | {score.everywhere:.2f} | {score.hidden:.2f} | {score.seen:.2f} | {score.worst:+.2f} |"
        )
    return "\n".join(lines)


def _decibels(squared: Tensor) -> Tensor:
    return -10.0 * torch.log10(squared.clamp_min(1e-10))
