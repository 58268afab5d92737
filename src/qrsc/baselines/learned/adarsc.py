"""AdaRSC: nine displacements for every pixel, and attention that chooses among the nine warps.

Cao, Zhong, Zheng, Zhang, Sato: Learning adaptive warping for real-world rolling shutter correction, CVPR 2022.

Three frames, the middle row's instant. An encoder of three levels; at each, from coarse to fine, correlation and
features give nine velocities and masks for every pixel of each frame. Velocity times mask times row factor warps the
features backwards; attention with the unwarped features as query weighs the nine; a convolution fuses the frames.

Changed: the row factor is the true time from a row of each frame to the instant (published: the same map for all
three, so that the neighbours are never brought over); pairs are right for any batch; the smoothness term sees all
levels; the feature loss is that of the package (VGG-16), not VGG-19.
Ours, where the publication leaves it open: the width of the motion network, and what the decoder is given besides.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.baselines.learned.blocks import CORRELATIONS, conv, correlation, residual_blocks, roughness
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant
from qrsc.learn.fusion.losses import charbonnier
from qrsc.warp import backward_warp

FLOWS = 9
HIDDEN = 32
AGAINST = (1, 2, 1)  # the frame that each is correlated with


class MotionNet(nn.Module):
    """Nine velocities and masks for every pixel."""

    def __init__(self, channels: int, *, coarsest: bool) -> None:
        super().__init__()
        inputs = CORRELATIONS + channels + (0 if coarsest else HIDDEN + 2 * FLOWS)
        self.body = nn.Sequential(
            conv(inputs, 2 * HIDDEN), nn.LeakyReLU(0.1), conv(2 * HIDDEN, HIDDEN), nn.LeakyReLU(0.1)
        )
        self.velocity = conv(HIDDEN, 2 * FLOWS)
        self.mask = conv(HIDDEN, FLOWS)

    def forward(self, own: Tensor, other: Tensor, hints: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Features `[B, C, h, w]` and hints of the coarser level, to velocities, masks and hidden features.

        Shapes are `[B, 9, 2, h, w]`, `[B, 9, 1, h, w]` and `[B, 32, h, w]`.
        """
        hidden = self.body(torch.cat([correlation(own, other), own, *hints], 1))
        batch, _, height, width = hidden.shape
        velocities = self.velocity(hidden).reshape(batch, FLOWS, 2, height, width)
        if hints:
            velocities = velocities + hints[1].reshape(velocities.shape)
        masks = torch.sigmoid(self.mask(hidden)).reshape(batch, FLOWS, 1, height, width)
        return velocities, masks, hidden


class WarpAttention(nn.Module):
    """The nine warps of a frame's features weighed by how well they go with the unwarped ones."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (conv(channels, channels, 1) for _ in range(3))
        self.out = conv(channels, channels)

    def forward(self, features: Tensor, fields: Tensor) -> Tensor:
        """Features `[B, C, h, w]` and displacements `[B, 9, 2, h, w]` to features of the same shape."""
        warps = warped(features, fields)  # [B, 9, C, h, w]
        flat = warps.flatten(0, 1)
        query = self.query(features).unsqueeze(1)
        keys, values = self.key(flat).reshape(warps.shape), self.value(flat).reshape(warps.shape)
        weights = torch.softmax((query * keys).sum(2, keepdim=True) / features.shape[1] ** 0.5, 1)
        found: Tensor = self.out(features + (weights * values).sum(1))
        return found


def warped(features: Tensor, fields: Tensor) -> Tensor:
    """Features `[B, C, h, w]` sampled along several displacements `[B, 9, 2, h, w]`: `[B, 9, C, h, w]`.

    Convention
        Backward: a displacement on the grid of the result points to where a feature is taken from.
    """
    return torch.stack([backward_warp(features, field).image for field in fields.unbind(1)], 1)


class Adarsc(Baseline):
    """The network.

    Args:
        width: channels at full resolution; 32 as published.
    """

    inputs: ClassVar[int] = 3
    multiple: ClassVar[int] = 4
    uses_flow: ClassVar[bool] = False
    instants: ClassVar[tuple[TruthInstant, ...]] = ("middle",)
    published: ClassVar[float] = 4.25
    peak: ClassVar[float] = 2e-4

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        own = [width, 2 * width, 4 * width]  # the finest first
        self.encoder = nn.ModuleList()
        for number, (before, after) in enumerate(zip([3, *own], own, strict=False)):
            first = conv(before, after, 7 if number == 0 else 3, 1 if number == 0 else 2)
            self.encoder.append(nn.Sequential(first, nn.LeakyReLU(0.1), residual_blocks(after)))
        self.motion = nn.ModuleList(MotionNet(each, coarsest=number == 2) for number, each in enumerate(own))
        self.attention = nn.ModuleList(WarpAttention(each) for each in own)
        self.fuse = nn.ModuleList(conv(3 * each, each) for each in own)
        self.decode = nn.ModuleList(residual_blocks(each) for each in own)
        self.larger = nn.ModuleList(nn.ConvTranspose2d(2 * each, each, 4, 2, 1) for each in own[:2])
        self.last = conv(width, 3)

    def displacements(self, window: Window, tau: Tensor, velocities: Tensor, frame: int, level: int) -> Tensor:
        """Velocities `[B, 9, 2, h, w]` of one frame, times the time from its rows to the instant."""
        remaining = window.remaining(tau + (1.0 - frame), velocities.shape[-2], level)
        return velocities * remaining.unsqueeze(1)

    def decoded(self, window: Window, tau: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The picture `[B, 3, H, W]`, and all displacements, `[B, 2, h, w]` in pixels of their levels."""
        pyramids: list[list[Tensor]] = []
        for seen in window.frames.unbind(1):
            pyramids.append([])
            for stage in self.encoder:
                seen = stage(seen)
                pyramids[-1].append(seen)
        hints: list[list[Tensor]] = [[], [], []]
        fields: list[Tensor] = []
        features: Tensor | None = None
        for level in (2, 1, 0):
            found = []
            for frame in range(3):
                own, other = pyramids[frame][level], pyramids[AGAINST[frame]][level]
                velocities, masks, hidden = self.motion[level](own, other, hints[frame])
                moves = self.displacements(window, tau, velocities * masks, frame, level)
                found.append(self.attention[level](own, moves))
                fields += moves.unbind(1)
                flat = velocities.flatten(1, 2)
                hints[frame] = [
                    F.interpolate(each, scale_factor=2.0, mode="bilinear", align_corners=False)
                    for each in (hidden, 2.0 * flat)
                ]
            fused = self.fuse[level](torch.cat(found, 1))
            features = self.decode[level](fused if features is None else fused + self.larger[level](features))
        return self.last(features), fields

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        return self.decoded(window, tau)[0]

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """Charbonnier + 0.01 features + 0.001 of the mean roughness of the displacements."""
        picture, fields = self.decoded(window, 0.5 * window.gamma)
        rough = torch.stack([roughness(field) for field in fields]).mean()
        found = charbonnier(picture, truths.middle).mean() + 0.01 * features(picture, truths.middle).mean()
        return found + 0.001 * rough
