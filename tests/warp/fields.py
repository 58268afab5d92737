"""Fields and tolerances that the tests of warps share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from qrsc.warp import pixel_grid

NAN, INF = float("nan"), float("inf")
# Positions pass through the [-1, 1] of grid_sample: a few rounding errors of values below 1 for these small images.
SINGLE = 2e-6


def rand(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def translation(dx: float, dy: float, height: int, width: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor([dx, dy], dtype=dtype).reshape(2, 1, 1).expand(2, height, width)


def assert_close(ours: Tensor, expected: Tensor, tolerance: float = SINGLE) -> None:
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=tolerance)


def affine_field(matrix: list[list[float]], shift: tuple[float, float], size: int = 40) -> tuple[Tensor, Tensor]:
    """The displacements `A (m - centre) + shift - (m - centre)` and their exact inverse, `[2, size, size]` each."""
    grid = pixel_grid(size, size, dtype=torch.float64)
    offset = torch.tensor(shift, dtype=torch.float64).reshape(2, 1, 1)
    middle = (size - 1) / 2
    a = torch.tensor(matrix, dtype=torch.float64)
    forward = torch.einsum("ij,jyx->iyx", a, grid - middle) + middle + offset - grid
    backward = torch.einsum("ij,jyx->iyx", torch.linalg.inv(a), grid - middle - offset) + middle - grid
    return forward, backward


def turn(degrees: float) -> list[list[float]]:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return [[c, -s], [s, c]]


AFFINE: dict[str, tuple[list[list[float]], tuple[float, float]]] = {
    "translation": ([[1.0, 0.0], [0.0, 1.0]], (3.3, -2.6)),
    "zoom in": ([[1.2, 0.0], [0.0, 1.2]], (0.0, 0.5)),
    "zoom out": ([[0.85, 0.0], [0.0, 0.85]], (1.0, 0.0)),
    "rotation": (turn(10.0), (0.3, 0.2)),
    "shear": ([[1.0, 0.25], [0.0, 1.0]], (0.0, 0.0)),
    "squeeze and shear": ([[1.1, -0.2], [0.1, 0.9]], (-1.2, 0.7)),
}
