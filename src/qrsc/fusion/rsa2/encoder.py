"""The 3-D transformer encoder: a convolutional stem and four stages, each at half the resolution of the last."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qrsc.fusion.rsa2.attention import Block
from qrsc.fusion.rsa2.convolutions import FramesConv, fast

SLOPE = 0.2  # of the leaky ReLUs
RESIDUAL = 0.2  # initial scale of the residual branches


def keep_scale(network: nn.Module) -> None:
    """Initialise convolutions so that they keep the variance of their input (He initialisation), biases 0.

    With PyTorch's default the signal shrinks by half in every layer: at the end of RSA^2-Net 0.03 of it was left for
    the kernels and 0.004 for the masks, whose last layers start at 0. Overfitting a narrow network to eight samples for
    150 steps: +0.6 dB over the mean with PyTorch's initialisation, +1.5 dB with this one.
    """
    for layer in network.modules():
        if isinstance(layer, (nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
            taps = math.prod(layer.kernel_size) / layer.groups
            if isinstance(layer, (nn.ConvTranspose2d, nn.ConvTranspose3d)):
                taps /= math.prod(layer.stride)  # each output sees only some of them
            nn.init.normal_(layer.weight, std=(2.0 / (1.0 + SLOPE**2) / (layer.in_channels * taps)) ** 0.5)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)
    for block in network.modules():
        if isinstance(block, ResidualBlock):
            with torch.no_grad():
                block.second.weight.mul_(RESIDUAL)


class ResidualBlock(nn.Module):
    """Two 3-D convolutions with a skip connection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = FramesConv(channels, channels)
        self.second = FramesConv(channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, T, H, W]` to the same shape."""
        result: Tensor = self.second(self.first(features, SLOPE), skip=features)
        return result


class Stage(nn.Module):
    """A convolution of stride 2, and attention blocks, every second one with shifted windows."""

    def __init__(self, incoming: int, channels: int, depth: int, heads: int, window: int, mlp_ratio: int) -> None:
        super().__init__()
        if channels % heads:
            raise ValueError(f"heads must divide the channels; got {heads} heads for {channels}.")
        self.halve = FramesConv(incoming, channels, stride=2)
        self.blocks = nn.ModuleList(
            Block(channels, heads, window, window // 2 if number % 2 else 0, mlp_ratio) for number in range(depth)
        )

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, T, H, W]` to `[B, C', T, H / 2, W / 2]`."""
        halved: Tensor = self.halve(features, SLOPE)
        tokens = halved.permute(0, 2, 3, 4, 1)
        if fast(tokens):
            tokens = tokens.contiguous()  # once instead of in every layer
        for block in self.blocks:
            tokens = block(tokens)
        return tokens.permute(0, 4, 1, 2, 3)


class TransformerEncoder(nn.Module):
    """Features of several frames at 1/2, 1/4, 1/8 and 1/16 of their resolution."""

    def __init__(
        self,
        incoming: int,
        stem: int,
        widths: Sequence[int],
        depths: Sequence[int],
        heads: Sequence[int],
        window: int,
        mlp_ratio: int,
    ) -> None:
        super().__init__()
        self.stem = FramesConv(incoming, stem)
        self.residual = ResidualBlock(stem)
        before = (stem, *widths[:-1])
        self.stages = nn.ModuleList(
            Stage(*sizes, window, mlp_ratio) for sizes in zip(before, widths, depths, heads, strict=True)
        )

    def forward(self, inputs: Tensor) -> list[Tensor]:
        """Encode `[B, C, T, H, W]`, H and W multiples of 16; the finest features come first."""
        features = self.residual(self.stem(inputs, SLOPE))
        levels = []
        for stage in self.stages:
            features = stage(features)
            levels.append(features)
        return levels
