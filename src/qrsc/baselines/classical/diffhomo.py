"""DiffHomo: the motion of a plane under a rolling shutter, locally different, from the flow between two frames.

Zhuang, Tran: Image stitching and rectification for hand-held cameras, ECCV 2020. There is no public code; the equations
are derived anew.

A plane moves by `m = (I - q e3^T) H q`, with eight unknowns; its flow is `beta m` as for DSfM. Intrinsics cancel. Four
points give H at a constant velocity, five those of a constant acceleration with k. RANSAC, least squares on the
inliers, then a field of H: one for each cell of a grid, from all inliers weighted by their distance
(as-projective-as-possible warping), interpolated in between.

Needs gamma and a flat or distant scene; wrong at depth edges and on moving objects. Changed: our elimination of k, our
weights of the field (`CELLS`, `REACH`, `FLOOR`), and matches from the flow of the other methods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from qrsc.baselines.classical.fitting import along, levenberg_marquardt, plausible_accelerations, span
from qrsc.baselines.classical.two_frames import Array, CorrectedPoints, Displacements, two_frame_method
from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.shared_flow import SharedFlow

TRIALS = 300
INLIER = 1.5  # pixels: parallax is meant to pass, and to be followed by the field
CELLS = (12, 16)
REACH = 0.12  # of the width, standard distance of the weights
FLOOR = 0.02  # weight of the farthest points


@dataclass(frozen=True)
class DiffHomo:
    """An entry for a table of methods.

    Attributes:
        accelerated: fit a constant acceleration, else a constant velocity.
        local: fit a field of homographies, else one.
    """

    accelerated: bool = False
    local: bool = True

    def __call__(self, flow: SharedFlow) -> Method:
        return two_frame_method(self.correct, flow)

    def correct(
        self, pixels: Displacements, points: Displacements, tau: float, size: tuple[int, int]
    ) -> CorrectedPoints:
        """The correction of all pixels, from the motion that some points show."""
        height, width = size
        middle, unit = np.array([(width - 1) / 2.0, (height - 1) / 2.0]), 0.5 * width
        scaled = Displacements((points.position - middle) / unit, points.flow / unit, points.start, points.end)
        k, plane, inliers = fit_plane(scaled, unit, accelerated=self.accelerated)
        place = (pixels.position - middle) / unit  # [H W, 2]
        planes = _field(inliers, k, plane, place.reshape(height, width, 2)) if self.local else plane[None]
        velocity = (_coefficients(place) * planes[:, None]).sum(-1)  # [H W, 2]
        remaining = along(tau, k) - along(pixels.start, k)
        return CorrectedPoints(unit * remaining[:, None] * velocity)

    def fingerprint(self) -> str:
        """Changes with the settings."""
        return f"{self.accelerated} {self.local}"


def fit_plane(
    points: Displacements, unit: float, *, accelerated: bool, seed: int = 0
) -> tuple[float, Array, Displacements]:
    """k, the eight unknowns of H, and the points that agree with them.

    Args:
        points: in units of `unit` pixels.
        accelerated: fit k as well.
        seed: of RANSAC.
    """
    random = np.random.default_rng(seed)
    needed = 5 if accelerated else 4
    chosen = random.integers(len(points), size=(TRIALS, needed))
    sample = Displacements(points.position[chosen], points.flow[chosen], points.start[chosen], points.end[chosen])
    k = np.zeros((TRIALS, 1))
    if accelerated:
        k = np.concatenate([_accelerations(sample), k], 1)
    velocity = sample.flow[:, None] / span(sample.start[:, None], sample.end[:, None], k[..., None])[..., None]
    design = np.repeat(_coefficients(sample.position)[:, None], k.shape[1], 1)  # [T, K, P, 2, 8]
    planes = np.linalg.pinv(design.reshape(-1, 2 * needed, 8)) @ velocity.reshape(-1, 2 * needed, 1)
    flat, planes = k.ravel(), planes[..., 0]
    expected = np.einsum("ncd,td->tnc", _coefficients(points.position), planes)
    beta = span(points.start, points.end, flat[:, None])
    errors = unit * np.linalg.norm(points.flow - beta[..., None] * expected, axis=-1)  # [T K, N]
    best = int((errors < INLIER).sum(1).argmax())
    inliers = points[errors[best] < INLIER]
    if len(inliers) < 4 * needed:
        inliers = points
    found = float(flat[best])
    if accelerated:
        found = float(levenberg_marquardt(lambda each: _plane_residual(inliers, float(each[0])), np.array([found]))[0])
    return found, _plane(inliers, found), inliers


def _coefficients(q: Array) -> Array:
    """m as a linear function of the eight unknowns of H: `[..., 2, 8]`."""
    x, y = q[..., 0], q[..., 1]
    one, zero = np.ones_like(x), np.zeros_like(x)
    across = [x, y, one, zero, zero, zero, -x * x, -x * y]
    down = [zero, zero, zero, x, y, one, -x * y, -y * y]
    return np.stack([np.stack(across, -1), np.stack(down, -1)], -2)


def _accelerations(sample: Displacements) -> Array:
    """Possible k `[T, 2]` of samples of five points, from nine of their ten equations."""
    coefficients = _coefficients(sample.position)
    pieces: list[Array] = []
    spans = sample.end - sample.start, 0.5 * (sample.end**2 - sample.start**2)
    for weight, share in zip(spans, (1.0, 0.5), strict=True):
        rows = np.concatenate([weight[..., None, None] * coefficients, -share * sample.flow[..., None]], -1)
        pieces.append(rows.reshape(len(rows), 10, 9)[:, :9])
    return plausible_accelerations(pieces[0], pieces[1])


def _plane(points: Displacements, k: float) -> Array:
    """The eight unknowns of H by least squares."""
    design = _coefficients(points.position) * span(points.start, points.end, k)[:, None, None]
    return np.asarray(np.linalg.lstsq(design.reshape(-1, 8), points.flow.ravel(), rcond=None)[0])


def _plane_residual(points: Displacements, k: float) -> Array:
    expected = _coefficients(points.position) @ _plane(points, k)
    left = points.flow - span(points.start, points.end, k)[:, None] * expected
    return 1e3 * left.ravel()


def _field(points: Displacements, k: float, plane: Array, grid: Array) -> Array:
    """The unknowns `[H W, 8]` at every pixel of a grid `[H, W, 2]`: weighted least squares for each cell."""
    height, width = grid.shape[:2]
    rows = [
        np.linspace(-0.5, size - 0.5, 2 * cells + 1)[1::2] for size, cells in zip((height, width), CELLS, strict=True)
    ]
    unit = grid[0, 1, 0] - grid[0, 0, 0]
    x, y = np.meshgrid(grid[0, 0, 0] + unit * rows[1], grid[0, 0, 1] + unit * rows[0])
    centres = np.stack([x, y], -1).reshape(-1, 1, 2)
    apart = ((centres - points.position) ** 2).sum(-1)  # [cells, N]
    weights = np.maximum(np.exp(-apart / (2.0 * REACH) ** 2), FLOOR)
    design = _coefficients(points.position) * span(points.start, points.end, k)[:, None, None]  # [N, 2, 8]
    products = np.einsum("nci,ncj->nij", design, design).reshape(len(points), 64)
    left = points.flow - design @ plane  # corrections of the one plane: regularised towards it
    normal = (weights @ products).reshape(-1, 8, 8)
    sides = weights @ np.einsum("nci,nc->ni", design, left)
    damping = 1e-6 * np.trace(normal, axis1=1, axis2=2)[:, None, None] * np.eye(8)
    cells = plane + np.linalg.solve(normal + damping + 1e-12 * np.eye(8), sides[..., None])[..., 0]
    coarse = torch.from_numpy(cells.T.reshape(1, 8, *CELLS).copy())
    dense = F.interpolate(coarse, size=(height, width), mode="bicubic", align_corners=False)
    return np.asarray(dense[0].flatten(1).T.numpy())
