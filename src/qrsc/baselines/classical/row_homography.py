"""Row-block homographies: what OpenCV alone offers everybody.

A homography is fitted by `cv2.findHomography` with RANSAC to the matches in each of some overlapping bands of rows, and
interpolated between their centres. Each row is moved by the share of its displacement that belongs to the time between
its exposure and the target instant. This is a constant velocity for every band, and a flat world.

Needs gamma. No publication is followed; Grundmann et al. (2012) mix homographies in the same manner, over many frames.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qrsc.baselines.classical.fitting import span
from qrsc.baselines.classical.two_frames import Array, CorrectedPoints, Displacements, two_frame_method
from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.shared_flow import SharedFlow

BANDS = 6
LEAST_POINTS = 40  # in a band, without which the homography of the whole frame takes its place
INLIER = 1.5  # pixels


@dataclass(frozen=True)
class RowHomography:
    """An entry for a table of methods.

    Attributes:
        bands: of rows, each with a homography; neighbours overlap by half.
    """

    bands: int = BANDS

    def __call__(self, flow: SharedFlow) -> Method:
        return two_frame_method(self.correct, flow)

    def correct(
        self, pixels: Displacements, points: Displacements, tau: float, size: tuple[int, int]
    ) -> CorrectedPoints:
        """The correction of all pixels, from the motion that some points show."""
        # Bands follow the order of exposure, whichever way the sensor is read.
        low, high = float(pixels.start.min()), float(pixels.start.max())
        centres = np.linspace(low, high, self.bands) if self.bands > 1 else np.array([0.5 * (low + high)])
        step = (high - low) / max(1, self.bands - 1)
        whole = _homography(points)
        flow, total = np.zeros_like(pixels.flow), np.zeros(len(pixels))
        for centre in centres:
            near = np.abs(points.start - centre) <= max(step, 1e-12)
            matrix = _homography(points[near]) if near.sum() >= LEAST_POINTS else whole
            weight = np.maximum(1.0 - np.abs(pixels.start - centre) / max(step, 1e-12), 0.0)
            used = weight > 0
            flow[used] += weight[used, None] * _displaced(pixels.position[used], matrix)
            total[used] += weight[used]
        flow /= np.maximum(total, 1e-9)[:, None]
        # A point is seen in the other frame at the row where the model puts it.
        slope = _time_per_pixel(pixels)
        modelled = pixels.end + (flow - pixels.flow) @ slope
        share = (tau - pixels.start) / span(pixels.start, modelled, 0.0)
        return CorrectedPoints(share[:, None] * flow)

    def fingerprint(self) -> str:
        """Changes with the settings."""
        return str(self.bands)


def _homography(points: Displacements) -> Array:
    import cv2

    cv2.setRNGSeed(0)
    target = points.position + points.flow
    found, _ = cv2.findHomography(points.position, target, cv2.RANSAC, INLIER, maxIters=500, confidence=0.999)
    return np.eye(3) if found is None else np.asarray(found, dtype=np.float64)


def _displaced(position: Array, matrix: Array) -> Array:
    moved = np.concatenate([position, np.ones((len(position), 1))], 1) @ matrix.T
    depth = np.where(np.abs(moved[:, 2:]) < 1e-6, 1e-6, moved[:, 2:])
    return np.asarray(moved[:, :2] / depth - position)


def _time_per_pixel(pixels: Displacements) -> Array:
    """How exposure times grow along x and y, `[2]`."""
    spread = pixels.position - pixels.position.mean(0)
    times = pixels.start - pixels.start.mean()
    return np.asarray((spread * times[:, None]).sum(0) / np.maximum((spread**2).sum(0), 1e-12))
