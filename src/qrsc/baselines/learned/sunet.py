"""SUNet: two flows from both frames meet at the first row of the current one, the instant farthest from both.

Fan, Dai, He: SUNet: symmetric undistortion network for rolling shutter correction, ICCV 2021.

Two frames, the first row's instant. An encoder of five levels; at 1/16, 1/8 and 1/4 the correlation of both frames, in
both orders, gives a flow for each, which splats the features of the next finer level. There is no row factor: the flows
are learned as they are. Decoders at 1/8, 1/4 and 1/2 make a picture from each frame and one from both; the latter at
1/2 is enlarged to the result.

Each frame has heads of its own: with shared ones the count of parameters would be far from the published one.

Changed: no rectifier after flows and pictures; a flow is a correction of the coarser one; the layers that the published
network holds and never uses are left out; the feature loss is that of the package (VGG-16), not VGG-19.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from qrsc.baselines.learned.initial import begin, begin_encoder, carry, enlarge, sharpen
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant

# At 1/16, 1/8 and 1/4, for the published width.
HEADS = ((128, 128, 96, 64, 32), (64, 64, 48, 32, 16), (32, 32, 24, 16, 8))
PUBLISHED_WIDTH = 16
CARRIED = 3


class Level(NamedTuple):
    """The results at one level.

    Attributes:
        merged: `[B, 3, h, w]`, the picture from both frames.
        singles: the pictures from each frame.
        fields: `[B, 2, h, w]`, how the features of each were moved.
        touched: `[B, 1, h, w]`, where features of either landed.
    """

    merged: Tensor
    singles: list[Tensor]
    fields: list[Tensor]
    touched: Tensor


class Decoder(nn.Module):
    """Features and what the coarser level hands on, to a picture and what is handed on."""

    def __init__(self, channels: int, *, coarsest: bool, finest: bool) -> None:
        super().__init__()
        channels += 0 if coarsest else CARRIED + 3
        self.blocks = residual_blocks(channels)
        self.picture = conv(channels, 3)
        self.carried = None if finest else nn.ConvTranspose2d(channels, CARRIED, 4, 2, 1)
        self.enlarged = None if finest else nn.ConvTranspose2d(3, 3, 4, 2, 1)

    def begin(self, shares: Mapping[int, float]) -> None:
        """See `qrsc.baselines.learned.initial.sharpen`."""
        sharpen(self.picture, shares)
        if self.enlarged is not None:
            enlarge(self.enlarged)

    def forward(self, features: Tensor, handed: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """`[B, C, h, w]` to a picture `[B, 3, h, w]`, and what goes to the next finer level if there is one."""
        seen = self.blocks(torch.cat([features, *handed], 1))
        picture = self.picture(seen)
        if self.carried is None or self.enlarged is None:
            return picture, []
        return picture, [self.carried(seen), self.enlarged(picture)]


class Sunet(Baseline):
    """The network.

    Args:
        width: channels at full resolution; 16 as published. The flow heads grow with it.
    """

    multiple: ClassVar[int] = 16
    uses_flow: ClassVar[bool] = False
    instants: ClassVar[tuple[TruthInstant, ...]] = ("first",)
    published: ClassVar[float] = 10.81  # 11.98 less 1.17 that are never used
    trained_width: ClassVar[int] = 8

    def __init__(self, width: int = PUBLISHED_WIDTH) -> None:
        super().__init__(width)
        widths = [width, 2 * width, 4 * width, 6 * width, 8 * width]
        self.encoder = nn.ModuleList()
        for number, (before, after) in enumerate(zip([3, *widths], widths, strict=False)):
            first = conv(before, after, 7 if number == 0 else 3, 1 if number == 0 else 2)
            self.encoder.append(nn.Sequential(first, nn.ReLU(inplace=True), residual_blocks(after)))
        flowing = widths[:1:-1]  # at 1/16, 1/8, 1/4
        # Of the previous and the current frame, level by level.
        self.heads = nn.ModuleList(
            FlowHead(
                CORRELATIONS + own + (2 if number else 0),
                tuple(channels * width // PUBLISHED_WIDTH for channels in HEADS[number]),
            )
            for number, own in enumerate(flowing)
            for _ in (0, 1)
        )
        self.larger = nn.ModuleList(nn.ConvTranspose2d(2, 2, 4, 2, 1) for _ in flowing for _ in (0, 1))
        pictured = widths[3:0:-1]  # at 1/8, 1/4, 1/2
        self.single, self.merged = (
            nn.ModuleList(
                Decoder(frames * own, coarsest=number == 0, finest=number == 2) for number, own in enumerate(pictured)
            )
            for frames in (1, 2)
        )
        self.last = conv(3, 3)
        self.begin(pictured)

    def begin(self, pictured: Sequence[int]) -> None:
        """See `qrsc.baselines.learned.initial`."""
        begin(self)
        begin_encoder(self.encoder)
        for larger in self.larger:
            enlarge(larger, 2.0)
        for decoders in (self.single, self.merged):
            for own, decoder in zip(pictured, decoders, strict=True):
                assert isinstance(decoder, Decoder)
                # Of the previous and the current frame.
                decoder.begin({0: 0.2, own: 0.8} if decoders is self.merged else {0: 1.0})
        carry(self.last)

    def encoded(self, frame: Tensor) -> list[Tensor]:
        """Features of frames `[B, 3, H, W]`, the coarsest first."""
        found: list[Tensor] = []
        for stage in self.encoder:
            frame = stage(frame)
            found.insert(0, frame)
        return found

    def levels(self, window: Window) -> list[Level]:
        """The results at 1/8, 1/4 and 1/2."""
        # Both frames in one batch.
        stacked = self.encoded(window.frames.transpose(0, 1).flatten(0, 1))
        pyramids = list(zip(*(level.chunk(2) for level in stacked), strict=True))
        moved = [pyramid[0] for pyramid in pyramids]
        fields: list[Tensor] = []
        handed: list[list[Tensor]] = [[], []]  # to the decoders of single frames, and of both
        found = []
        for step in range(3):
            inputs = [
                torch.cat([correlation(moved[each], moved[1 - each]), moved[each], *fields[each : each + 1]], 1)
                for each in (0, 1)
            ]
            flows = [self.heads[2 * step + each](inputs[each])[0] for each in (0, 1)]
            if fields:
                flows = [flow + field for flow, field in zip(flows, fields, strict=True)]
            fields = [precisely(self.larger[2 * step + each], flows[each]) for each in (0, 1)]
            landed = [gaussian_splat(pyramids[each][step + 1], fields[each]) for each in (0, 1)]
            moved = [features for features, _ in landed]
            pictures, handed[0] = self.single[step](torch.cat(moved), handed[0])
            singles = list(pictures.chunk(2))
            merged, handed[1] = self.merged[step](torch.cat(moved, 1), handed[1])
            found.append(Level(merged, singles, fields, landed[0][1] | landed[1][1]))
        return found

    def enlarged(self, level: Level) -> Tensor:
        """The result `[B, 3, H, W]` from the finest level."""
        whole: Tensor = self.last(F.interpolate(level.merged, scale_factor=2.0, mode="bilinear", align_corners=False))
        return whole

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        return self.enlarged(self.levels(window)[-1])

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """20 L1 + features; at three levels 10 masked L1 + features, 5 L1 of single pictures, 0.1 roughness."""
        levels = self.levels(window)
        whole = self.enlarged(levels[-1])
        total = 20.0 * (whole - truths.first).abs().mean() + features(whole, truths.first).mean()
        for level, scale in zip(levels, (8, 4, 2), strict=True):
            truth = F.avg_pool2d(truths.first, scale)
            total = total + 10.0 * masked_difference(level.merged, truth, level.touched)
            total = total + features(level.merged, truth).mean()
            for single, field in zip(level.singles, level.fields, strict=True):
                total = total + 5.0 * (single - truth).abs().mean() + 0.1 * roughness(field)
        return total
