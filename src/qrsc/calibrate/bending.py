"""What is expected of the path of a camera: how it bends from one knot to the next.

Convention
    A path is `[N, D]`: coefficients of D coordinates at N knots. A filter of L taps is run along each coordinate; what
    comes out is expected to be of variance 1 and the same at every frequency. Second differences say that accelerations
    are. A filter that is learned says that the path goes on shaking the way it does elsewhere in the clip: steps do not
    hold what hands do, and the rows of one frame see too little of the path to tell without knowing either.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SECOND = np.array([1.0, -2.0, 1.0])
ORDER = 6  # knots that the next bend is foretold from
FLOOR = 0.1  # part of the variance that is expected at all frequencies alike


def even_filters(variance: Array) -> Array:
    """Filters `[D, 3]` of paths whose second differences have a given variance, `[D]`."""
    filters: Array = SECOND / np.sqrt(variance)[:, None]
    return filters


def learned_filters(path: Array, proportions: Array) -> Array:
    """Filters `[D, ORDER + 3]` that foretell the bends of the path from those before.

    Args:
        path: `[N, D]`, the part of it that was seen; the first two coordinates are those that are known well.
        proportions: `[D]`, how much the others bend, as parts of the larger of these two, in the same way.
    """
    bent = np.diff(path[:, :2], 2, axis=0)
    count = len(bent)
    alike = np.stack([(bent[: count - lag] * bent[lag:]).sum(0) / count for lag in range(ORDER + 1)])  # [ORDER + 1, 2]
    alike[0] = (1.0 + FLOOR) * np.maximum(alike[0], 1e-12)
    others = (alike / alike[0]).mean(1) * alike[0].max()
    filters = []
    for coordinate, proportion in enumerate(proportions):
        covariance = alike[:, coordinate] if coordinate < 2 else proportion**2 * others
        lags = np.abs(np.arange(ORDER)[:, None] - np.arange(ORDER))
        foretelling = np.linalg.solve(covariance[lags], covariance[1:])
        new = covariance[0] - foretelling @ covariance[1:]
        filters.append(np.convolve(np.concatenate([[1.0], -foretelling]), SECOND) / np.sqrt(new))
    return np.stack(filters)


def bends(path: Array, filters: Array) -> Array:
    """What comes out of the filters along a path: `[N - L + 1, D]`."""
    taps = filters.shape[1]
    count = len(path) - taps + 1
    filtered: Array = np.sum([filters[:, tap] * path[tap : tap + count] for tap in range(taps)], axis=0)
    return filtered


def penalties(filters: Array, blocks: int, size: int) -> Array:
    """Equations that pull what comes out of the filters towards 0, over each block of knots and the next.

    Args:
        filters: `[D, L]`, L at most `size + 1`.
        blocks: how many.
        size: knots in each.

    Returns:
        `[blocks, 2 size D, 2 size D]`.
    """
    coordinates, taps = filters.shape
    every = np.zeros((2, 2 * size, coordinates, 2 * size, coordinates))
    products = filters[:, :, None] * filters[:, None]  # [D, L, L]
    # The last block has no next one for the filters to reach into.
    for part, starts in ((0, size), (1, size - taps + 1)):
        for coordinate in range(coordinates):
            for knot in range(starts):
                every[part, knot : knot + taps, coordinate, knot : knot + taps, coordinate] += products[coordinate]
    inner, last = every.reshape(2, 2 * size * coordinates, -1)
    return np.concatenate([np.repeat(inner[None], blocks - 1, axis=0), last[None]])
