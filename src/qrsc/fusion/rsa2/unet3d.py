"""The 3-D U-Net encoder: convolutions in place of attention, with about as many parameters as the transformer."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.rsa2.convolutions import FramesConv
from qrsc.fusion.rsa2.encoder import SLOPE, ResidualBlock


class UNetEncoder(nn.Module):
    """Features of several frames at 1/2, 1/4, 1/8 and 1/16 of their resolution, by 3-D convolutions."""

    def __init__(self, incoming: int, stem: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.stem = FramesConv(incoming, stem)
        self.residual = ResidualBlock(stem)
        before = (stem, *widths[:-1])
        self.halve = nn.ModuleList(
            FramesConv(above, channels, stride=2) for above, channels in zip(before, widths, strict=True)
        )
        self.blocks = nn.ModuleList(ResidualBlock(channels) for channels in widths)

    def forward(self, inputs: Tensor) -> list[Tensor]:
        """Encode `[B, C, T, H, W]`, H and W multiples of 16; the finest features come first."""
        features = self.residual(F.leaky_relu(self.stem(inputs), SLOPE))
        levels = []
        for halve, block in zip(self.halve, self.blocks, strict=True):
            features = F.leaky_relu(block(F.leaky_relu(halve(features), SLOPE)), SLOPE)
            levels.append(features)
        return levels
