"""Motion of surfaces in the image: homographies that are piecewise polynomials of time.

Convention
    A point (u, v) of a surface is seen at time t at the pixel (x, y) with `(d x, d y, d) = H(t) (u, v, 1)`, where d is
    its depth (positive in front of the camera) and t is absolute, in frame intervals. Rendering and ground truth
    know camera and motion through the matrix H alone. A flat layer that moves along polynomials in the image and a
    plane in space seen by a moving pinhole camera are therefore treated alike.

    A curve that is not a polynomial is approximated before rendering by continuous short pieces of degree 5. Pictures
    and ground truth are both exact for this approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qrsc.simulate.paint.gather import weighted_rows

# Degree 5 on a quarter of a frame approximates an oscillation of one cycle per frame to 1e-5 of its amplitude.
PIECES_PER_FRAME = 4
DEGREE = 5


@dataclass(frozen=True)
class HomographyCurve:
    """Homographies of a batch of surfaces over time.

    Attributes:
        coefficients: `[B, S, K, D + 1, 3, 3]`, float64: piece k covers one `step` from `start + k * step`, and holds
            the coefficients of the powers 0 to D of `(t - start) / step - k`.
        start: time at which the first piece starts. Times before it, or after the last, extend the end pieces.
        step: length of a piece.
    """

    coefficients: Tensor
    start: float = 0.0
    step: float = 1.0

    def __post_init__(self) -> None:
        if self.coefficients.ndim != 6 or self.coefficients.shape[-2:] != (3, 3):
            raise ValueError(f"coefficients must be [B, S, K, D + 1, 3, 3], got {tuple(self.coefficients.shape)}.")
        if self.step <= 0:
            raise ValueError(f"step must be a positive time, got {self.step!r}.")

    @property
    def pieces(self) -> int:
        """Number of pieces."""
        return self.coefficients.shape[2]

    @property
    def stop(self) -> float:
        """Time at which the last piece ends."""
        return self.start + self.pieces * self.step

    def require(self, first: float, last: float) -> None:
        """Refuse times outside the curve. A single polynomial is valid at any time."""
        slack = 1e-9 * self.step
        if self.pieces > 1 and not (self.start - slack <= first and last <= self.stop + slack):
            raise ValueError(
                f"the scene moves from time {self.start:g} to {self.stop:g}, but {first:g} to {last:g} was requested; "
                "request frames within it, or create the scene for more frames."
            )

    def to(self, device: torch.device | str) -> HomographyCurve:
        """The same curve on another device."""
        return replace(self, coefficients=self.coefficients.to(device))

    def matrices(self, times: Tensor) -> Tensor:
        """Homographies of all surfaces at common times.

        Args:
            times: `[N]`.

        Returns:
            `[B, S, N, 3, 3]`, float64.
        """
        piece, local = self._locate(times.to(self.coefficients))
        coefficients = self.coefficients[:, :, piece]  # [B, S, N, D + 1, 3, 3]
        local = local.reshape(-1, 1, 1)
        result = coefficients[:, :, :, -1]
        for power in range(coefficients.shape[3] - 2, -1, -1):
            result = result * local + coefficients[:, :, :, power]
        return result

    def follow(self, surface: Tensor, u: Tensor, v: Tensor, times: Tensor, order: int = 0) -> tuple[Tensor, ...]:
        """Follow points on their surfaces, each to its own time.

        Args:
            surface: `[B, H, W]`, int64: number of the surface that a point lies on.
            u, v: `[B, H, W]`, coordinates on that surface.
            times: `[B, H, W]`, absolute time for each point.
            order: number of time derivatives to return as well, at most 2.

        Returns:
            `(d x, d y, d)` as `[3, B, H, W]`, then its first and second derivative, in the dtype of `u`.
        """
        batch, surfaces, pieces, powers = self.coefficients.shape[:4]
        piece, local = self._locate(times)
        scene = torch.arange(batch, device=surface.device).reshape(-1, 1, 1)
        index = ((scene * surfaces + surface) * pieces + piece).flatten()  # [P]
        # One row per column of a matrix, with all powers side by side: u, v and 1 weight three rows of the table.
        table = self.coefficients.to(u.dtype).permute(0, 1, 2, 5, 3, 4).reshape(-1, powers * 3)
        rows = torch.stack([3 * index, 3 * index + 1, 3 * index + 2], dim=1)
        weights = torch.stack([u, v, torch.ones_like(u)], dim=-1).reshape(-1, 3)
        mixed = weighted_rows(rows, table[None], weights)  # [1, (D + 1) 3, P]
        point = mixed.contiguous().reshape(powers, 3, *u.shape)
        derivatives = [point[powers - 1]]
        for power in range(powers - 2, -1, -1):
            if len(derivatives) <= order:
                derivatives.append(torch.zeros_like(point[0]))
            for rank in range(len(derivatives) - 1, 0, -1):
                derivatives[rank] = torch.add(derivatives[rank] * local, derivatives[rank - 1], alpha=rank)
            derivatives[0] = torch.addcmul(point[power], derivatives[0], local)
        while len(derivatives) <= order:
            derivatives.append(torch.zeros_like(point[0]))
        return tuple(value / self.step**rank if rank else value for rank, value in enumerate(derivatives))

    def _locate(self, times: Tensor) -> tuple[Tensor, Tensor]:
        """The piece that contains a time, and the time within it in units of its length."""
        position = (times - self.start) / self.step
        piece = position.detach().floor().clamp(0, self.pieces - 1)
        return piece.long(), position - piece


def invert_homographies(matrices: Tensor) -> Tensor:
    """Invert 3 x 3 matrices `[..., 3, 3]` by cofactors: a few products each instead of a batched LU.

    The inverse of a homography takes a pixel (x, y, 1) to (u, v, 1) / depth, so that its third component is the
    inverse depth, which is linear over the image and positive in front of the camera.
    """
    rows = matrices.unbind(-2)
    cofactors = torch.stack(
        [
            torch.linalg.cross(rows[1], rows[2]),
            torch.linalg.cross(rows[2], rows[0]),
            torch.linalg.cross(rows[0], rows[1]),
        ],
        dim=-1,
    )  # [..., 3, 3], the adjugate
    determinant = (rows[0] * cofactors[..., :, 0]).sum(-1)[..., None, None]
    regular = determinant.abs() > torch.finfo(matrices.dtype).tiny
    # A plane seen exactly edge-on has no inverse and covers no pixel: zeros give it no inverse depth.
    return torch.where(regular, cofactors / torch.where(regular, determinant, 1.0), 0.0)


def polynomial_layers(affine: Tensor, depth: Tensor) -> HomographyCurve:
    """Flat layers whose points move along polynomials in the image.

    Args:
        affine: `[B, S, D + 1, 2, 3]`: the pixel of (u, v) at time t is `sum_k t**k affine[k] (u, v, 1)`. With the
            identity first, (u, v) is the place at time 0 and the later ones are velocity, half the acceleration, ...
        depth: `[B, S]`; nearer layers hide farther ones.
    """
    if affine.ndim != 5 or affine.shape[-2:] != (2, 3) or depth.shape != affine.shape[:2]:
        raise ValueError(
            "expected affine as [B, S, D + 1, 2, 3] and depth as [B, S], got "
            f"{tuple(affine.shape)} and {tuple(depth.shape)}."
        )
    affine, depth = affine.double(), depth.to(affine.device).double()
    coefficients = affine.new_zeros((*affine.shape[:3], 3, 3))
    coefficients[..., :2, :] = affine * depth[:, :, None, None, None]
    coefficients[:, :, 0, 2, 2] = depth
    return HomographyCurve(coefficients.unsqueeze(2))


def sampled_curve(matrices: Callable[[Tensor], Tensor], start: float, stop: float) -> HomographyCurve:
    """Approximate any function of time by a curve, valid between two times.

    Args:
        matrices: takes times `[N]` (float64) and returns homographies `[B, S, N, 3, 3]`.
        start, stop: first and last valid time. Leave a margin of one frame on both sides: a point that leaves the
            picture is followed to where it lands.
    """
    if not stop > start:
        raise ValueError(f"stop must lie after start, got start = {start!r} and stop = {stop!r}.")
    pieces = max(1, round((stop - start) * PIECES_PER_FRAME))
    step = (stop - start) / pieces
    # Chebyshev-Lobatto nodes: the ends belong to both neighbours, so that the pieces meet.
    nodes = 0.5 - 0.5 * torch.cos(torch.pi * torch.arange(DEGREE + 1, dtype=torch.float64) / DEGREE)
    times = start + step * (torch.arange(pieces, dtype=torch.float64)[:, None] + nodes)
    values = matrices(times.flatten()).double()
    values = values.reshape(*values.shape[:2], pieces, DEGREE + 1, 3, 3)
    powers = nodes[:, None] ** torch.arange(DEGREE + 1, dtype=torch.float64)
    coefficients = torch.einsum("pn,bsknij->bskpij", torch.linalg.inv(powers).to(values.device), values)
    return HomographyCurve(coefficients, start, step)


def sinusoids(times: Tensor, amplitude: Tensor, frequency: Tensor, phase: Tensor) -> Tensor:
    """A sum of sinusoids.

    Args:
        times: `[N]`.
        amplitude, frequency, phase: `[..., C]`, one entry per component; frequency in cycles per frame interval,
            phase in radians.

    Returns:
        `[..., N]`.
    """
    angle = 2.0 * torch.pi * frequency[..., None, :] * times[:, None] + phase[..., None, :]
    return (amplitude[..., None, :] * angle.sin()).sum(-1)
