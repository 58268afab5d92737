"""Lenses: from the picture as it was taken to straight lines, and back.

Convention
    Parameters are those of COLMAP's camera models, by the same names and in the same order, with one difference: pixel
    centres lie at integer coordinates here, and at halves in COLMAP. `Lens.from_colmap` converts. An undistorted point
    is in pixels too: where a pinhole camera with the same focal lengths and principal point would have seen it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

# How many parameters come first: focal lengths (one or two) and the principal point; what follows describes the lens.
_FOCALS = {
    "SIMPLE_PINHOLE": 1,
    "PINHOLE": 2,
    "SIMPLE_RADIAL": 1,
    "RADIAL": 1,
    "OPENCV": 2,
    "FULL_OPENCV": 2,
    "SIMPLE_RADIAL_FISHEYE": 1,
    "RADIAL_FISHEYE": 1,
    "OPENCV_FISHEYE": 2,
}
_COEFFICIENTS = {
    "SIMPLE_PINHOLE": 0,
    "PINHOLE": 0,
    "SIMPLE_RADIAL": 1,
    "RADIAL": 2,
    "OPENCV": 4,
    "FULL_OPENCV": 8,
    "SIMPLE_RADIAL_FISHEYE": 1,
    "RADIAL_FISHEYE": 2,
    "OPENCV_FISHEYE": 4,
}
LENS_MODELS = tuple(_FOCALS)
NEWTON_STEPS = 10  # on the inverse of a lens; five suffice at the corners of a wide lens
STRAIGHT = 1e-9  # angle, in radians, below which a fisheye lens is a pinhole


@dataclass(frozen=True)
class Lens:
    """A camera model of COLMAP, in pixels whose centres lie at integer coordinates.

    Attributes:
        model: one of `LENS_MODELS`.
        parameters: focal lengths, principal point, distortion coefficients.
    """

    model: str
    parameters: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.model not in LENS_MODELS:
            raise ValueError(
                f"unknown camera model {self.model!r}; choose one of {', '.join(LENS_MODELS)}, or undistort the points "
                "first and say when each was seen."
            )
        count = _FOCALS[self.model] + 2 + _COEFFICIENTS[self.model]
        if len(self.parameters) != count:
            raise ValueError(f"the camera model {self.model} has {count} parameters, got {len(self.parameters)}.")
        if not all(focal > 0 for focal in self.parameters[: _FOCALS[self.model]]):
            raise ValueError(
                f"focal lengths must be positive, in pixels; got {self.parameters[: _FOCALS[self.model]]}."
            )

    @classmethod
    def from_colmap(cls, model: str, parameters: Sequence[float]) -> Lens:
        """A lens from COLMAP's parameters, whose pixel centres lie at halves."""
        lens = cls(model, tuple(float(value) for value in parameters))
        first = _FOCALS[model]
        centre = tuple(value - 0.5 for value in lens.parameters[first : first + 2])
        return replace(lens, parameters=(*lens.parameters[:first], *centre, *lens.parameters[first + 2 :]))

    @property
    def straight(self) -> bool:
        """Whether there is nothing to undistort."""
        return "FISHEYE" not in self.model and not any(self.parameters[_FOCALS[self.model] + 2 :])

    def undistorted(self, points: Tensor) -> Tensor:
        """Where a pinhole camera would have seen points `[..., 2]` of the picture, in pixels."""
        return points if self.straight else self._through(points, self._undistort)

    def distorted(self, points: Tensor) -> Tensor:
        """Where this camera sees points `[..., 2]` of a pinhole camera, in pixels."""
        return points if self.straight else self._through(points, self._distort)

    def _through(self, points: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        count = _FOCALS[self.model]
        focal = points.new_tensor(self.parameters[:count] * (2 // count))
        centre = points.new_tensor(self.parameters[count : count + 2])
        return centre + focal * change((points - centre) / focal)

    def _distort(self, rays: Tensor) -> Tensor:
        coefficients = self.parameters[_FOCALS[self.model] + 2 :]
        if "FISHEYE" in self.model:
            return _bent(rays, coefficients)
        return _shifted(rays, self.model, coefficients)

    def _undistort(self, seen: Tensor) -> Tensor:
        coefficients = self.parameters[_FOCALS[self.model] + 2 :]
        if "FISHEYE" in self.model:
            return _unbent(seen, coefficients)
        rays = seen
        for _ in range(NEWTON_STEPS):
            rays = rays - _solved(_slopes(rays, self.model, coefficients), self._distort(rays) - seen)
        return rays


def _shifted(rays: Tensor, model: str, coefficients: tuple[float, ...]) -> Tensor:
    """Rays `[..., 2]` (x / z, y / z) after a lens of a perspective model."""
    x, y = rays.unbind(-1)
    square = x * x + y * y
    if model in ("SIMPLE_RADIAL", "RADIAL"):
        k1, k2 = (*coefficients, 0.0)[:2]
        return rays * (1.0 + square * (k1 + k2 * square)).unsqueeze(-1)
    k1, k2, p1, p2, k3, k4, k5, k6 = (*coefficients, 0.0, 0.0, 0.0, 0.0)[:8]
    radial = (1.0 + square * (k1 + square * (k2 + square * k3))) / (1.0 + square * (k4 + square * (k5 + square * k6)))
    return torch.stack(
        [
            x * radial + 2.0 * p1 * x * y + p2 * (square + 2.0 * x * x),
            y * radial + 2.0 * p2 * x * y + p1 * (square + 2.0 * y * y),
        ],
        -1,
    )


def _slopes(rays: Tensor, model: str, coefficients: tuple[float, ...]) -> Tensor:
    """Derivatives of `_shifted`, `[..., 2, 2]`, by central differences: exact enough for Newton's method."""
    step = 1e-3
    columns = []
    for axis in range(2):
        offset = rays.new_zeros(2)
        offset[axis] = step
        columns.append(
            (_shifted(rays + offset, model, coefficients) - _shifted(rays - offset, model, coefficients)) / (2.0 * step)
        )
    return torch.stack(columns, -1).detach()


def _solved(matrix: Tensor, right: Tensor) -> Tensor:
    """Solutions `[..., 2]` of systems `[..., 2, 2]`; a singular one is taken as the identity."""
    (a, b), (c, d) = (row.unbind(-1) for row in matrix.unbind(-2))
    determinant = a * d - b * c
    safe = torch.where(determinant.abs() > 1e-6, determinant, 1.0)
    x, y = right.unbind(-1)
    return torch.stack([(d * x - b * y) / safe, (a * y - c * x) / safe], -1)


def _bent(rays: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """Rays `[..., 2]` after a fisheye lens: the radius becomes a polynomial of the angle from the axis."""
    radius = rays.square().sum(-1, keepdim=True).clamp_min(STRAIGHT**2).sqrt()
    return rays * (_polynomial(torch.atan(radius), coefficients) / radius)


def _unbent(seen: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    radius = seen.square().sum(-1, keepdim=True).clamp_min(STRAIGHT**2).sqrt()
    angle = radius.clamp(max=1.5)
    for _ in range(NEWTON_STEPS):
        slope = 1.0 + sum((2 * i + 3) * k * angle ** (2 * i + 2) for i, k in enumerate(coefficients))
        angle = angle - (_polynomial(angle, coefficients) - radius) / slope
    # Rays at a right angle to the axis and beyond have no place in a plane: they stay at a very large radius.
    return seen * (torch.tan(angle.clamp(max=1.55)) / radius)


def _polynomial(angle: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    total = angle
    for i, k in enumerate(coefficients):
        total = total + k * angle ** (2 * i + 3)
    return total
