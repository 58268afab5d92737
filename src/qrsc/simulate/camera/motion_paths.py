"""Paths of cameras and objects: a polynomial of time plus oscillations, for any number of coordinates at once.

Convention
    A camera has seven coordinates: yaw, pitch and roll in radians, x, y and z in metres, and the logarithm of the focal
    length. The own motion of an object has five: a shift x, y and z in metres, and in radians a turn about the vertical
    and a spin within its plane.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import sinusoids
from qrsc.simulate.camera.pinhole import rotation_matrices


@dataclass(frozen=True)
class Path:
    """Coordinates over time: `sum_k polynomial[k] (t - middle)^k + sum_c amplitude sin(2 pi frequency t + phase)`.

    Attributes:
        polynomial: `[..., D, K]`, coefficients of the powers 0 to K - 1 of the time since `middle`.
        amplitude, frequency, phase: `[..., D, C]`; frequency in cycles per frame interval, phase in radians.
        middle: the time about which the polynomial is expanded: halfway through the clip.
    """

    polynomial: Tensor
    amplitude: Tensor
    frequency: Tensor
    phase: Tensor
    middle: float

    def at(self, times: Tensor) -> Tensor:
        """The coordinates at times `[N]`: `[..., D, N]`."""
        times = times.to(self.polynomial)
        powers = (times - self.middle)[:, None] ** torch.arange(self.polynomial.shape[-1]).to(times)
        steady = self.polynomial @ powers.t()
        return steady + sinusoids(times, self.amplitude, self.frequency, self.phase)

    def scaled(self, factor: Tensor) -> Path:
        """The same path with its motion multiplied by `[...]`, about its position in the middle of the clip."""
        factor = factor[..., None, None].to(self.polynomial)
        polynomial = torch.cat([self.polynomial[..., :1], self.polynomial[..., 1:] * factor], dim=-1)
        return replace(self, polynomial=polynomial, amplitude=self.amplitude * factor)

    def to(self, device: torch.device | str) -> Path:
        """The same path on another device."""
        return Path(
            self.polynomial.to(device),
            self.amplitude.to(device),
            self.frequency.to(device),
            self.phase.to(device),
            self.middle,
        )


@dataclass(frozen=True)
class Camera:
    """A moving pinhole camera.

    Attributes:
        path: of its seven coordinates; `[B, 7, ...]`.
        centre: `[B, 2]`, principal point (x, y) in pixels.
    """

    path: Path
    centre: Tensor

    def pose(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """Rotations from the world to the camera `[B, N, 3, 3]`, and positions in the world `[B, N, 3]`, at `[N]`."""
        coordinates = self.path.at(times)
        rotation = rotation_matrices(coordinates[:, 0], coordinates[:, 1], coordinates[:, 2])
        return rotation, coordinates[:, 3:6].transpose(1, 2)

    def focal(self, times: Tensor) -> Tensor:
        """Focal lengths in pixels at `[N]`: `[B, N]`."""
        return self.path.at(times)[:, 6].exp()

    def intrinsics(self, times: Tensor) -> Tensor:
        """Camera matrices at `[N]`: `[B, N, 3, 3]`."""
        focal = self.focal(times)
        matrix = focal.new_zeros((*focal.shape, 3, 3))
        matrix[..., 0, 0] = matrix[..., 1, 1] = focal
        matrix[..., :2, 2] = self.centre[:, None]
        matrix[..., 2, 2] = 1.0
        return matrix

    def to(self, device: torch.device | str) -> Camera:
        """The same camera on another device."""
        return Camera(self.path.to(device), self.centre.to(device))
