"""The encoder of the flow network: features at a quarter, an eighth and a sixteenth of a frame's resolution."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

TRITON = find_spec("triton") is not None
GROUP = 16  # channels of a group in group normalisation


class Features(NamedTuple):
    """The features of a batch of frames, `[B, C, H / stride, W / stride]`.

    Attributes:
        quarter, eighth, sixteenth: with strides 4, 8 and 16.
    """

    quarter: Tensor
    eighth: Tensor
    sixteenth: Tensor


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions with group normalisation and a skip connection."""

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, 1)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1)
        self.first_norm = group_norm(channels)
        self.second_norm = group_norm(channels)
        self.skip = nn.Conv2d(channels_in, channels, 1, stride) if stride > 1 or channels_in != channels else None

    def forward(self, x: Tensor) -> Tensor:
        """`[B, C_in, h, w]` to `[B, C, h / stride, w / stride]`."""
        branch = convolved(x, self.first, self.first_norm)
        return convolved(branch, self.second, self.second_norm, x if self.skip is None else self.skip(x))


class Encoder(nn.Module):
    """A residual network down to stride 16, whose coarser features are added to the finer ones (top-down pathway).

    Args:
        stem: channels at stride 2.
        widths: channels at strides 4, 8 and 16.
        depths: residual blocks at strides 4, 8 and 16.
    """

    def __init__(self, stem: int, widths: tuple[int, int, int], depths: tuple[int, int, int]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, stem, 7, 2, 3)
        self.stem_norm = group_norm(stem)
        before = (stem, *widths[:2])
        self.stages = nn.ModuleList(
            nn.Sequential(
                ResidualBlock(channels_in, channels, 2), *(ResidualBlock(channels, channels) for _ in range(depth - 1))
            )
            for channels_in, channels, depth in zip(before, widths, depths, strict=True)
        )
        self.from_eighth = nn.Conv2d(widths[1], widths[0], 1)
        self.from_sixteenth = nn.Conv2d(widths[2], widths[1], 1)
        self.merge_eighth = ResidualBlock(widths[1], widths[1])

    def forward(self, frames: Tensor) -> Features:
        """Features of frames `[B, 3, H, W]` in [0, 1], with H and W multiples of 16."""
        x = convolved(2.0 * frames - 1.0, self.stem, self.stem_norm)
        quarter = self.stages[0](x)
        eighth = self.stages[1](quarter)
        sixteenth = self.stages[2](eighth)
        eighth = self.merge_eighth(eighth + _doubled(self.from_sixteenth(sixteenth)))
        quarter = quarter + _doubled(self.from_eighth(eighth))
        return Features(quarter, eighth, sixteenth)


def group_norm(channels: int) -> nn.GroupNorm:
    """Group normalisation: independent of the batch, so that the flow of a pair does not depend on other pairs."""
    return nn.GroupNorm(max(1, channels // GROUP), channels)


def convolved(x: Tensor, convolution: nn.Conv2d, norm: nn.GroupNorm, skip: Tensor | None = None) -> Tensor:
    """A convolution of `[B, C, h, w]`, normalised, with a skip connection of the result's shape added, and rectified.

    By our own kernels on a GPU if no gradient is needed; see `norm_kernels`.
    """
    bias, wanted = convolution.bias, (x, convolution.weight)
    assert bias is not None
    if not x.is_cuda or not TRITON or (torch.is_grad_enabled() and any(each.requires_grad for each in wanted)):
        normal = norm(convolution(x))
        return F.relu(normal if skip is None else normal + skip)
    found = F.conv2d(x, convolution.weight, None, convolution.stride, convolution.padding)
    # Calling the operator imports the compiler, which takes seconds: only where it compiles.
    normalised = _normalised if torch.compiler.is_compiling() else _by_kernels
    result: Tensor = normalised(found, bias, norm.num_groups, norm.weight, norm.bias, norm.eps, skip)
    return result


def plainly_normalised(
    features: Tensor, bias: Tensor, groups: int, weight: Tensor, shift: Tensor, epsilon: float, skip: Tensor | None
) -> Tensor:
    """The rectified sum of features `[B, C, h, w]` after group normalisation and a skip connection.

    Args:
        bias: `[C]`, added to the features first.
        weight, shift: `[C]`, of the normalisation.
    """
    normal = F.group_norm(features.float() + bias.float().reshape(-1, 1, 1), groups, weight, shift, epsilon)
    return F.relu(normal if skip is None else normal + skip).to(features.dtype)


def _by_kernels(
    features: Tensor, bias: Tensor, groups: int, weight: Tensor, shift: Tensor, epsilon: float, skip: Tensor | None
) -> Tensor:
    from qrsc.flow.raft_rs.norm_kernels import normalised

    return normalised(features, bias, groups, weight, shift, epsilon, skip)


_normalised = torch.library.custom_op("qrsc::normalised", _by_kernels, mutates_args=())


@_normalised.register_fake
def _(
    features: Tensor, bias: Tensor, groups: int, weight: Tensor, shift: Tensor, epsilon: float, skip: Tensor | None
) -> Tensor:
    return torch.empty_like(features, memory_format=torch.channels_last)


def _doubled(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
