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

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.baselines.learned.blocks import (
    CORRELATIONS,
    conv,
    correlation,
    full_precision,
    precise,
    precisely,
    residual_blocks,
    roughness,
)
from qrsc.baselines.learned.initial import COLOURS, begin, begin_encoder, carry, still
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant
from qrsc.learn.fusion.losses import charbonnier
from qrsc.warp import pixel_grid, sample

FLOWS = 9
HIDDEN = 32
FREE = (3, 4, 5)  # channels of the features that begin as 0
SHARES = (0.1, 0.8, 0.1)  # of each frame in the first picture
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

    def begin(self) -> None:
        """See `qrsc.baselines.learned.initial`: masks of a half, and nine velocities that hardly differ."""
        still([self.mask])
        self.velocity.weight.data.mul_(0.1)

    def forward(self, own: Tensor, other: Tensor, hints: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Features `[B, C, h, w]` and hints of the coarser level, to velocities, masks and hidden features.

        Shapes are `[B, 9, 2, h, w]`, `[B, 9, 1, h, w]` and `[B, 32, h, w]`.
        """
        hidden = self.body(torch.cat([correlation(own, other), own, *hints], 1))
        batch, _, height, width = hidden.shape
        velocities = precisely(self.velocity, hidden).reshape(batch, FLOWS, 2, height, width)
        if hints:
            velocities = velocities + hints[1].reshape(velocities.shape)
        masks = torch.sigmoid(self.mask(hidden)).reshape(batch, FLOWS, 1, height, width)
        return velocities, masks, hidden


class WarpAttention(nn.Module):
    """The nine warps of a frame's features weighed by how well they go with the unwarped ones."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.query, self.value = (conv(channels, channels, 1) for _ in range(2))
        # A bias of the keys would add the same to the scores of all nine.
        self.key = nn.Conv2d(channels, channels, 1, bias=False)
        self.out = conv(channels, channels)

    def begin(self) -> None:
        """See `qrsc.baselines.learned.initial`: colours come from the warps, through channels that are empty yet."""
        carry(self.value, given=FREE)
        carry(self.out, FREE)

    def forward(self, features: Tensor, fields: Tensor) -> Tensor:
        """Features `[B, C, h, w]` and displacements `[B, 9, 2, h, w]` to features of the same shape."""
        warps = warped(features, fields)  # [B, 9, C, h, w]
        # The product of a query with the key of a warp is that of the warp with the query taken through the transposed
        # key: one convolution instead of nine. The same holds for the weighted sum of the values.
        query = F.conv_transpose2d(self.query(features), self.key.weight).unsqueeze(1)
        weights = torch.softmax((query * warps).sum(2, keepdim=True) / features.shape[1] ** 0.5, 1)
        found: Tensor = self.out(features + self.value((weights * warps).sum(1)))
        return found


def warped(features: Tensor, fields: Tensor) -> Tensor:
    """Features `[B, C, h, w]` sampled along several displacements `[B, 9, 2, h, w]`: `[B, 9, C, h, w]`.

    Convention
        Backward: a displacement on the grid of the result points to where a feature is taken from.
    """
    count, height, width = fields.shape[1], *fields.shape[-2:]
    with full_precision(fields):
        places = pixel_grid(height, width, dtype=fields.dtype, device=fields.device) + fields
        # All fields one below the other, read in one call.
        taken = sample(precise(features), places.transpose(1, 2).flatten(2, 3)).image
    return taken.reshape(len(taken), -1, count, height, width).transpose(1, 2)


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
    trained_width: ClassVar[int] = 16
    peak: ClassVar[float] = 2e-4

    def __init__(self, width: int = 32) -> None:
        super().__init__(width)
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
        self.begin(own)

    def begin(self, own: Sequence[int]) -> None:
        """See `qrsc.baselines.learned.initial`."""
        begin(self)
        if self.width <= FREE[-1]:
            return  # too narrow to carry colours
        begin_encoder(self.encoder)
        for channels, stage, motion, attention, fuse in zip(
            own, self.encoder, self.motion, self.attention, self.fuse, strict=True
        ):
            carry(next(iter(stage.children())), given=FREE, share=0.0)
            assert isinstance(motion, MotionNet)
            motion.begin()
            assert isinstance(attention, WarpAttention)
            attention.begin()
            for frame, share in enumerate(SHARES):
                colours = [frame * channels + colour for colour in COLOURS]
                carry(fuse, colours, share=share, alone=frame == 0)
        still(self.larger)
        carry(self.last)

    def displacements(self, window: Window, tau: Tensor, velocities: Tensor, frame: int, level: int) -> Tensor:
        """Velocities `[B, 9, 2, h, w]` of one frame, times the time from its rows to the instant."""
        remaining = window.remaining(tau + (1.0 - frame), velocities.shape[-2], level)
        return velocities * remaining.unsqueeze(1)

    def decoded(self, window: Window, tau: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The picture `[B, 3, H, W]`, and the displacements of each level in its pixels, `[27 B, 2, h, w]`."""
        count = len(window.frames)
        pyramid: list[Tensor] = [window.frames.transpose(0, 1).flatten(0, 1)]  # frame after frame in one batch
        for stage in self.encoder:
            pyramid.append(stage(pyramid[-1]))
        hints: list[Tensor] = []
        fields: list[Tensor] = []
        features: Tensor | None = None
        for level in (2, 1, 0):
            own = pyramid[level + 1]
            other = torch.cat([own.chunk(3)[each] for each in AGAINST])
            velocities, masks, hidden = self.motion[level](own, other, hints)
            moves = torch.cat(
                [
                    self.displacements(window, tau, part, frame, level)
                    for frame, part in enumerate((velocities * masks).split(count))
                ]
            )
            found = self.attention[level](own, moves)
            fields.append(moves.flatten(0, 1))
            hints = [
                F.interpolate(each, scale_factor=2.0, mode="bilinear", align_corners=False)
                for each in (hidden, 2.0 * velocities.flatten(1, 2))
            ]
            fused = self.fuse[level](torch.cat(found.split(count), 1))
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
