"""The decoder: from the encoder's coarsest features up to half the frames' resolution."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from qrsc.fusion.rsa2.convolutions import FramesConv, FramesEnlarge, join_channels
from qrsc.fusion.rsa2.encoder import SLOPE, ResidualBlock


class Decoder(nn.Module):
    """Upsample by 2 three times, each time with a skip connection from the encoder and a convolution for the head."""

    def __init__(self, widths: Sequence[int], features: int) -> None:
        super().__init__()
        self.enlarge, self.smooth = nn.ModuleList(), nn.ModuleList()
        incoming = widths[-1]
        for channels in reversed(widths[:-1]):
            self.enlarge.append(FramesEnlarge(incoming, features))
            incoming = features + channels
            self.smooth.append(Smoothing(incoming, features))

    def forward(self, levels: Sequence[Tensor]) -> list[Tensor]:
        """Decode features `[B, C, T, h, w]`, finest first, to `[B, features, T, h, w]` at 1/8, 1/4 and 1/2."""
        features, found = levels[-1], []
        for enlarge, smooth, skipped in zip(self.enlarge, self.smooth, reversed(levels[:-1]), strict=True):
            features = join_channels([enlarge(features, slope=SLOPE), skipped])
            found.append(smooth(features))
        return found


class Smoothing(nn.Module):
    """A convolution and a residual block."""

    def __init__(self, incoming: int, channels: int) -> None:
        super().__init__()
        self.enter = FramesConv(incoming, channels)
        self.residual = ResidualBlock(channels)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, T, H, W]` to `[B, C', T, H, W]`."""
        result: Tensor = self.residual(self.enter(features, SLOPE))
        return result
