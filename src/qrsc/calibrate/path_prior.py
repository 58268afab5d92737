"""Gaussian prior on the camera path: filters that whiten its spline coefficients.

Convention
    A path is `[N, D]`: spline coefficients of D coordinates at N knots. Each coordinate has a filter of L taps whose
    output is, a priori, white noise of unit variance. Second differences alone are a prior of white accelerations. An
    autoregressive filter learned from the clip says that the camera keeps shaking as it does elsewhere in the clip:
    footsteps shake it differently from a hand, and the rows of one frame cover too little of the path to tell which.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SECOND_DIFFERENCE = np.array([1.0, -2.0, 1.0])
ORDER = 6  # of the autoregressive model: knots from which the next second difference is predicted
WHITE_FRACTION = 0.1  # white noise added to the learned spectrum, as a fraction of its variance


def white_filters(variance: Array) -> Array:
    """Filters `[D, 3]` of paths whose second differences are white, of a given variance `[D]`."""
    filters: Array = SECOND_DIFFERENCE / np.sqrt(variance)[:, None]
    return filters


def autoregressive_filters(path: Array, proportions: Array) -> Array:
    """Filters `[D, ORDER + 3]` of an autoregressive model of second differences (Yule-Walker equations).

    Args:
        path: `[N, D]`, the observed part. The first two coordinates are well determined: the model is fitted to them.
        proportions: `[D]`, standard deviations of the others relative to the larger of these two; their correlation in
            time is taken to be the same.
    """
    second = np.diff(path[:, :2], 2, axis=0)
    count = len(second)
    measured = np.stack([(second[: count - lag] * second[lag:]).sum(0) / count for lag in range(ORDER + 1)])
    measured[0] = (1.0 + WHITE_FRACTION) * np.maximum(measured[0], 1e-12)  # [ORDER + 1, 2]
    others = (measured / measured[0]).mean(1) * measured[0].max()
    filters = []
    for coordinate, proportion in enumerate(proportions):
        covariance = measured[:, coordinate] if coordinate < 2 else proportion**2 * others
        lags = np.abs(np.arange(ORDER)[:, None] - np.arange(ORDER))
        prediction = np.linalg.solve(covariance[lags], covariance[1:])
        innovation = covariance[0] - prediction @ covariance[1:]
        filters.append(np.convolve(np.concatenate([[1.0], -prediction]), SECOND_DIFFERENCE) / np.sqrt(innovation))
    return np.stack(filters)


def innovations(path: Array, filters: Array) -> Array:
    """The whitened path `[N - L + 1, D]`: output of the filters, each of unit variance a priori."""
    taps = filters.shape[1]
    count = len(path) - taps + 1
    filtered: Array = np.sum([filters[:, tap] * path[tap : tap + count] for tap in range(taps)], axis=0)
    return filtered


def path_precision(filters: Array, blocks: int, size: int) -> Array:
    """Precision (inverse covariance) of the path prior, over each block of knots and the next.

    Args:
        filters: `[D, L]`, L at most `size + 1`.
        blocks: number of blocks.
        size: knots in each.

    Returns:
        `[blocks, 2 size D, 2 size D]`.
    """
    coordinates, taps = filters.shape
    precision = np.zeros((2, 2 * size, coordinates, 2 * size, coordinates))
    products = filters[:, :, None] * filters[:, None]  # [D, L, L]
    # The last block has no next one for the filters to reach into.
    for part, starts in ((0, size), (1, size - taps + 1)):
        for coordinate in range(coordinates):
            for knot in range(starts):
                precision[part, knot : knot + taps, coordinate, knot : knot + taps, coordinate] += products[coordinate]
    inner, last = precision.reshape(2, 2 * size * coordinates, -1)
    return np.concatenate([np.repeat(inner[None], blocks - 1, axis=0), last[None]])
