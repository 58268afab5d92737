"""The uncertainty that the flow network predicts: a mixture of two Laplace distributions for each error component.

Convention
    Two numbers per pixel, `[..., 2, H, W]`: the logit of the weight of the narrow distribution, whose scale is 1 pixel,
    and the logarithm of the scale of the wide one, in pixels, clamped to `WIDEST`. The narrow one makes the loss an L1
    distance where the match is clear; the wide one accounts for ambiguous matches (Wang et al., SEA-RAFT, 2024).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

WIDEST = math.log(200.0)


def negative_log_likelihood(error: Tensor, certainty: Tensor) -> Tensor:
    """Negative log likelihood of flow errors under the predicted distribution.

    Args:
        error: `[B, 2, H, W]`, in pixels.
        certainty: `[B, 2, H, W]`, see above.

    Returns:
        `[B, 1, H, W]`, the mean of the two components; at least log 2 - 1e-6.
    """
    share, scale = certainty[:, :1], _log_scale(certainty)
    size = error.abs()
    narrow = F.logsigmoid(share) - math.log(2.0) - size
    wide = F.logsigmoid(-share) - math.log(2.0) - scale - size * torch.exp(-scale)
    return -torch.logaddexp(narrow, wide).mean(dim=1, keepdim=True)


def confidence(certainty: Tensor) -> Tensor:
    """The probability that a component of the flow is less than 1 pixel off, relative to its largest possible value.

    Args:
        certainty: `[B, 2, H, W]`.

    Returns:
        `[B, 1, H, W]`, 0 to 1.
    """
    share = torch.sigmoid(certainty[:, :1])
    narrow = 1.0 - math.exp(-1.0)
    wide = 1.0 - torch.exp(-torch.exp(-_log_scale(certainty)))
    return share + (1.0 - share) * wide / narrow


def _log_scale(certainty: Tensor) -> Tensor:
    return certainty[:, 1:2].clamp(0.0, WIDEST)
