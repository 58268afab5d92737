"""Flows as samples of mean velocities, and the weighted sums of their regression over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from qrsc.motion.consistency import MAX_FLOW

# Two exposures closer than this in time (in frame intervals; neighbours are about 1 apart) say nothing about the motion
# between them. A point would have to move by more than 99 % of the scanned length to be exposed again so soon.
MIN_TIME = 1e-2


class SharedMotion(Protocol):
    """A motion that the pixels of a frame share, such as the camera's: see `qrsc.motion.camera_path`."""

    def displacement_at(self, time: Tensor | float, /) -> Tensor:
        """The displacement of each pixel at a time after its exposure, `[..., 2, H, W]`."""
        ...


def beyond_shared(flow: Tensor, time: Tensor, shared: SharedMotion | None) -> Tensor:
    """The residual of a flow `[..., 2, H, W]` over a time `[..., 1, H, W]` after a shared motion."""
    return flow if shared is None else flow - shared.displacement_at(time)


@dataclass(frozen=True)
class VelocitySample:
    time: Tensor  # [..., 1, H, W], from this exposure to the other
    velocity: Tensor  # [..., 2, H, W], mean velocity over that time
    usable: Tensor  # [..., 1, H, W] bool


def velocity_sample(flow: Tensor, time: Tensor, shared: SharedMotion | None) -> VelocitySample:
    usable = (flow.abs().amax(-3, keepdim=True) < MAX_FLOW) & (time.abs() > MIN_TIME)  # False for NaN
    # Replaced before dividing: a pixel that is not usable must not make a gradient NaN.
    time = torch.where(usable, time, torch.ones_like(time))
    flow = torch.where(usable, beyond_shared(flow, time, shared), torch.zeros_like(flow))
    return VelocitySample(time, flow / time, usable)


def sample_weights(
    confidences: Sequence[Tensor | None] | None, samples: list[VelocitySample]
) -> tuple[list[Tensor], Tensor]:
    """The weight of each velocity sample, `[..., 1, H, W]`, and the largest confidence of each pixel.

    Dividing a flow by its time also divides its error, so the weight of a sample contains the square of the time.
    """
    weights, best = [], torch.zeros_like(samples[0].time)
    for sample_, confidence in zip(samples, confidences or [None] * len(samples), strict=True):
        trust = sample_.usable.to(sample_.time.dtype)
        if confidence is not None:
            trust = trust * confidence
        best = torch.maximum(best, trust)
        weights.append(trust * sample_.time.square())
    return weights, best


def weighted_means(weights: list[Tensor], quantities: list[list[Tensor]]) -> tuple[Tensor, list[Tensor]]:
    """The sum of the weights and the weighted mean of each quantity; zero where nothing has weight."""
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    return total, [divide(dot(weights, quantity), total) for quantity in quantities]


def dot(first: list[Tensor], second: list[Tensor]) -> Tensor:
    total = first[0] * second[0]
    for a, b in zip(first[1:], second[1:], strict=True):
        total = total + a * b
    return total


def divide(numerator: Tensor, denominator: Tensor, where: Tensor | None = None) -> Tensor:
    """The quotient, and 0 where the denominator (a sum of squares) vanishes or `where` is False."""
    vanishing = denominator < 1e-8
    if where is not None:
        vanishing = vanishing | ~where
    safe = torch.where(vanishing, torch.ones_like(denominator), denominator)
    return torch.where(vanishing, torch.zeros_like(numerator), numerator / safe)
