"""The parts that several networks share: correlation, flow head, residual block, splatting, U-Net."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.image.sampling import pixel_grid

REACH = 4  # pixels of the correlation, to each side
CORRELATIONS = (2 * REACH + 1) ** 2
SPREAD = 2  # pixels of the Gaussian splat, to each side


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size, or divides it by its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with a rectifier between them, added to the input; no normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(conv(channels, channels), nn.ReLU(inplace=True), conv(channels, channels))

    def forward(self, features: Tensor) -> Tensor:
        """`[B, C, H, W]` to the same shape."""
        changed: Tensor = self.body(features)
        return features + changed


def residual_blocks(channels: int, count: int = 3) -> nn.Sequential:
    """Residual blocks one after the other."""
    return nn.Sequential(*(ResidualBlock(channels) for _ in range(count)))


class FlowHead(nn.Module):
    """Densely connected 3x3 convolutions with rectifiers, and one to a flow of two channels."""

    def __init__(self, inputs: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for width in widths:
            self.layers.append(conv(inputs, width))
            inputs += width
        self.channels = inputs
        self.flow = conv(inputs, 2)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Features `[B, C, H, W]` to a flow `[B, 2, H, W]` and all features behind it, `[B, channels, H, W]`."""
        for layer in self.layers:
            features = torch.cat([F.relu(layer(features)), features], 1)
        return self.flow(features), features


def correlation(first: Tensor, second: Tensor) -> Tensor:
    """Mean products of features `[B, C, H, W]` with those of others up to 4 pixels away: `[B, 81, H, W]`."""
    height, width = first.shape[-2:]
    padded = F.pad(second, [REACH] * 4)
    side = 2 * REACH + 1
    products = [
        (first * padded[..., row : row + height, column : column + width]).mean(1)
        for row in range(side)
        for column in range(side)
    ]
    return F.leaky_relu(torch.stack(products, 1), 0.1)


def gaussian_splat(features: Tensor, field: Tensor) -> tuple[Tensor, Tensor]:
    """Push features along a field, each onto the 5x5 pixels around its target.

    Convention
        `field` is defined on the input grid: `features(m)` land around `m + field(m)`, with the weight exp(-d^2) at a
        distance of d pixels. Holes are 0.

    Args:
        features: `[B, C, H, W]`.
        field: `[B, 2, H, W]`, pixels.

    Returns:
        `[B, C, H, W]`, and `[B, 1, H, W]` bool: something landed there.
    """
    batch, channels, height, width = features.shape
    margin = SPREAD + 1
    rows, columns = height + 2 * margin, width + 2 * margin
    target = pixel_grid(height, width, dtype=field.dtype, device=field.device) + field
    target = torch.nan_to_num(target, nan=-1e4)
    x, y = target[:, 0].clamp(-margin + 0.5, width), target[:, 1].clamp(-margin + 0.5, height)
    near_x, near_y = x.detach().round(), y.detach().round()
    payload = torch.cat([features, torch.ones_like(features[:, :1])], 1).flatten(2)  # [B, C + 1, H W]
    total = payload.new_zeros(batch, channels + 1, rows * columns)
    for down in range(-SPREAD, SPREAD + 1):
        for across in range(-SPREAD, SPREAD + 1):
            at_x, at_y = near_x + across, near_y + down
            weight = torch.exp(-(x - at_x).square() - (y - at_y).square()).flatten(1).unsqueeze(1)
            column = (at_x + margin).clamp(0, columns - 1).long()
            row = (at_y + margin).clamp(0, rows - 1).long()
            place = (row * columns + column).flatten(1).unsqueeze(1)
            total = total.scatter_add(2, place.expand_as(payload), payload * weight)
    total = total.reshape(batch, channels + 1, rows, columns)[..., margin:-margin, margin:-margin]
    weights = total[:, -1:]
    touched = weights > 1e-3
    return torch.where(touched, total[:, :-1] / weights.clamp_min(1e-3), torch.zeros_like(total[:, :-1])), touched


def roughness(field: Tensor) -> Tensor:
    """Mean squared difference of neighbours in a displacement field `[B, 2, H, W]` (total variation, squared)."""
    return field.diff(dim=-1).square().mean() + field.diff(dim=-2).square().mean()


def masked_difference(picture: Tensor, truth: Tensor, mask: Tensor) -> Tensor:
    """Mean absolute difference of pictures `[B, 3, H, W]` where a mask `[B, 1, H, W]` is true."""
    counted = mask.to(picture)
    return ((picture - truth).abs() * counted).sum() / (3.0 * counted.sum()).clamp_min(1.0)


class UNet(nn.Module):
    """The U-Net of RSSR and CVR: kernels 7, 5, then 3, mean pooling, skips that are added, no biases.

    Args:
        inputs, outputs: channels.
        width: of the first level; 32 as published.
    """

    def __init__(self, inputs: int, outputs: int, width: int = 32) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width, 16 * width, 16 * width]
        kernels = [7, 5, 3, 3, 3, 3]
        self.down = nn.ModuleList()
        for before, after, kernel in zip([inputs, *widths], widths, kernels, strict=False):
            self.down.append(_two_convolutions(before, after, kernel))
        turned = widths[::-1]
        self.up = nn.ModuleList(_two_convolutions(a, b, 3) for a, b in pairwise(turned))
        self.last = nn.Conv2d(width, outputs, 3, padding=1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        """`[B, inputs, H, W]` to `[B, outputs, H, W]`; both sides multiples of 32."""
        levels = []
        for number, stage in enumerate(self.down):
            features = stage(F.avg_pool2d(features, 2) if number else features)
            levels.append(features)
        for stage, skip in zip(self.up, levels[-2::-1], strict=True):
            larger = F.interpolate(features, scale_factor=2.0, mode="bilinear", align_corners=False)
            features = stage(larger) + skip
        found: Tensor = self.last(features)
        return found


def _two_convolutions(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
        nn.LeakyReLU(0.1),
        nn.Conv2d(outputs, outputs, kernel, padding=kernel // 2, bias=False),
        nn.LeakyReLU(0.1),
    )
