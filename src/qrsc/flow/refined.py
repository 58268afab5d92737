"""Any flow, made precise by Dense Inverse Search: a few gradient steps from where it points."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qrsc.flow.dis import MIN_SIDE, Grey, grey_pictures, search
from qrsc.flow.filling import fill_leaving
from qrsc.flow.protocol import ConfidentFlows, FlowEstimator, FlowPair, find_flows


class RefinedFlow:
    """Both flows of frame pairs by another estimator, each refined by `cv2.DISOpticalFlow` on the CPU.

    The search matches patches and then smooths by a variational step, from scales at which the other estimator's
    errors are about a pixel. That keeps long motion, which a search on its own does not find, and gives it the
    precision of a search. Points that leave the frame have nothing to be searched for, and go with what is beside
    them: on samples of BS-RSC that is worth 0.5 dB.

    Args:
        estimator: where the flows come from.
    """

    def __init__(self, estimator: FlowEstimator) -> None:
        self.estimator = estimator

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of pairs of frames `[B, 3, H, W]`, and how sure the other estimator was of them."""
        found = find_flows(self.estimator, first, second)
        if min(first.shape[-2:]) < MIN_SIDE:
            return found
        here, there = grey_pictures(first), grey_pictures(second)
        forward, backward = found.flows
        return found._replace(flows=FlowPair(_refined(here, there, forward), _refined(there, here, backward)))


def _refined(first: Grey, second: Grey, flow: Tensor) -> Tensor:
    """Flows `[B, 2, H, W]` of pictures `[B, H, W]`, refined."""
    started = flow.detach().cpu().float().permute(0, 2, 3, 1).numpy()
    found = [search("medium", *pictures) for pictures in zip(first, second, started, strict=True)]
    return fill_leaving(torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).to(flow).contiguous())
