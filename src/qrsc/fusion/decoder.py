"""From the encoder's coarsest features back up to half the frames' size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.encoder import SLOPE, ResidualBlock


class Decoder(nn.Module):
    """Three times doubled in size and joined by the encoder's features of that size; smoothed for the heads."""

    def __init__(self, widths: Sequence[int], features: int) -> None:
        super().__init__()
        self.enlarge, self.smooth = nn.ModuleList(), nn.ModuleList()
        incoming = widths[-1]
        for channels in reversed(widths[:-1]):
            self.enlarge.append(nn.ConvTranspose3d(incoming, features, (3, 4, 4), stride=(1, 2, 2), padding=1))
            incoming = features + channels
            self.smooth.append(Smoothing(incoming, features))

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """From features `[B, C, T, h, w]`, finest first, to `[B, features, T, h, w]` at 1/8, 1/4 and 1/2."""
        features, found = levels[-1], []
        for enlarge, smooth, skipped in zip(self.enlarge, self.smooth, reversed(levels[:-1]), strict=True):
            features = torch.cat([F.leaky_relu(enlarge(features), SLOPE), skipped], 1)
            found.append(smooth(features))
        return found


class Smoothing(nn.Module):
    """A convolution and a residual block."""

    def __init__(self, incoming: int, channels: int) -> None:
        super().__init__()
        self.enter = nn.Conv3d(incoming, channels, 3, padding=1)
        self.residual = ResidualBlock(channels)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, T, H, W]` to `[B, C', T, H, W]`."""
        result: Tensor = self.residual(F.leaky_relu(self.enter(features), SLOPE))
        return result
