"""Procedural textures `[3, h, w]`, RGB in 0 to 1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.simulate.paint.lettering import write

Colour = tuple[float, float, float]


def fractal_noise(
    height: int, width: int, generator: torch.Generator, *, cells: int = 4, octaves: int = 6, roughness: float = 0.55
) -> Tensor:
    """Cloud-like noise `[h, w]` with mean 0 and standard deviation 1.

    Args:
        cells: cells of the coarsest octave along the height.
        octaves: number of octaves; each halves the cells, down to one texel.
        roughness: amplitude of an octave relative to the previous one.
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
    """Sums of cosines with wavelengths of at least `shortest` texels, for exact comparisons.

    The cosines have extrema at the edges, so that the mirrored texture is smooth there, too.
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
    """Map a pattern `[h, w]`, 0 to 1, to colours between two: `[3, h, w]`."""
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
    """A brick wall: each brick with its own shade, mortar between them, and dirt."""
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


def checkers(
    height: int, width: int, generator: torch.Generator, *, rows: int = 12, dark: Colour, light: Colour
) -> Tensor:
    """Worn squares in two colours, each with its own shade."""
    y = (torch.arange(height) * rows / height).long()[:, None]
    x = (torch.arange(width) * rows / height).long()[None]
    shade = torch.randn(rows, int(x.max()) + 1, generator=generator)[y, x]
    worn = fractal_noise(height, width, generator)
    return (tinted(((x + y) % 2).float(), dark, light) * (1.0 + 0.06 * shade + 0.05 * worn)).clamp(0.0, 1.0)


def stripes(
    height: int, width: int, generator: torch.Generator, *, count: int = 24, dark: Colour, light: Colour
) -> Tensor:
    """Vertical stripes of random widths: boards, cladding, awnings."""
    edges = torch.rand(count, generator=generator).cumsum(0)
    edges = edges * width / edges[-1]
    number = torch.bucketize(torch.arange(width) + 0.5, edges).clamp_max(count - 1)
    tone = torch.rand(count, generator=generator)[number]
    inset = (torch.arange(width) + 0.5 - torch.cat([torch.zeros(1), edges])[number]).clamp_max(3.0) / 3.0
    grain = fractal_noise(height, width, generator, cells=2, octaves=7)
    pattern = (tone * (0.7 + 0.3 * inset))[None].expand(height, -1)
    return (tinted(pattern, dark, light) * (1.0 + 0.06 * grain)).clamp(0.0, 1.0)


def voronoi(
    height: int, width: int, generator: torch.Generator, *, rows: int = 12, dark: Colour, light: Colour
) -> Tensor:
    """Cells around scattered points, with dark joints: rubble, crazy paving, cracked earth."""
    columns = max(1, round(rows * width / height))
    points = torch.rand(2, rows + 2, columns + 2, generator=generator)
    tone = torch.rand(rows + 2, columns + 2, generator=generator)
    y = (torch.arange(height) + 0.5)[:, None].expand(height, width) * rows / height
    x = (torch.arange(width) + 0.5)[None].expand(height, width) * columns / width
    cell_y, cell_x = y.long() + 1, x.long() + 1
    nearest = torch.full((height, width), 9.0)
    second, pattern = nearest.clone(), torch.zeros(height, width)
    for step_y in (-1, 0, 1):
        for step_x in (-1, 0, 1):
            row, column = cell_y + step_y, cell_x + step_x
            centre_y, centre_x = points[0, row, column] + row - 1, points[1, row, column] + column - 1
            distance = torch.hypot(y - centre_y, x - centre_x)
            closer = distance < nearest
            second = torch.where(closer, nearest, torch.minimum(second, distance))
            pattern = torch.where(closer, tone[row, column], pattern)
            nearest = torch.where(closer, distance, nearest)
    joint = ((second - nearest) / 0.08).clamp(0.0, 1.0)
    grain = fractal_noise(height, width, generator)
    return (tinted(pattern, dark, light) * (0.35 + 0.65 * joint) * (1.0 + 0.08 * grain)).clamp(0.0, 1.0)


def gradient(height: int, width: int, generator: torch.Generator, *, dark: Colour, light: Colour) -> Tensor:
    """A brightness gradient across a nearly plain surface: painted walls, car doors, skies."""
    angle = 2.0 * torch.pi * torch.rand(1, generator=generator)
    y = torch.linspace(-0.5, 0.5, height)[:, None]
    x = torch.linspace(-0.5, 0.5, width)[None]
    slope = 0.5 + 0.6 * (x * angle.cos() + y * angle.sin())
    uneven = fractal_noise(height, width, generator, cells=3, octaves=7, roughness=0.6)
    return tinted((slope + 0.05 * uneven).clamp(0.0, 1.0), dark, light)


def noise(height: int, width: int, generator: torch.Generator, *, dark: Colour, light: Colour) -> Tensor:
    """Noise of several octaves between two colours: plaster, soil, distant grass."""
    cells = 2 + int(14 * torch.rand(1, generator=generator).item() ** 2)
    roughness = 0.45 + 0.45 * float(torch.rand(1, generator=generator))
    pattern = fractal_noise(height, width, generator, cells=cells, octaves=8, roughness=roughness)
    hue = torch.stack([fractal_noise(height, width, generator, cells=3, octaves=3) for _ in range(3)])
    return (tinted((0.5 + 0.22 * pattern).clamp(0.0, 1.0), dark, light) * (1.0 + 0.05 * hue)).clamp(0.0, 1.0)


def writing(height: int, width: int, generator: torch.Generator, *, dark: Colour, light: Colour) -> Tensor:
    """Lines of words of several sizes on a page, as on posters and signs."""
    page = torch.zeros(1, height, width)
    top = 0.06 * height
    while top < 0.9 * height:
        tall = height * (0.035 + 0.13 * float(torch.rand(1, generator=generator)) ** 2)
        right = width * (0.6 + 0.34 * float(torch.rand(1, generator=generator)))
        write(page, (0.06 * width, top, right, top + tall), (1.0,), generator)
        top += 1.7 * tall
    paper = 1.0 + 0.03 * fractal_noise(height, width, generator)
    back, ink = (light, dark) if torch.rand(1, generator=generator) < 0.5 else (dark, light)
    return (tinted(page[0], back, ink) * paper).clamp(0.0, 1.0)


def _into_range(texture: Tensor) -> Tensor:
    """Scale about grey instead of clipping, which would add short waves."""
    return 0.5 + (texture - 0.5) * (0.5 / (texture - 0.5).abs().amax())
