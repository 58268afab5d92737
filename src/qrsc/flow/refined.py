"""The flow of another estimator refined by a search, or the search's own flow where its residual is smaller."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from qrsc.backend.fallback import fallback_of, joined
from qrsc.flow.dis import MIN_SIDE, DisFlow, Flow, Luma, landing, luma_images, on_cpu, search
from qrsc.flow.protocol import FlowEstimator, FlowPair
from qrsc.motion.fill import fill_leaving

# Side, in pixels, of the window that residuals are averaged over; from 15 to 81 the samples' figures vary by 0.03 dB.
WINDOW = 41
# Residuals, in 8-bit levels, are truncated at this: beyond it, it is a different surface.
MOST_DIFFERENT = 40.0
LEAST_INSIDE = 0.05  # part of a window that must land inside the frame for its residual to count


class RefinedFlow:
    """Forward and backward flow of another estimator, refined by `cv2.DISOpticalFlow` on the CPU.

    The search matches patches, followed by a variational refinement, at scales where the other estimator's errors are
    about a pixel. That keeps large motion, which a search alone does not find, and adds the precision of a search.
    Where the other estimator matched the wrong one of many windows of a facade, the search alone is often right: each
    pixel takes the flow with the smaller residual around it. On samples of Carla-RS that brings 32.8 to 33.4 dB. Points
    that leave the frame have no match, and are filled from their neighbours: on samples of BS-RSC that gains 0.5 dB.

    The other estimator's confidence is not passed on, since it is about another flow: with it, the corrections of
    Carla-RS and BS-RSC are 0.3 and 0.1 dB worse than with forward-backward consistency, of Fastec-RS 0.05 better.

    Args:
        estimator: the flow to refine.

    Attributes:
        replaced: part of the pixels, 0 to 1, that took the search's own flow in the latest call.
        fallback: that the search's own flow was used, that the search ran on the CPU for frames elsewhere, or that
            small frames were not refined; None if nothing of this happened in the latest call.
    """

    def __init__(self, estimator: FlowEstimator) -> None:
        self.estimator = estimator
        self._alone = DisFlow("medium")
        self.replaced = 0.0
        self.fallback: str | None = None

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        if min(first.shape[-2:]) < MIN_SIDE:
            found = self.estimator(first, second)
            self.replaced = 0.0
            small = f"frames with a side under {MIN_SIDE} pixels are not refined by the search"
            self.fallback = joined(fallback_of(self.estimator), small)
            return found
        return self.refine(first, second, self._alone(first, second))

    def refine(self, first: Tensor, second: Tensor, alone: FlowPair) -> FlowPair:
        """The same for frames of which the search's own flows are known; no side is under `MIN_SIDE` pixels."""
        found = self.estimator(first, second)
        here, there = luma_images(first), luma_images(second)
        forward, replaced_forward = _refined(here, there, found.forward, alone.forward)
        backward, replaced_backward = _refined(there, here, found.backward, alone.backward)
        self.replaced = 0.5 * (replaced_forward + replaced_backward)
        words = "the search's own flow replaces the estimator's where its residual is smaller"
        self.fallback = joined(
            fallback_of(self.estimator), on_cpu(first.device), words if self.replaced > 0.0 else None
        )
        return FlowPair(forward, backward)


def _refined(first: Luma, second: Luma, flow: Tensor, alone: Tensor) -> tuple[Tensor, float]:
    """Refine flows `[B, 2, H, W]` between luma images `[B, H, W]`, or take those of the search alone.

    Returns:
        The flows, and the part of the pixels that take the search's own flow.
    """
    starts, others = (each.detach().cpu().float().permute(0, 2, 3, 1).numpy() for each in (flow, alone))
    found, replaced = [], []
    for here, there, start, other in zip(first, second, starts, others, strict=True):
        refined = search("medium", here, there, start)
        better = _residual(here, there, other) < _residual(here, there, refined)
        found.append(np.where(better[..., None], other, refined))
        replaced.append(float(better.mean()))
    flows = torch.from_numpy(np.stack(found)).permute(0, 3, 1, 2).to(flow).contiguous()
    return fill_leaving(flows), sum(replaced) / len(replaced)


def _residual(first: Luma, second: Luma, flow: Flow) -> Flow:
    """Truncated absolute difference of the first image and the second warped by the flow, averaged locally: `[H, W]`.

    Points that leave the image do not count; the residual is infinite where hardly any stay.
    """
    import cv2

    height, width = first.shape
    x, y = landing(flow)
    inside = ((x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)).astype(np.float32)
    warped = cv2.remap(second, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    left = np.minimum(cv2.absdiff(first, warped), MOST_DIFFERENT).astype(np.float32) * inside
    total, share = (cv2.blur(each, (WINDOW, WINDOW), borderType=cv2.BORDER_REFLECT) for each in (left, inside))
    return np.where(share > LEAST_INSIDE, total / np.maximum(share, LEAST_INSIDE), np.float32(np.inf))
