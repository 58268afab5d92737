"""Cubic splines of time with evenly spaced knots, and the systems of equations that fitting them leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

SUPPORT = 4  # splines that are not 0 at a given time


class SplineValues(NamedTuple):
    """The cubic B-splines that are not 0 at given times: the number of the first, `[...]`, and values `[..., 4]`."""

    first: npt.NDArray[np.int64]
    values: Array


def bspline_values(times: Array) -> SplineValues:
    """Values of cubic B-splines with knots at whole numbers; spline `i` is centred at `i`."""
    below = np.floor(times)
    part = times - below
    values = np.stack(
        [
            (1.0 - part) ** 3,
            3.0 * part**3 - 6.0 * part**2 + 4.0,
            -3.0 * part**3 + 3.0 * part**2 + 3.0 * part + 1.0,
            part**3,
        ],
        axis=-1,
    )
    return SplineValues(below.astype(np.int64) - 1, values / 6.0)


def solve_block_tridiagonal(diagonal: Array, below: Array, right: Array) -> Array:
    """Solve a symmetric positive definite system whose unknowns only meet those of the next block.

    Args:
        diagonal: `[N, M, M]`, blocks on the diagonal.
        below: `[N - 1, M, M]`, block `j` lies in block row `j + 1` and block column `j`.
        right: `[N, M]`.

    Returns:
        `[N, M]`. The cost grows with N, not with its cube: a longer clip takes proportionally longer.
    """
    inverses: list[Array] = []
    reduced: list[Array] = []
    for index in range(len(diagonal)):
        block, vector = diagonal[index], right[index]
        if index:
            factor = below[index - 1] @ inverses[-1]
            block = block - factor @ below[index - 1].T
            vector = vector - factor @ reduced[-1]
        inverses.append(np.linalg.inv(block))
        reduced.append(vector)
    solution = [inverses[-1] @ reduced[-1]]
    for index in range(len(diagonal) - 2, -1, -1):
        solution.append(inverses[index] @ (reduced[index] - below[index].T @ solution[-1]))
    return np.stack(solution[::-1])
