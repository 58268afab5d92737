"""RSAdaCof: frames aligned by freely placed samples, and fused by masks and by closeness in time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.adacof.operator import adacof
from qrsc.fusion.mean import DISAGREEMENT, log_weights
from qrsc.fusion.rsa2.convolutions import Subnet, each_frame
from qrsc.fusion.rsa2.encoder import SLOPE, keep_scale, start_at_zero

# A frame that does not show a pixel starts with e^-12 of the weight of one that does: enough to be left out, little
# enough to be learned over.
INVALID = 12.0
# The time-grid weight of one frame alone, or of the farther of two at its worst row, is 0; this keeps quotients and
# gradients finite. With three frames no weight is below a third.
LEAST_TIME_WEIGHT = 0.02


@dataclass(frozen=True)
class Pictures:
    """What is fused, at one scale.

    Attributes:
        frames: `[B, T, 3, H, W]`, the corrected frames.
        valid: `[B, T, 1, H, W]`, float, 0 to 1.
        time_distance: `[B, T, 1, H, W]`, in frame intervals.
        centre: which of the T frames is the one whose instant it is.
        disagreement: see `qrsc.fusion.mean.log_weights`.
    """

    frames: Tensor
    valid: Tensor
    time_distance: Tensor
    centre: int
    disagreement: float = DISAGREEMENT

    def reduced(self, factor: int) -> Pictures:
        """The same at a fraction of the size."""
        if factor == 1:
            return self
        frames, valid, distance = (_pooled(value, factor) for value in (self.frames, self.valid, self.time_distance))
        return replace(self, frames=frames, valid=valid, time_distance=distance)

    def prior(self) -> Tensor:
        """Logarithms of weights `[B, T, 1, H, W]` to start from: those of `mean_fusion`."""
        likely = log_weights(self.frames, self.valid > 0.5, self.time_distance, self.centre, self.disagreement)
        # What no frame shows is the centre one's: on samples of BS-RSC, 0.2 dB better than that of the nearest in time.
        unseen = 1.0 - self.valid.amax(1, keepdim=True)
        own = torch.arange(self.valid.shape[1], device=likely.device).reshape(1, -1, 1, 1, 1) == self.centre
        return likely - INVALID * (1.0 - torch.where(own, self.valid + unseen, self.valid))


def time_weights(time_distance: Tensor) -> Tensor:
    """`1 - tg_i / sum tg` of Eq. (syn_frame) from time distances `[B, T, 1, H, W]`; the same shape."""
    share = time_distance / time_distance.sum(1, keepdim=True).clamp_min(1e-6)
    return (1.0 - share).clamp_min(LEAST_TIME_WEIGHT)


class AdaCofHead(nn.Module):
    """One frame from several at twice the size of their features.

    Args:
        channels: of the features.
        taps: K of K x K samples a pixel and frame.
        identity: start as the frames themselves, weighted by the masks; otherwise as 0.
        prior: start masks from the weights of `mean_fusion`; otherwise they are learned from nothing, as published.
        time_grid: weigh frames by closeness in time, too.
        mask_width: channels that masks are made from.
    """

    def __init__(
        self, channels: int, taps: int, *, identity: bool, prior: bool, time_grid: bool, mask_width: int
    ) -> None:
        super().__init__()
        self.identity, self.use_prior, self.time_grid = identity, prior, time_grid
        self.weights, self.alpha, self.beta = (Subnet(channels, taps * taps, taps * taps) for _ in range(3))
        # The masks of the paper look at all frames' features beside each other, and need as many as were trained
        # with. Each frame's own beside the mean of all says the same for any number.
        self.gather = nn.Conv2d(2 * channels, channels, 1)
        # Leaky: of one channel alone a rectifier can make 0 everywhere, and then no mask is ever learned. So it was for
        # two of the three heads with the first random weights.
        self.mask = Subnet(channels, mask_width, 1, slope=SLOPE)
        keep_scale(self)
        for net in (self.weights, self.alpha, self.beta, self.mask):
            start_at_zero(net[-1])

    def forward(self, features: Tensor, pictures: Pictures) -> Tensor:
        """Features `[B, C, T, H / 2, W / 2]` and pictures of size H, W to `[B, 3, H, W]`."""
        each = each_frame(features)  # [B T, C, H / 2, W / 2]
        weights, alpha, beta = self.weights(each), self.alpha(each), self.beta(each)  # [B T, K K, H, W]
        if self.identity:
            taps = torch.arange(weights.shape[1], device=weights.device)
            weights = weights + (taps == len(taps) // 2).to(weights.dtype).reshape(1, -1, 1, 1)
        sampled = adacof(pictures.frames.flatten(0, 1), weights, alpha, beta).reshape(pictures.frames.shape)
        weight = self._masks(each, pictures)
        if self.time_grid:
            weight = weight * time_weights(pictures.time_distance)
            weight = weight / weight.sum(1, keepdim=True)
        return (weight * sampled).sum(1)

    def _masks(self, each: Tensor, pictures: Pictures) -> Tensor:
        """Weights of the frames, `[B, T, 1, H, W]`, that add up to 1, from features `[B T, C, H / 2, W / 2]`."""
        # `gather` is of a frame's features beside the mean's; its two halves apart, the mean's is the same for all.
        own, common = self.gather.weight.chunk(2, 1)
        count = pictures.valid.shape[1]
        mean = each.reshape(-1, count, *each.shape[1:]).mean(1)  # [B, C, H / 2, W / 2]
        shared = F.conv2d(mean, common, self.gather.bias).unsqueeze(1)
        gathered = F.conv2d(each, own)
        gathered = gathered.reshape(-1, count, *gathered.shape[1:]) + shared
        gathered = F.leaky_relu(gathered, SLOPE).flatten(0, 1)
        scores = self.mask(gathered).reshape(pictures.valid.shape).to(pictures.frames.dtype)
        return torch.softmax(scores + pictures.prior() if self.use_prior else scores, 1)


class DirectHead(nn.Module):
    """Colours straight from the features, without any frame: what is left without RSAdaCof."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.colours = Subnet(channels, 3, 3)

    def forward(self, features: Tensor, pictures: Pictures) -> Tensor:
        """Features `[B, C, T, H / 2, W / 2]` to `[B, 3, H, W]`."""
        colours: Tensor = self.colours(features.mean(2))
        return colours.to(pictures.frames.dtype)


def _pooled(values: Tensor, factor: int) -> Tensor:
    small = F.avg_pool2d(values.flatten(0, 1), factor)
    return small.reshape(*values.shape[:2], *small.shape[1:])
