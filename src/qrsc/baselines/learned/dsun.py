"""DSUN: a velocity for every pixel, times the distance of its row from the middle one, moves features.

Liu, Cui, Larsson, Pollefeys: Deep shutter unrolling network, CVPR 2020.

Two frames, the middle row's instant. An encoder of three levels; the correlation of the current frame's features with
those of the previous one at 1/4 and 1/2 gives a velocity; features are splatted by velocity times row offset; a decoder
makes pictures at three levels.

Changed: the row offset is a true time (a crop no longer restarts it, and gamma enters), so the velocity is in pixels
per frame interval at each level; the masked difference is divided by the count of values; the feature loss is that of
the package (VGG-16), not VGG-19.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.baselines.learned.blocks import (
    CORRELATIONS,
    FlowHead,
    conv,
    correlation,
    gaussian_splat,
    masked_difference,
    precisely,
    residual_blocks,
    roughness,
)
from qrsc.baselines.learned.initial import begin, begin_encoder, enlarge, sharpen
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant

HEADS = ((128, 128, 96, 64, 32), (64, 64, 48, 32, 16))  # at 1/4 and 1/2, for the published width
PUBLISHED_WIDTH = 32
CARRIED = 3  # channels of features that a level of the decoder hands to the next, beside the picture


class Level(NamedTuple):
    """The result at one level: picture `[B, 3, h, w]`, displacement `[B, 2, h, w]`, and where something landed."""

    picture: Tensor
    displacement: Tensor
    touched: Tensor


class Encoder(nn.Module):
    """Features at full, half and quarter resolution."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList(
            nn.Sequential(conv(before, after, kernel, stride), nn.ReLU(inplace=True), residual_blocks(after))
            for before, after, kernel, stride in (
                (3, width, 7, 1),
                (width, 2 * width, 3, 2),
                (2 * width, 4 * width, 3, 2),
            )
        )

    def forward(self, frames: Tensor) -> list[Tensor]:
        """Frames `[B, 3, H, W]` to features, the finest first."""
        found = []
        for level in self.levels:
            frames = level(frames)
            found.append(frames)
        return found

    def each(self, frames: Tensor) -> list[list[Tensor]]:
        """The same of N frames `[B, N, 3, H, W]` in one batch, frame by frame."""
        levels = [level.unflatten(0, frames.shape[:2]).unbind(1) for level in self(frames.flatten(0, 1))]
        return [list(frame) for frame in zip(*levels, strict=True)]


class VelocityDecoder(nn.Module):
    """Velocities at quarter and half resolution from the features of two frames; heads as wide as the encoder is."""

    def __init__(self, width: int) -> None:
        super().__init__()
        coarse, fine = (tuple(channels * width // PUBLISHED_WIDTH for channels in head) for head in HEADS)
        self.coarse = FlowHead(CORRELATIONS, coarse)
        self.up_flow = nn.ConvTranspose2d(2, 2, 4, 2, 1)
        self.up_features = nn.ConvTranspose2d(self.coarse.channels, 2, 4, 2, 1)
        self.fine = FlowHead(CORRELATIONS + 4, fine)

    def forward(self, current: list[Tensor], other: list[Tensor]) -> list[Tensor]:
        """Features of the current and another frame, the finest first, to velocities at all three levels.

        They are in pixels of their level; full resolution has that of half resolution, doubled.
        """
        coarse, features = self.coarse(correlation(current[2], other[2]))
        hints = [precisely(self.up_flow, coarse), self.up_features(features)]
        fine, _ = self.fine(torch.cat([correlation(current[1], other[1]), *hints], 1))
        fine = fine + 2.0 * F.interpolate(coarse, scale_factor=2.0, mode="bilinear", align_corners=False)
        full = 2.0 * F.interpolate(fine, scale_factor=2.0, mode="bilinear", align_corners=False)
        return [full, fine, coarse]


class Dsun(Baseline):
    """The network.

    Args:
        width: channels at full resolution; 32 as published. The flow heads grow with it.
    """

    multiple: ClassVar[int] = 4
    uses_flow: ClassVar[bool] = False
    instants: ClassVar[tuple[TruthInstant, ...]] = ("middle",)
    published: ClassVar[float] = 3.91
    trained_width: ClassVar[int] = 16

    def __init__(self, width: int = PUBLISHED_WIDTH) -> None:
        super().__init__(width)
        self.encoder = Encoder(width)
        self.velocity = VelocityDecoder(width)
        widths = [width + CARRIED + 3, 2 * width + CARRIED + 3, 4 * width]  # the finest first
        self.blocks = nn.ModuleList(residual_blocks(each) for each in widths)
        self.pictures = nn.ModuleList(conv(each, 3) for each in widths)
        self.carried = nn.ModuleList(nn.ConvTranspose2d(each, CARRIED, 4, 2, 1) for each in widths[1:])
        self.enlarged = nn.ModuleList(nn.ConvTranspose2d(3, 3, 4, 2, 1) for _ in widths[1:])
        begin(self)
        begin_encoder(self.encoder.levels)
        enlarge(self.velocity.up_flow, 2.0)
        for picture in self.pictures:
            sharpen(picture)
        for larger in self.enlarged:
            enlarge(larger)

    def levels(self, window: Window, tau: Tensor) -> list[Level]:
        """The results at all levels, the finest first."""
        previous, current = self.encoder.each(window.frames)
        velocities = self.velocity(current, previous)
        found: list[Level] = []
        carried: list[Tensor] = []
        for level in (2, 1, 0):
            remaining = window.remaining(tau, current[level].shape[-2], level)
            displacement = velocities[level] * remaining
            moved, touched = gaussian_splat(current[level], displacement)
            features = self.blocks[level](torch.cat([moved, *carried], 1))
            picture = self.pictures[level](features)
            found.insert(0, Level(picture, displacement, touched))
            if level:
                carried = [self.carried[level - 1](features), self.enlarged[level - 1](picture)]
        return found

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        return self.levels(window, tau)[0].picture

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """At each level: 10 masked L1, features, and 0.1 of the roughness of the displacement."""
        total = window.frames.new_zeros(())
        for number, level in enumerate(self.levels(window, 0.5 * window.gamma)):
            truth = truths.middle if number == 0 else F.avg_pool2d(truths.middle, 2**number)
            total = total + 10.0 * masked_difference(level.picture, truth, level.touched)
            total = total + features(level.picture, truth).mean() + 0.1 * roughness(level.displacement)
        return total
