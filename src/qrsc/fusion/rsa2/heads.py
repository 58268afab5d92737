"""RSAdaCof: frames aligned by samples at learned offsets, and fused by masks and by time distance."""

from __future__ import annotations

from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.adacof.operator import adacof
from qrsc.fusion.blocks import Pictures, start_at_zero
from qrsc.fusion.rsa2.convolutions import Subnet, each_frame, fast
from qrsc.fusion.rsa2.encoder import SLOPE, keep_scale

# The time-grid weight of a single frame, or of the farther of two at its worst row, is 0; this bound keeps quotients
# and gradients finite. With three frames no weight is below a third.
LEAST_TIME_WEIGHT = 0.02


def time_weights(time_distance: Tensor) -> Tensor:
    """`1 - tg_i / sum tg` of Eq. (syn_frame) from time distances `[B, T, 1, H, W]`; the same shape."""
    share = time_distance / time_distance.sum(1, keepdim=True).clamp_min(1e-6)
    return (1.0 - share).clamp_min(LEAST_TIME_WEIGHT)


class AdaCofHead(nn.Module):
    """Fuse frames at twice the resolution of their features.

    Args:
        channels: of the features.
        taps: K, for K x K samples per pixel and frame.
        identity: initialised so that the result is the frames, weighted by the masks; otherwise 0.
        prior: masks are learned on top of the weights of `mean_fusion`; otherwise from scratch, as published.
        time_grid: also weight frames by time distance.
        mask_width: channels of the hidden layer that the masks are computed from.
    """

    def __init__(
        self, channels: int, taps: int, *, identity: bool, prior: bool, time_grid: bool, mask_width: int
    ) -> None:
        super().__init__()
        self.identity, self.use_prior, self.time_grid = identity, prior, time_grid
        self.weights, self.alpha, self.beta = (Subnet(channels, taps * taps, taps * taps) for _ in range(3))
        # The paper's masks see the concatenated features of all frames, which fixes the number of frames. A frame's own
        # features concatenated with the mean over frames work for any number.
        self.gather = nn.Conv2d(2 * channels, channels, 1)
        # Leaky: with a single channel a ReLU can be 0 everywhere, and then no mask is ever learned. That happened
        # to two of the three heads with the first random initialisation.
        self.mask = Subnet(channels, mask_width, 1, slope=SLOPE)
        keep_scale(self)
        for net in (self.weights, self.alpha, self.beta, self.mask):
            start_at_zero(net[-1])

    def forward(self, features: Tensor, pictures: Pictures) -> Tensor:
        """Features `[B, C, T, H / 2, W / 2]` and frames of size H, W to `[B, 3, H, W]`."""
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
        """Weights of the frames, `[B, T, 1, H, W]`, with a sum of 1, from features `[B T, C, H / 2, W / 2]`."""
        # `gather` takes a frame's features and their mean. Its half for the mean is computed once for all frames.
        own, common = self.gather.weight.chunk(2, 1)
        count = pictures.valid.shape[1]
        apart = each.reshape(-1, count, *each.shape[1:])
        # `mean` took 0.35 ms for this on an H200, at 1920 x 1088.
        mean = reduce(torch.add, apart.unbind(1)) / count if fast(each) else apart.mean(1)  # [B, C, H / 2, W / 2]
        shared = F.conv2d(mean, common, self.gather.bias).unsqueeze(1)
        gathered = F.conv2d(each, own)
        gathered = gathered.reshape(-1, count, *gathered.shape[1:]) + shared
        gathered = F.leaky_relu(gathered, SLOPE).flatten(0, 1)
        scores = self.mask(gathered).reshape(pictures.valid.shape).to(pictures.frames.dtype)
        return torch.softmax(scores + pictures.prior() if self.use_prior else scores, 1)


class DirectHead(nn.Module):
    """Colours directly from the features, without sampling the frames: the ablation without RSAdaCof."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.colours = Subnet(channels, 3, 3)

    def forward(self, features: Tensor, pictures: Pictures) -> Tensor:
        """Features `[B, C, T, H / 2, W / 2]` to `[B, 3, H, W]`."""
        colours: Tensor = self.colours(features.mean(2))
        return colours.to(pictures.frames.dtype)
