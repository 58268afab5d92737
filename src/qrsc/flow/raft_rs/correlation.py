"""Correlation of the features of two frames: of all pairs, in a window around a flow, and locally at a finer grid.

Convention
    Features `[B, C, h, w]` are defined on a grid of cells; flows here are in cells, (dx, dy), and cell centres lie at
    integer coordinates. A cell of a pooled level covers 2 x 2 cells of the level below, so that position x of the finer
    level is `(x + 0.5) / 2 - 0.5` of the coarser one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.warp import pixel_grid


def sample_at(values: Tensor, place: Tensor) -> Tensor:
    """Sample `[B, C, h, w]` at positions `[B, 2, h', w']` (x, y), bilinearly, 0 outside: `[B, C, h', w']`, float32."""
    height, width = values.shape[-2:]
    x = (place[:, 0] + 0.5) * (2.0 / width) - 1.0
    y = (place[:, 1] + 0.5) * (2.0 / height) - 1.0
    grid = torch.stack([x, y], dim=-1).float()
    return F.grid_sample(values.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def standardised(features: Tensor) -> Tensor:
    """Features `[B, C, h, w]` minus their mean over the frame, each cell scaled to a root mean square of 1; float32.

    Even random features then give distinct matches: correlations of unrelated cells have a standard deviation of about
    1, and a cell's correlation with itself is the square root of C. Training starts from there, instead of from matches
    that are all alike.
    """
    features = features.float()
    features = features - features.mean(dim=(2, 3), keepdim=True)
    return features * torch.rsqrt(features.square().mean(dim=1, keepdim=True) + 1e-6)


def global_match(source: Tensor, target: Tensor, sharpness: Tensor) -> tuple[Tensor, Tensor]:
    """An initial flow of any length: the mean position of each cell's matches in the other frame, by a softmax.

    Args:
        source, target: `[B, C, h, w]`.
        sharpness: scalar; the correlation is multiplied by it before the softmax.

    Returns:
        flow: `[B, 2, h, w]`, in cells.
        log_probability: `[B, h w, h w]`, that a cell (row) matches a cell of the other frame (column).
    """
    batch, _, height, width = source.shape
    grid = pixel_grid(height, width, device=source.device)
    scores = _all_pairs(source, target) * sharpness  # [B, h w, h w]
    log_probability = torch.log_softmax(scores, dim=-1)
    place = log_probability.exp() @ grid.flatten(1).t()  # [B, h w, 2]
    return place.transpose(1, 2).reshape(batch, 2, height, width) - grid, log_probability


def correlation_pyramid(
    source: Tensor, target: Tensor, levels: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """The correlation of every cell with every cell of the other frame, and with blocks of cells of doubling size.

    Args:
        source, target: `[B, C, h, w]`.
        levels: number of sizes of blocks.
        dtype: of the features that are multiplied, and of the result; sums are float32.

    Returns:
        `levels` tensors `[B h w, 1, h / 2**l, w / 2**l]`.
    """
    pyramid = []
    for level in range(levels):
        # The mean of correlations is the correlation with the mean: pooling features costs far less than the volume.
        target = target if level == 0 else F.avg_pool2d(target, 2, ceil_mode=True)
        pyramid.append(_all_pairs(source, target, dtype).reshape(-1, 1, *target.shape[-2:]))
    return pyramid


def look_up(pyramid: list[Tensor], flow: Tensor, radius: int) -> Tensor:
    """The correlations in a window around the target of a flow, on every level.

    Args:
        pyramid: from `correlation_pyramid`.
        flow: `[B, 2, h, w]`, in cells.
        radius: the window is `2 radius + 1` cells wide on each level.

    Returns:
        `[B, levels (2 radius + 1)**2, h, w]`, float32.
    """
    batch, _, height, width = flow.shape
    place = (flow + pixel_grid(height, width, device=flow.device)).permute(0, 2, 3, 1).reshape(-1, 2, 1, 1)
    window = 2 * radius + 1
    offset = pixel_grid(window, window, device=flow.device) - radius
    found = []
    for level, volume in enumerate(pyramid):
        centre = (place + 0.5) / 2**level - 0.5
        values = sample_at(volume, centre + offset)  # [B h w, 1, window, window]
        found.append(values.reshape(batch, height, width, window * window))
    return torch.cat(found, dim=-1).permute(0, 3, 1, 2)


def local_correlation(source: Tensor, target: Tensor, flow: Tensor, radius: int) -> Tensor:
    """The correlation with the cells around the target of a flow, for grids too fine to store all pairs.

    The target features are warped to the source's grid by the flow, then rows are multiplied with rows, and the band
    around the diagonal of each product is kept. That takes `w / (2 radius + 1)` times the arithmetic that is needed,
    and is still faster than shifting and multiplying, on a CPU and on a GPU.

    Args:
        source, target: `[B, C, h, w]`.
        flow: `[B, 2, h, w]`, in cells.

    Returns:
        `[B, (2 radius + 1)**2, h, w]`, in the source's dtype.
    """
    channels, height, width = source.shape[1:]
    window = 2 * radius + 1
    moved = sample_at(target, flow + pixel_grid(height, width, device=flow.device)).to(source.dtype)
    beyond = radius + -(width + 2 * radius) % 8  # lengths in multiples of 8 are much faster on a GPU
    moved = F.pad(moved, [radius, beyond, radius, radius]).permute(0, 2, 1, 3).contiguous()  # [B, h + .., C, w + ..]
    rows = source.permute(0, 2, 3, 1).contiguous() * channels**-0.5  # [B, h, w, C]
    column = torch.arange(width, device=flow.device)[:, None] + torch.arange(window, device=flow.device)
    column = column.expand(source.shape[0], height, width, window)
    bands = [(rows @ moved[:, down : down + height]).gather(-1, column) for down in range(window)]
    return torch.cat(bands, dim=-1).permute(0, 3, 1, 2)


def _all_pairs(source: Tensor, target: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Correlation of all pairs of cells, `[B, h w, h' w']`; standard deviation 1 for unrelated features of scale 1."""
    if dtype != torch.float32:  # the features are scaled instead of the products, without a second volume
        source = (source * source.shape[1] ** -0.5).to(dtype)
        return source.flatten(2).transpose(1, 2) @ target.to(dtype).flatten(2)
    products = source.flatten(2).transpose(1, 2) @ target.flatten(2)
    return products.mul(source.shape[1] ** -0.5)
