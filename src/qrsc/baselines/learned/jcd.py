"""JCD: warped and unwarped features of one frame, fused by attention and deformable convolution; also deblurs.

Zhong, Zheng, Sato: Towards rolling shutter correction and deblurring in dynamic scenes, CVPR 2021.

Three frames, the middle row's instant. DSUN's encoder and velocity decoder, against the previous and against the next
frame; both displacements splat the current frame's features. A third stream is not warped; at 1/4 it passes residual
dense blocks. Each level weighs the channels of the three streams, and fuses them.

Changed: the row factor is a true time, alike at all levels (published: full resolution moves half as far as it should);
both velocities live on the current frame's grid; the feature loss is that of the package (VGG-16), not VGG-19.
Ours, where the publication leaves it open: what the unwarped stream is at 1/2 and full resolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.baselines.learned.blocks import (
    conv,
    full_precision,
    gaussian_splat,
    precise,
    precisely,
    residual_blocks,
    roughness,
)
from qrsc.baselines.learned.dsun import CARRIED, Encoder, VelocityDecoder
from qrsc.baselines.learned.initial import COLOURS, begin, begin_encoder, carry, enlarge, sharpen, still
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant
from qrsc.image.sampling import pixel_grid
from qrsc.learn.fusion.losses import charbonnier

GROUPS = 8  # of the deformable convolution
TAPS = 9


class DenseBlock(nn.Module):
    """Three 3x3 convolutions, each of which sees all before it, fused by a 1x1 convolution and added to the input."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(conv(channels + number * growth, growth) for number in range(3))
        self.fuse = conv(channels + 3 * growth, channels, 1)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` to the same shape."""
        seen = features
        for layer in self.layers:
            seen = torch.cat([seen, F.relu(layer(seen))], 1)
        changed: Tensor = self.fuse(seen)
        return features + changed


class DeformableConv(nn.Module):
    """A 3x3 convolution that finds for itself where to sample, and how much each sample counts.

    Args:
        channels: in and out; a multiple of 8.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.sampling = conv(channels, GROUPS * TAPS * 3)
        nn.init.zeros_(self.sampling.weight)
        if self.sampling.bias is not None:
            nn.init.zeros_(self.sampling.bias)
        self.mix = conv(TAPS * channels, channels, 1)

    def begin(self) -> None:
        """See `qrsc.baselines.learned.initial`: a plain convolution, which carries the colours of its middle tap."""
        still([self.sampling])
        middle = TAPS // 2 * self.mix.out_channels
        carry(self.mix, [middle + colour for colour in COLOURS], share=2.0)  # samples begin with a weight of a half

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` to the same shape; samples outside are 0."""
        batch, channels, height, width = features.shape
        grouped = (batch * GROUPS, channels // GROUPS, height, width)
        with full_precision(features):
            found = precise(precisely(self.sampling, features)).reshape(batch * GROUPS, TAPS, 3, height, width)
            grid = pixel_grid(height, width, dtype=found.dtype, device=found.device)
            steps = pixel_grid(3, 3, dtype=found.dtype, device=found.device).flatten(1).T - 1.0  # [9, 2]
            places = grid + steps.reshape(TAPS, 2, 1, 1) + found[:, :, :2]  # [B 8, 9, 2, H, W]
            x, y = places.transpose(1, 2).flatten(2, 3).unbind(1)  # all taps one below the other
            places = torch.stack([(2.0 * x + 1.0) / width, (2.0 * y + 1.0) / height], -1) - 1.0
            taken = F.grid_sample(
                precise(features).reshape(grouped), places, mode="bilinear", padding_mode="zeros", align_corners=False
            )
            taken = taken.reshape(*grouped[:2], TAPS, height, width) * torch.sigmoid(found[:, :, 2:]).transpose(1, 2)
        samples = taken.reshape(batch, GROUPS, channels // GROUPS, TAPS, height, width).permute(0, 3, 1, 2, 4, 5)
        mixed: Tensor = self.mix(samples.reshape(batch, TAPS * channels, height, width))
        return mixed


class Fusion(nn.Module):
    """Three streams of features weighed channel by channel, and made one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.Linear(3 * channels, 6 * channels), nn.ReLU(), nn.Linear(6 * channels, 3 * channels), nn.Sigmoid()
        )
        self.merge = conv(3 * channels, channels, 1)
        self.deform = DeformableConv(channels)

    def begin(self) -> None:
        """See `qrsc.baselines.learned.initial`: all channels count alike; colours are those of both moved streams."""
        still([self.attention[2]])
        channels = self.merge.out_channels
        carry(self.merge)
        carry(self.merge, [2 * channels + colour for colour in COLOURS], alone=False)
        self.deform.begin()

    def forward(self, streams: Sequence[Tensor]) -> Tensor:
        """Three of `[B, C, H, W]` to one."""
        together = torch.cat(list(streams), 1)
        weights = self.attention(together.mean((2, 3)))
        merged = self.merge(together * weights[:, :, None, None])
        fused: Tensor = self.deform(merged)
        return fused


