"""Masks `[1, h, w]`, 0 to 1: outlines, railings and fences, foliage."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from qrsc.simulate.paint.textures import fractal_noise


def outline(side: int, generator: torch.Generator) -> Tensor:
    """A closed shape: rounded box, oval, polygon or blob, filling most of the square."""
    kind = int(torch.randint(4, (1,), generator=generator))
    y, x = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    edge = 2.0 / side
    if kind == 0:
        radius = 0.1 + 0.5 * float(torch.rand(1, generator=generator))
        corner_x, corner_y = ((value.abs() - (0.97 - radius)).clamp_min(0.0) for value in (x, y))
        distance = radius - torch.hypot(corner_x, corner_y)
    elif kind == 1:
        distance = 0.97 - torch.hypot(x, y)
    elif kind == 2:
        count = int(torch.randint(3, 9, (1,), generator=generator))
        turn = float(torch.rand(1, generator=generator)) * 2.0 * torch.pi
        star = 1.0 - 0.5 * float(torch.rand(1, generator=generator))
        distance = torch.full_like(x, 9.0)
        for number in range(count):
            angle = turn + 2.0 * math.pi * number / count
            reach = 0.75 * (star if number % 2 else 1.0)
            distance = torch.minimum(
                distance, reach - (x * torch.cos(torch.tensor(angle)) + y * torch.sin(torch.tensor(angle)))
            )
    else:
        distance = 0.75 - torch.hypot(x, y) + 0.16 * fractal_noise(side, side, generator, cells=3, octaves=4)
        distance = torch.minimum(distance, 0.98 - torch.maximum(x.abs(), y.abs()))
    return (distance / edge + 0.5).clamp(0.0, 1.0)[None]


def lattice(side: int, generator: torch.Generator) -> Tensor:
    """A segment of railing, fence or net that repeats when mirrored at its sides."""
    kind = int(torch.randint(3, (1,), generator=generator))
    bars = int(torch.randint(6, 13, (1,), generator=generator))
    thick = 0.1 + 0.18 * float(torch.rand(1, generator=generator))
    y = torch.linspace(0.0, 1.0, side)[:, None].expand(side, side)
    x = (torch.arange(side) + 0.5)[None].expand(side, side) / side
    upright = ((x * bars) % 1 - 0.5).abs() < 0.5 * thick
    if kind == 0:
        rails = (y < 0.07) | ((y - 0.88).abs() < 0.025)
    elif kind == 1:
        upright = ((x * 4) % 1 - 0.5).abs() < 0.05
        rails = ((y * 5) % 1 - 0.5).abs() < 0.1
    else:
        across = ((x * bars + y * bars) % 1 - 0.5).abs() < 0.08
        other = ((x * bars - y * bars) % 1 - 0.5).abs() < 0.08
        upright, rails = across | other, (y < 0.05) | (y > 0.95)
    return (upright | rails).float()[None]


def foliage(side: int, generator: torch.Generator) -> Tensor:
    """A branch: leaves with gaps, thinning out towards the edges."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, side), torch.linspace(-1, 1, side), indexing="ij")
    coarse = fractal_noise(side, side, generator, cells=4, octaves=3)
    fine = fractal_noise(side, side, generator, cells=20, octaves=5, roughness=0.8)
    gaps = 0.6 * float(torch.rand(1, generator=generator)) - 0.3
    thinning = 3.5 * (torch.maximum(x.abs(), y.abs()) - 0.35).clamp_min(0.0)
    return ((0.7 * coarse + 0.7 * fine - gaps - thinning) / 0.15 + 0.5).clamp(0.0, 1.0)[None]
