"""The parts that several networks share: correlation, flow head, residual block, splatting, U-Net."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from qrsc.image.sampling import pixel_grid

REACH = 4  # pixels of the correlation, to each side
CORRELATIONS = (2 * REACH + 1) ** 2
TILE = 8  # side of the squares of pixels that are correlated together
SPREAD = 2  # pixels of the Gaussian splat, to each side


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the size, or divides it by its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2)


def full_precision(tensor: Tensor) -> torch.autocast:
    """A context without autocast on the device of a tensor."""
    return torch.autocast(tensor.device.type, enabled=False)


def precise(tensor: Tensor) -> Tensor:
    """A tensor of 16 bits in 32; others as they are."""
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def precisely(layer: nn.Module, features: Tensor) -> Tensor:
    """The result of a layer without autocast: bfloat16 would round motion of 20 pixels to eighths of a pixel."""
    with full_precision(features):
        found: Tensor = layer(precise(features))
    return found


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
        return precisely(self.flow, features), features


def correlation(first: Tensor, second: Tensor) -> Tensor:
    """Mean products of features `[B, C, H, W]` with those of others up to 4 pixels away: `[B, 81, H, W]`.

    Squares of 8 x 8 pixels are multiplied with all 16 x 16 around them, of which 81 are kept for each pixel: three
    times the products that are needed, in one multiplication of matrices instead of 81 passes over all features.
    """
    height, width = first.shape[-2:]
    below, right = -height % TILE, -width % TILE
    whole = TILE + 2 * REACH
    with full_precision(first):
        own = F.pad(precise(first), (0, right, 0, below))
        other = F.pad(precise(second), (REACH, REACH + right, REACH, REACH + below))
        batch, channels = own.shape[:2]
        down, across = own.shape[-2] // TILE, own.shape[-1] // TILE
        squares = own.reshape(batch, channels, down, TILE, across, TILE).permute(0, 2, 4, 3, 5, 1)
        around = other.unfold(2, whole, TILE).unfold(3, whole, TILE).permute(0, 2, 3, 1, 4, 5)
        products = torch.bmm(
            squares.reshape(-1, TILE * TILE, channels), around.reshape(-1, channels, whole * whole)
        )  # [B down across, 64, 256]
        kept = products.gather(2, _neighbours(own.device).expand(len(products), -1, -1)) / channels
    found = kept.reshape(batch, down, across, TILE, TILE, CORRELATIONS).permute(0, 5, 1, 3, 2, 4)
    return F.leaky_relu(found.reshape(batch, CORRELATIONS, *own.shape[-2:])[..., :height, :width], 0.1)


@lru_cache(maxsize=8)
def _neighbours(device: torch.device) -> Tensor:
    """For each of the 64 pixels of a square the places of its 81 neighbours in the 256 around: `[64, 81]`."""
    whole = TILE + 2 * REACH
    pixel, step = torch.arange(TILE), torch.arange(2 * REACH + 1)
    line = pixel[:, None] + step  # [8, 9]
    places = line[:, None, :, None] * whole + line[None, :, None, :]  # [8, 8, 9, 9]
    return places.reshape(TILE * TILE, CORRELATIONS).to(device)


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
    features, field = precise(features), precise(field)
    batch, channels, height, width = features.shape
    margin = SPREAD + 1
    rows, columns = height + 2 * margin, width + 2 * margin
    target = pixel_grid(height, width, dtype=field.dtype, device=field.device) + field
    target = torch.nan_to_num(target, nan=-1e4)
    # What lands further out than the splat reaches is put where none of it comes into the frame.
    x, y = target[:, :1].clamp(-margin, width - 1 + margin), target[:, 1:].clamp(-margin, height - 1 + margin)
    near_x, near_y = x.detach().round(), y.detach().round()
    payload = torch.cat([features, torch.ones_like(features[:, :1])], 1).flatten(2).unsqueeze(2)  # [B, C + 1, 1, H W]
    total = payload.new_zeros(batch, channels + 1, rows * columns)
    steps = torch.arange(-SPREAD, SPREAD + 1, device=field.device).reshape(1, -1, 1, 1)
    at_x = near_x + steps  # [B, 5, H, W]
    column = (at_x + margin).clamp(0, columns - 1).long()
    for down in range(-SPREAD, SPREAD + 1):
        at_y = near_y + down
        weight = torch.exp(-(x - at_x).square() - (y - at_y).square()).flatten(2).unsqueeze(1)  # [B, 1, 5, H W]
        row = (at_y + margin).clamp(0, rows - 1).long()
        place = (row * columns + column).flatten(1).unsqueeze(1).expand(-1, channels + 1, -1)
        total = total.scatter_add(2, place, (payload * weight).flatten(2))
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
        return precisely(self.last, features)


def _two_convolutions(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False),
        nn.LeakyReLU(0.1),
        nn.Conv2d(outputs, outputs, kernel, padding=kernel // 2, bias=False),
        nn.LeakyReLU(0.1),
    )
