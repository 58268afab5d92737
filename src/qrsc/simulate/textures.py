"""Textures made from nothing but a seed, as `[3, h, w]` RGB in 0 to 1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

Colour = tuple[float, float, float]


def fractal_noise(
    height: int, width: int, generator: torch.Generator, *, cells: int = 4, octaves: int = 6, roughness: float = 0.55
) -> Tensor:
    """Cloud-like noise `[h, w]` with mean 0 and standard deviation 1.

    Args:
        cells: cells of the coarsest octave along the height.
        octaves: how often the cells are halved; stops at the pixel.
        roughness: amplitude of an octave relative to the one before.
    """
    total = torch.zeros(height, width)
    for octave in range(octaves):
        rows = cells * 2**octave
        if rows > height:
            break
        columns = max(2, round(rows * width / height))
        grid = torch.randn(1, 1, rows + 3, columns + 3, generator=generator)
        smooth = F.interpolate(grid, size=(height, width), mode="bicubic", align_corners=True)[0, 0]
        total += roughness**octave * smooth
    return (total - total.mean()) / total.std().clamp_min(1e-6)


def band_limited(
    height: int, width: int, generator: torch.Generator, *, waves: int = 24, shortest: float = 24.0
) -> Tensor:
    """Sums of cosines no shorter than `shortest` texels, for tests that ask for exactness.

    The cosines have extrema at the edges, so that the mirrored texture is as smooth across them as anywhere.
    """
    y = (torch.arange(height) + 0.5) / height
    x = (torch.arange(width) + 0.5) / width
    texture = torch.full((3, height, width), 0.5)
    for _ in range(waves):
        # cos(pi n x) over `width` texels has a wavelength of 2 width / n.
        angle = 0.5 * torch.pi * torch.rand(1, generator=generator)
        reach = torch.rand(1, generator=generator).sqrt() * 2.0 / shortest
        column_waves = (reach * angle.cos() * width).floor()
        row_waves = (reach * angle.sin() * height).floor()
        wave = torch.cos(torch.pi * row_waves * y)[:, None] * torch.cos(torch.pi * column_waves * x)[None, :]
        amplitude = torch.randn(3, 1, 1, generator=generator)
        texture = texture + 0.45 / waves**0.5 * amplitude * wave
    return texture.clamp(0.0, 1.0) if texture.amin() >= 0 and texture.amax() <= 1 else _into_range(texture)


def tinted(pattern: Tensor, dark: Colour, light: Colour) -> Tensor:
    """A pattern `[h, w]`, 0 to 1, between two colours: `[3, h, w]`."""
    low = torch.tensor(dark).reshape(3, 1, 1)
    high = torch.tensor(light).reshape(3, 1, 1)
    return low + (high - low) * pattern


def bricks(
    height: int,
    width: int,
    generator: torch.Generator,
    *,
    rows: int = 32,
    aspect: float = 3.0,
    brick: Colour = (0.55, 0.27, 0.2),
    mortar: Colour = (0.62, 0.58, 0.53),
) -> Tensor:
    """A brick wall: each brick of its own shade, with mortar between and dirt over all."""
    tall = height / rows
    y = torch.arange(height)[:, None] / tall
    row = y.floor()
    x = torch.arange(width)[None, :] / (tall * aspect) + 0.5 * (row % 2)
    columns = int(width / (tall * aspect)) + 2
    shade = torch.randn(rows + 1, columns + 1, generator=generator)[row.long(), x.floor().long()]
    joint = 0.5 - torch.maximum((x % 1 - 0.5).abs() * aspect - (aspect - 1) / 2, (y % 1 - 0.5).abs())
    filled = (joint / 0.12).clamp(0.0, 1.0)
    dirt = fractal_noise(height, width, generator)
    face = torch.tensor(brick).reshape(3, 1, 1) * (1.0 + 0.16 * shade + 0.07 * dirt)
    seam = torch.tensor(mortar).reshape(3, 1, 1) * (1.0 + 0.08 * dirt)
    return (seam + (face - seam) * filled).clamp(0.0, 1.0)


def _into_range(texture: Tensor) -> Tensor:
    """Scaled about grey so that nothing is clipped: clipping would add the short waves that were left out."""
    return 0.5 + (texture - 0.5) * (0.5 / (texture - 0.5).abs().amax())
