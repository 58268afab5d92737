"""DSfM: the rigid motion of the camera and the depth of every pixel, from the flow between two frames.

Zhuang, Cheong, Lee: Rolling-shutter-aware differential SfM and image rectification, ICCV 2017.

A point at normalised coordinates q with inverse depth rho moves by `m = rho A v + B omega` while the camera moves by
(v, omega). Its flow is `beta m`, where beta is how far the camera has come between the two rows that see the point.
Eight points give (v, omega) of a constant velocity, nine those of a constant acceleration with one more unknown k.
RANSAC, then Levenberg-Marquardt on the inliers with the depths eliminated; the depth of every pixel is in closed form.

Needs intrinsics, gamma, a static scene with parallax. Without intrinsics the focal length is guessed as the width of
the frame, with the centre in its middle. Where a rotation alone explains the flow as well, v is unknown and left out.
Changed: omega from S by linear least squares, not by the eigen-decomposition of the paper; flow is that of the other
methods, not DeepFlow; holes are filled from around.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qrsc.baselines.classical.fitting import along, levenberg_marquardt, plausible_accelerations, span
from qrsc.baselines.classical.two_frames import Array, CorrectedPoints, Displacements, two_frame_method
from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.shared_flow import SharedFlow

TRIALS = 300
INLIER = 1.0  # pixels
STILL = 0.02  # pixels of median residual that a motion with translation has to gain over a rotation


@dataclass(frozen=True)
class Intrinsics:
    """A pinhole camera: focal length and centre (x, y), in pixels."""

    focal: float
    centre: tuple[float, float]


CARLA = Intrinsics(320.0, (320.0, 224.0))  # of Carla-RS


@dataclass(frozen=True)
class RigidMotion:
    """How the camera moves in a frame interval.

    Attributes:
        v: `[3]`, translation, of length 1; 0 where a rotation explains the flow.
        omega: `[3]`, rotation in radians.
        k: acceleration along the motion; 0 for a constant velocity.
    """

    v: Array
    omega: Array
    k: float


@dataclass(frozen=True)
class Dsfm:
    """An entry for a table of methods.

    Attributes:
        accelerated: fit a constant acceleration, else a constant velocity.
        intrinsics: of the camera; None guesses them.
    """

    accelerated: bool = False
    intrinsics: Intrinsics | None = None

    def __call__(self, flow: SharedFlow) -> Method:
        return two_frame_method(self.correct, flow)

    def correct(
        self, pixels: Displacements, points: Displacements, tau: float, size: tuple[int, int]
    ) -> CorrectedPoints:
        """The correction of all pixels, from the motion that some points show."""
        height, width = size
        camera = self.intrinsics or Intrinsics(float(width), ((width - 1) / 2.0, (height - 1) / 2.0))
        motion = fit_rigid_motion(normalised(points, camera), camera.focal, accelerated=self.accelerated)
        seen = normalised(pixels, camera)
        velocity, inverse_depth = point_motion(seen, motion)
        remaining = along(tau, motion.k) - along(seen.start, motion.k)
        field = camera.focal * remaining[:, None] * velocity
        return CorrectedPoints(field, inverse_depth if motion.v.any() else None)

    def fingerprint(self) -> str:
        """Changes with the settings."""
        return f"{self.accelerated} {self.intrinsics}"


def normalised(points: Displacements, camera: Intrinsics) -> Displacements:
    """The same points in units of the focal length, from the centre."""
    return Displacements(
        (points.position - np.asarray(camera.centre)) / camera.focal,
        points.flow / camera.focal,
        points.start,
        points.end,
    )


def fit_rigid_motion(points: Displacements, focal: float, *, accelerated: bool, seed: int = 0) -> RigidMotion:
    """The motion that most points agree with.

    Args:
        points: normalised.
        focal: pixels, for the size of residuals.
        accelerated: fit k as well.
        seed: of RANSAC.
    """
    random = np.random.default_rng(seed)
    needed = 9 if accelerated else 8
    chosen = random.integers(len(points), size=(TRIALS, needed))
    sample = Displacements(points.position[chosen], points.flow[chosen], points.start[chosen], points.end[chosen])
    k = _accelerations(sample) if accelerated else np.zeros((TRIALS, 1))
    k = np.concatenate([k, np.zeros((TRIALS, 1))], 1) if accelerated else k
    hypotheses = k.shape[1]
    rows = _constraints(sample.position[:, None], sample.flow[:, None], _span(sample, k))  # [T, K, P, 9]
    solution = np.linalg.svd(rows.reshape(-1, needed, 9))[2][:, -1]  # [T K, 9]
    v, omega = _velocities(solution)
    flat = k.reshape(TRIALS * hypotheses)
    errors = np.stack([_residual(points, v[i], omega[i], flat[i]) for i in range(len(flat))])
    best = int((np.abs(errors) * focal < INLIER).sum(1).argmax())
    inliers = points[np.abs(errors[best]) * focal < INLIER]
    if len(inliers) < 3 * needed:
        inliers = points
    motion = _refined(inliers, v[best], omega[best], float(flat[best]), accelerated)
    turned = rotation_only(inliers)
    moved = np.median(np.abs(_residual(inliers, motion.v, motion.omega, motion.k)))
    still = np.median(np.linalg.norm(inliers.flow - _rotation_flow(inliers, turned), axis=1))
    if focal * still < focal * moved + STILL:
        return RigidMotion(np.zeros(3), turned, 0.0)
    _, inverse_depth = point_motion(inliers, motion)
    return motion if np.median(inverse_depth) > 0 else RigidMotion(-motion.v, motion.omega, motion.k)


def point_motion(points: Displacements, motion: RigidMotion) -> tuple[Array, Array]:
    """The motion of points in a unit of s, `[N, 2]`, normalised, and their inverse depths `[N]`."""
    turning = _turning(points.position, motion.omega)
    if not motion.v.any():
        return turning, np.zeros(len(points))
    toward = _translating(points.position, motion.v)
    beyond = points.flow / span(points.start, points.end, motion.k)[:, None] - turning
    length = np.maximum((toward**2).sum(-1), 1e-12)
    inverse_depth = (toward * beyond).sum(-1) / length
    return turning + inverse_depth[:, None] * toward, inverse_depth


def rotation_only(points: Displacements) -> Array:
    """The rotation `[3]` at constant speed that explains the flow best."""
    columns = [_turning(points.position, axis) for axis in np.eye(3)]
    design = np.stack(columns, -1) * span(points.start, points.end, 0.0)[:, None, None]  # [N, 2, 3]
    return np.asarray(np.linalg.lstsq(design.reshape(-1, 3), points.flow.ravel(), rcond=None)[0])


def _translating(q: Array, v: Array) -> Array:
    """`A v`: `[..., 2]`."""
    return np.stack([v[..., 0] - q[..., 0] * v[..., 2], v[..., 1] - q[..., 1] * v[..., 2]], -1)


def _turning(q: Array, omega: Array) -> Array:
    """`B omega`: `[..., 2]`."""
    x, y = q[..., 0], q[..., 1]
    a, b, c = omega[..., 0], omega[..., 1], omega[..., 2]
    return np.stack([-x * y * a + (1 + x * x) * b - y * c, -(1 + y * y) * a + x * y * b + x * c], -1)


def _rotation_flow(points: Displacements, omega: Array) -> Array:
    return span(points.start, points.end, 0.0)[:, None] * _turning(points.position, omega)


def _span(sample: Displacements, k: Array) -> Array:
    """Spans `[T, K, P]` of points `[T, P]` for accelerations `[T, K]`."""
    return span(sample.start[:, None], sample.end[:, None], k[..., None])


def _constraints(q: Array, u: Array, beta: Array) -> Array:
    """`u . (v x q) + beta q^T S q = 0` as rows in (v, S11, S12, S13, S22, S23, S33): `[..., 9]`."""
    x, y = (np.broadcast_to(q[..., i], beta.shape) for i in (0, 1))
    across, down = (np.broadcast_to(u[..., i], beta.shape) for i in (0, 1))
    first = [-down, across, down * x - across * y]
    second = [beta * each for each in (x * x, 2 * x * y, 2 * x, y * y, 2 * y, np.ones_like(x))]
    return np.stack([*first, *second], -1)


def _accelerations(sample: Displacements) -> Array:
    """Possible k `[T, 2]` of samples of nine points."""
    rows = _constraints(sample.position, sample.flow, np.ones_like(sample.start))
    upper, lower = rows[:, :3], rows[:, 3:]
    factors = np.linalg.pinv(upper[..., :3])
    pieces: list[Array] = []
    for weight in (sample.end - sample.start, 0.5 * (sample.end**2 - sample.start**2)):
        reduced = weight[:, 3:, None] * lower[..., 3:]
        pieces.append(reduced - lower[..., :3] @ factors @ (weight[:, :3, None] * upper[..., 3:]))
    return plausible_accelerations(pieces[0], pieces[1])


def _velocities(solution: Array) -> tuple[Array, Array]:
    """v of length 1 and omega, `[T, 3]` each, from solutions `[T, 9]`."""
    length = np.maximum(np.linalg.norm(solution[:, :3], axis=1, keepdims=True), 1e-12)
    v, s = solution[:, :3] / length, solution[:, 3:] / length
    a, b, c = v.T
    zero = np.zeros_like(a)
    rows = [
        [zero, -b, -c],
        [b / 2, a / 2, zero],
        [c / 2, zero, a / 2],
        [-a, zero, -c],
        [zero, c / 2, b / 2],
        [-a, -b, zero],
    ]
    design = np.stack([np.stack(row, -1) for row in rows], 1)  # [T, 6, 3]
    return v, (np.linalg.pinv(design) @ s[..., None])[..., 0]


def _residual(points: Displacements, v: Array, omega: Array, k: float) -> Array:
    """Distance `[N]` of the flow from the line on which any depth would put it; signed, normalised."""
    beta = span(points.start, points.end, k)
    left = points.flow - beta[:, None] * _turning(points.position, omega)
    toward = _translating(points.position, v)
    length = np.maximum(np.linalg.norm(toward, axis=1), 1e-9)
    return np.asarray((left[:, 0] * toward[:, 1] - left[:, 1] * toward[:, 0]) / length)


def _refined(points: Displacements, v: Array, omega: Array, k: float, accelerated: bool) -> RigidMotion:
    """Least squares over v, omega and k, with the depths eliminated."""

    def residuals(parameters: Array) -> Array:
        direction = parameters[:3] / max(1e-12, float(np.linalg.norm(parameters[:3])))
        return 1e3 * _residual(points, direction, parameters[3:6], float(parameters[6]) if accelerated else 0.0)

    found = levenberg_marquardt(residuals, np.concatenate([v, omega, [k] if accelerated else []]))
    length = max(1e-12, float(np.linalg.norm(found[:3])))
    return RigidMotion(found[:3] / length, found[3:6], float(found[6]) if accelerated else 0.0)
