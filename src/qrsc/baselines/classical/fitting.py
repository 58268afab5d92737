"""Position along an accelerated motion, and the robust and the least-squares fits that the classical methods share."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qrsc.baselines.classical.two_frames import Array

LARGEST_ACCELERATION = 1.5  # of |k|: the speed changes by that share of itself in a frame interval
SMALLEST_SPAN = 0.1  # frame intervals between the two sights of a point, below which it says nothing about its motion


def along(time: Array | float, k: Array | float) -> Array:
    """How far a motion has come, `s(t) = (t + k t^2 / 2) 2 / (2 + k)`: s(0) = 0, s(1) = 1."""
    return np.asarray((time + 0.5 * k * np.square(time)) * 2.0 / (2.0 + k))


def span(start: Array, end: Array, k: Array | float) -> Array:
    """How far a motion comes between two times; at least `SMALLEST_SPAN` in size."""
    passed = along(end, k) - along(start, k)
    return np.where(np.abs(passed) < SMALLEST_SPAN, np.copysign(SMALLEST_SPAN, passed), passed)


def plausible_accelerations(matrices: Array, changes: Array, kept: int = 2) -> Array:
    """The smallest k for which `matrices + k changes` is singular.

    Args:
        matrices, changes: `[T, D, D]`.
        kept: how many of each.

    Returns:
        `[T, kept]`; 0 where there is no further real one within `LARGEST_ACCELERATION`.
    """
    found = -np.linalg.eigvals(np.linalg.pinv(changes) @ matrices)  # [T, D]
    real = (np.abs(found.imag) < 1e-8) & (np.abs(found.real) < LARGEST_ACCELERATION)
    k = np.where(real, found.real, 0.0)
    order = np.argsort(np.where(real, np.abs(k), np.inf), axis=1)[:, :kept]
    return np.take_along_axis(k, order, 1)


def levenberg_marquardt(residuals: Callable[[Array], Array], start: Array, iterations: int = 30) -> Array:
    """Parameters `[P]` that make the sum of squared residuals `[N]` smallest, from a start near by."""
    parameters, damping = start.astype(np.float64), 1e-3
    current = residuals(parameters)
    for _ in range(iterations):
        columns = []
        for index in range(len(parameters)):
            step = np.zeros_like(parameters)
            step[index] = 1e-6 * max(1.0, abs(parameters[index]))
            columns.append((residuals(parameters + step) - residuals(parameters - step)) / (2.0 * step[index]))
        jacobian = np.stack(columns, 1)
        normal, gradient = jacobian.T @ jacobian, jacobian.T @ current
        scale = np.diag(normal) + 1e-12 * max(1e-30, float(np.trace(normal))) + 1e-30
        proposed = parameters - np.linalg.solve(normal + damping * np.diag(scale), gradient)
        after = residuals(proposed)
        gained = float(current @ current) - float(after @ after)
        if gained <= 0.0:
            damping *= 10.0
            if damping > 1e6:
                break
            continue
        parameters, current, damping = proposed, after, max(damping / 10.0, 1e-9)
        if gained < 1e-12 * float(current @ current):
            break
    return parameters
