"""Rotations as matrices and as vectors."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def rotation_matrices(vectors: Array) -> Array:
    """Rotations `[..., 3, 3]` about vectors `[..., 3]` by their lengths in radians."""
    angle = np.linalg.norm(vectors, axis=-1)[..., None, None]
    safe = np.maximum(angle, 1e-12)
    cross = cross_matrices(vectors)
    small = angle < 1e-6
    first = np.where(small, 1.0, np.sin(angle) / safe)
    second = np.where(small, 0.5, (1.0 - np.cos(angle)) / safe**2)
    matrices: Array = np.eye(3) + first * cross + second * (cross @ cross)
    return matrices


def cross_matrices(vectors: Array) -> Array:
    """Matrices `[..., 3, 3]` whose product with a vector is the cross product of `[..., 3]` with it."""
    x, y, z = np.moveaxis(vectors, -1, 0)
    zero = np.zeros_like(x)
    matrices: Array = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).reshape(*vectors.shape[:-1], 3, 3)
    return matrices


def rotation_vectors(matrices: Array) -> Array:
    """The vectors `[..., 3]` about which rotations `[..., 3, 3]` turn, with the angles as their lengths."""
    skew = matrices - np.swapaxes(matrices, -1, -2)
    twice = np.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1)
    sine = 0.5 * np.linalg.norm(twice, axis=-1, keepdims=True)
    cosine = 0.5 * (np.trace(matrices, axis1=-2, axis2=-1)[..., None] - 1.0)
    ratio = np.where(sine < 1e-9, 1.0, np.arctan2(sine, cosine) / np.maximum(sine, 1e-9))
    vectors: Array = 0.5 * twice * ratio
    return vectors