class Jcd(Baseline):
    """The network.

    Args:
        width: channels at full resolution, a multiple of 8; 32 as published. The flow heads grow with it.
    """

    inputs: ClassVar[int] = 3
    multiple: ClassVar[int] = 4
    uses_flow: ClassVar[bool] = False
    instants: ClassVar[tuple[TruthInstant, ...]] = ("middle",)
    published: ClassVar[float] = 7.51
    trained_width: ClassVar[int] = 16
    peak: ClassVar[float] = 3e-4

    def __init__(self, width: int = 32) -> None:
        super().__init__(width)
        if width % GROUPS:
            raise ValueError(f"the width of JCD must be a multiple of {GROUPS}; got {width}.")
        self.encoder = Encoder(width)
        self.velocity = VelocityDecoder(width)
        own = [width, 2 * width, 4 * width]  # the finest first
        self.dense = nn.Sequential(*(DenseBlock(own[2], 2 * width) for _ in range(5)))
        self.fusions = nn.ModuleList(Fusion(each) for each in own)
        widths = [own[0] + CARRIED + 3, own[1] + CARRIED + 3, own[2]]
        self.blocks = nn.ModuleList(residual_blocks(each) for each in widths)
        self.pictures = nn.ModuleList(conv(each, 3) for each in widths)
        self.carried = nn.ModuleList(nn.ConvTranspose2d(each, CARRIED, 4, 2, 1) for each in widths[1:])
        self.enlarged = nn.ModuleList(nn.ConvTranspose2d(3, 3, 4, 2, 1) for _ in widths[1:])
        begin(self)
        begin_encoder(self.encoder.levels)
        enlarge(self.velocity.up_flow, 2.0)
        for part in self.modules():
            if isinstance(part, DenseBlock):
                still([part.fuse])
            elif isinstance(part, Fusion):
                part.begin()
        for picture in self.pictures:
            sharpen(picture)
        for larger in self.enlarged:
            enlarge(larger)

    def levels(self, window: Window, tau: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
        """Picture `[B, 3, h, w]` and both displacements `[B, 2, h, w]` of each level, the finest first."""
        previous, current, following = self.encoder.each(window.frames)
        twice = [torch.cat([each, each]) for each in current]
        # Against the previous and against the next frame, in one batch.
        velocities = self.velocity(twice, [torch.cat(pair) for pair in zip(previous, following, strict=True)])
        found: list[tuple[Tensor, list[Tensor]]] = []
        carried: list[Tensor] = []
        for level in (2, 1, 0):
            remaining = window.remaining(tau, current[level].shape[-2], level)
            both = velocities[level] * torch.cat([remaining, remaining])
            displacements = list(both.chunk(2))
            streams = gaussian_splat(twice[level], both)[0].chunk(2)
            still = self.dense(current[level]) if level == 2 else current[level]
            fused = self.fusions[level]([streams[0], still, streams[1]])
            features = self.blocks[level](torch.cat([fused, *carried], 1))
            picture = self.pictures[level](features)
            found.insert(0, (picture, displacements))
            if level:
                carried = [self.carried[level - 1](features), self.enlarged[level - 1](picture)]
        return found

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        return self.levels(window, tau)[0][0]

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """At each level: 10 Charbonnier, features, and 0.1 of the roughness of both displacements."""
        total = window.frames.new_zeros(())
        for number, (picture, displacements) in enumerate(self.levels(window, 0.5 * window.gamma)):
            truth = truths.middle if number == 0 else F.avg_pool2d(truths.middle, 2**number)
            total = total + 10.0 * charbonnier(picture, truth).mean() + features(picture, truth).mean()
            total = total + 0.1 * (roughness(displacements[0]) + roughness(displacements[1]))
        return total
