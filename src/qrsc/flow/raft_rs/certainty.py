"""How sure the flow network is: each component of the error follows a mixture of two Laplace distributions.

Convention
    Two numbers per pixel, `[..., 2, H, W]`: the logit of the share of the narrow distribution, whose scale is
    1 pixel, and the logarithm of the scale of the wide one, in pixels, kept within `WIDEST`. The narrow one makes the
    loss an L1 distance where the match is clear; the wide one takes up what cannot be known (Wang et al., SEA-RAFT,
    2024).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

WIDEST = math.log(200.0)


def negative_log_likelihood(error: Tensor, certainty: Tensor) -> Tensor:
    """How surprising errors are.

    Args:
        error: `[B, 2, H, W]`, in pixels.
        certainty: `[B, 2, H, W]`, see above.

    Returns:
        `[B, 1, H, W]`, mean of the two components; at least log 2 - 1e-6.
    """
    share, scale = certainty[:, :1], _log_scale(certainty)
    size = error.abs()
    narrow = F.logsigmoid(share) - math.log(2.0) - size
    wide = F.logsigmoid(-share) - math.log(2.0) - scale - size * torch.exp(-scale)
    return -torch.logaddexp(narrow, wide).mean(dim=1, keepdim=True)


def confidence(certainty: Tensor) -> Tensor:
    """The probability that a component of the flow is less than 1 pixel off, relative to the best that can be said.

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
