"""What the flow network is held to, step by step."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.certainty import negative_log_likelihood
from qrsc.flow.network import Estimates
from qrsc.learn.pairs import FlowPairs

DECAY = 0.8  # weight of a step relative to the one after it
HIDDEN_WEIGHT = 0.3  # of pixels whose point is not seen in the other frame
LONGEST = 400.0  # pixels; longer flows are hardly in reach, and never of use


def flow_loss(estimates: Estimates, pairs: FlowPairs) -> Tensor:
    """Mean negative log-likelihood of the true flows over all steps, later ones counted more; a scalar.

    The coarse steps are compared at a quarter of the size, away from motion boundaries, which only the last enlarging
    can place. The global match is held to points that it can see.
    """
    truth = pairs.both_flows
    weight = _weight(truth, pairs.both_known, pairs.both_visible)
    loss = truth.new_zeros(())
    scale = 1.0
    for estimate in reversed(estimates.fine):
        loss = loss + scale * _likelihood_loss(estimate, truth, weight)
        scale *= DECAY
    truth, weight = _reduced(truth, weight, 4)
    for estimate in reversed(estimates.coarse):
        loss = loss + scale * _likelihood_loss(estimate, truth, weight)
        scale *= DECAY
    truth, weight = _reduced(truth, (weight == 1.0).to(weight), 4)
    distance = (estimates.initial - truth).abs().mean(dim=1, keepdim=True)
    return loss + 0.2 * scale * _mean(distance.clamp_max(LONGEST), weight)


def _weight(truth: Tensor, known: Tensor, visible: Tensor) -> Tensor:
    """`[B, 1, H, W]`: 1, `HIDDEN_WEIGHT` or 0."""
    usable = known & (truth.square().sum(dim=1, keepdim=True) < LONGEST**2)
    return usable.to(truth) * torch.where(visible, 1.0, HIDDEN_WEIGHT)


def _likelihood_loss(estimate: Tensor, truth: Tensor, weight: Tensor) -> Tensor:
    return _mean(negative_log_likelihood(estimate[:, :2] - truth, estimate[:, 2:]), weight)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp_min(1.0)


def _reduced(flow: Tensor, weight: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Means over blocks `[B, 2, H / factor, W / factor]`, with a weight of 0 where a block's flows differ much."""
    mean = F.avg_pool2d(flow, factor)
    spread = F.avg_pool2d(flow.square(), factor) - mean.square()
    alike = spread.sum(dim=1, keepdim=True) < 1.0 + 1e-3 * mean.square().sum(dim=1, keepdim=True)
    lightest = -F.max_pool2d(-weight, factor)
    return mean, lightest * alike.to(weight)
