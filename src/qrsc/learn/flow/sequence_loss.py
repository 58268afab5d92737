"""The loss of the flow network over all steps of its refinement."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.raft_rs.certainty import negative_log_likelihood
from qrsc.flow.raft_rs.network import Estimates
from qrsc.learn.flow.pairs import FlowPairs
from qrsc.warp import pixel_grid

DECAY = 0.8  # weight of a refinement step relative to the next one
# Of the cross-entropy of the global match, which gets the training started: with the distance of the expected match as
# loss, and a twentieth of the weight, matching was not learned in the first 2700 steps, and then within 1000.
MATCHING_WEIGHT = 0.5
LONGEST = 400.0  # pixels; longer flows are hardly within reach and of no use


def flow_loss(estimates: Estimates, pairs: FlowPairs) -> Tensor:
    """Mean negative log-likelihood of the true flows over all steps, with larger weights for later ones; a scalar.

    Points that are occluded in the other frame count like all others: a correction needs their motion too, and the
    likelihood lets the network express its uncertainty. The coarse steps are compared at a quarter of the resolution,
    away from motion boundaries, which only the last upsampling can place. The global match is trained on visible points
    only.
    """
    truth = pairs.both_flows
    within_reach = truth.square().sum(dim=1, keepdim=True) < LONGEST**2
    weight = (pairs.both_known & within_reach).to(truth)
    visible = weight * pairs.both_visible.to(truth)
    loss = truth.new_zeros(())
    scale = 1.0
    for estimate in reversed(estimates.fine):
        loss = loss + scale * _likelihood_loss(estimate, truth, weight)
        scale *= DECAY
    quarter, weight = _downsampled(truth, weight, 4)
    for estimate in reversed(estimates.coarse):
        loss = loss + scale * _likelihood_loss(estimate, quarter, weight)
        scale *= DECAY
    sixteenth, visible = _downsampled(truth, visible, 16)
    return loss + MATCHING_WEIGHT * _mean(_matching_loss(estimates.log_probability, sixteenth / 16.0), visible)


def _matching_loss(log_probability: Tensor, flow: Tensor) -> Tensor:
    """Cross-entropy between the matching probabilities and the true match, which is split bilinearly among four cells.

    Args:
        log_probability: `[B, N, N]`, log-probabilities.
        flow: `[B, 2, h, w]`, in cells, with `h w = N`.

    Returns:
        `[B, 1, h, w]`.
    """
    height, width = flow.shape[-2:]
    target = flow + pixel_grid(height, width, device=flow.device)
    corner = target.floor()
    part = target - corner
    loss = flow.new_zeros((len(flow), height * width))
    for down in (0, 1):
        for right in (0, 1):
            x, y = corner[:, 0] + right, corner[:, 1] + down
            share = (part[:, 0] if right else 1.0 - part[:, 0]) * (part[:, 1] if down else 1.0 - part[:, 1])
            cell = y.clamp(0, height - 1) * width + x.clamp(0, width - 1)  # visible: at most half a cell outside
            found = log_probability.gather(2, cell.flatten(1).long().unsqueeze(2)).squeeze(2)
            loss = loss - share.flatten(1) * found
    return loss.reshape(-1, 1, height, width)


def _likelihood_loss(estimate: Tensor, truth: Tensor, weight: Tensor) -> Tensor:
    return _mean(negative_log_likelihood(estimate[:, :2] - truth, estimate[:, 2:]), weight)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp_min(1.0)


def _downsampled(flow: Tensor, weight: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """Block means `[B, 2, H / factor, W / factor]` and their weights, 0 where the flows of a block differ much."""
    mean = F.avg_pool2d(flow, factor)
    spread = F.avg_pool2d(flow.square(), factor) - mean.square()
    uniform = spread.sum(dim=1, keepdim=True) < 1.0 + 1e-3 * mean.square().sum(dim=1, keepdim=True)
    lightest = -F.max_pool2d(-weight, factor)
    return mean, lightest * uniform.to(weight)
