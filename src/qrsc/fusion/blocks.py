"""What the fusion networks share: sizes and scales of inputs, prior weights, rearranged pixels, zero initialisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.mean import DISAGREEMENT, log_weights

MULTIPLE = 16  # the networks take frames whose height and width are multiples of this
FIELD_SCALE = 0.05  # correction fields are tens of pixels, colours at most 1; this brings both to a similar range
# The prior weight of a frame that does not show a pixel is e^-12 of that of one that does: enough to leave it out, and
# little enough for the network to overrule.
INVALID = 12.0


@dataclass(frozen=True)
class Pictures:
    """The frames to fuse at one scale.

    Attributes:
        frames: `[B, T, 3, H, W]`, the corrected frames.
        valid: `[B, T, 1, H, W]`, float, 0 to 1.
        time_distance: `[B, T, 1, H, W]`, in frame intervals.
        centre: index of the frame whose instant is shown.
        disagreement: see `qrsc.fusion.mean.log_weights`.
    """

    frames: Tensor
    valid: Tensor
    time_distance: Tensor
    centre: int
    disagreement: float = DISAGREEMENT

    def reduced(self, factor: int) -> Pictures:
        """Downsample by an integer factor, by means over blocks."""
        if factor == 1:
            return self
        frames, valid, distance = (_pooled(value, factor) for value in (self.frames, self.valid, self.time_distance))
        return replace(self, frames=frames, valid=valid, time_distance=distance)

    def prior(self) -> Tensor:
        """Logarithms of the prior weights, `[B, T, 1, H, W]`: those of `mean_fusion`."""
        likely = log_weights(self.frames, self.valid > 0.5, self.time_distance, self.centre, self.disagreement)
        # A pixel that no frame shows is taken from the centre frame: on samples of BS-RSC, 0.2 dB better than from the
        # frame nearest in time.
        unseen = 1.0 - self.valid.amax(1, keepdim=True)
        own = torch.arange(self.valid.shape[1], device=likely.device).reshape(1, -1, 1, 1, 1) == self.centre
        return likely - INVALID * (1.0 - torch.where(own, self.valid + unseen, self.valid))


def over_frames(each: Tensor) -> Tensor:
    """The mean of `[B, T, ...]` over T; by sums of frames, a tenth of the time of `Tensor.mean` on a CPU."""
    return reduce(torch.add, each.unbind(1)) / each.shape[1]


def shuffled(values: Tensor, factor: int) -> Tensor:
    """As `pixel_shuffle`, `[N, C r^2, h, w]` to `[N, C, h r, w r]`, in a third of the time on a CPU."""
    count, channels, height, width = values.shape
    cells = values.reshape(count, channels // factor**2, factor, factor, height, width)
    return cells.permute(0, 1, 4, 2, 5, 3).reshape(count, -1, height * factor, width * factor)


def unshuffled(values: Tensor, factor: int) -> Tensor:
    """As `pixel_unshuffle`, `[N, C, h r, w r]` to `[N, C r^2, h, w]`, in half of the time on a CPU."""
    count, channels, height, width = values.shape
    cells = values.reshape(count, channels, height // factor, factor, width // factor, factor)
    return cells.permute(0, 1, 3, 5, 2, 4).reshape(count, -1, height // factor, width // factor)


def start_at_zero(layer: nn.Module) -> None:
    """Initialise a convolution to zero, so that its output is zero for any input."""
    assert isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d))
    assert layer.bias is not None
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)


def _pooled(values: Tensor, factor: int) -> Tensor:
    small = F.avg_pool2d(values.flatten(0, 1), factor)
    return small.reshape(*values.shape[:2], *small.shape[1:])
