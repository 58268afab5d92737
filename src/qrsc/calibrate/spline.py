"""Cubic splines of time with evenly spaced knots, and the systems of equations that fitting them leads to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float64]

SUPPORT = 4  # splines that are not 0 at a given time
THREADS = 3  # as many as gammas that are compared: on two cores, no core is then without work for long


def few_threads() -> ThreadPoolExecutor:
    """A few threads for work that is more than matrix products, each of which stays with one of them."""
    return ThreadPoolExecutor(THREADS, initializer=torch.set_num_threads, initargs=(1,))


def product(one: Array, other: Array) -> Array:
    """Product of matrices `[..., M, K]` and `[..., K, N]`, which heeds PyTorch's threads where NumPy's own does not.

    NumPy's library has threads of its own, which wait by spinning. Beside other work on two cores, determinants of 144
    unknowns taken by it alone made a calibration of 4.5 s last 11 s.
    """
    result: Array = torch.matmul(torch.from_numpy(one), torch.from_numpy(other)).numpy()
    return result


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


def bspline(away: Array) -> Array:
    """The cubic B-spline, knots at whole numbers, at distances from its middle: of the same shape."""
    distance = np.abs(away)
    wide, narrow = np.maximum(2.0 - distance, 0.0), np.maximum(1.0 - distance, 0.0)
    value: Array = (wide * wide * wide - 4.0 * (narrow * narrow * narrow)) / 6.0
    return value


def bspline_slope(away: Array) -> Array:
    """Derivative of `bspline`."""
    distance = np.abs(away)
    wide, narrow = np.maximum(2.0 - distance, 0.0), np.maximum(1.0 - distance, 0.0)
    slope: Array = np.sign(away) * (2.0 * (narrow * narrow) - 0.5 * (wide * wide))
    return slope


def factored(diagonal: Array, below: Array) -> list[Array]:
    """Inverses of the pivots of a symmetric positive definite system whose unknowns only meet those of the next block.

    Args:
        diagonal: `[N, M, M]`, blocks on the diagonal.
        below: `[N - 1, M, M]`, block `j` lies in block row `j + 1` and block column `j`.

    Returns:
        N matrices `[M, M]`. The cost grows with N, not with its cube: a longer clip takes proportionally longer.
    """
    inverses: list[Array] = []
    for index, block in enumerate(diagonal):
        if index:
            link = below[index - 1]
            block = block - product(product(link, inverses[-1]), link.T)
        inverses.append(torch.linalg.inv(torch.from_numpy(np.ascontiguousarray(block))).numpy())
    return inverses


def solve_factored(inverses: list[Array], below: Array, right: Array) -> Array:
    """The solution of a system that `factored` has prepared; right sides and solution `[N, M]` or `[N, M, K]`."""
    reduced = [right[0]]
    for vector, link, inverse in zip(right[1:], below, inverses, strict=False):
        reduced.append(vector - product(link, product(inverse, reduced[-1])))
    solution = [product(inverses[-1], reduced[-1])]
    for index in range(len(inverses) - 2, -1, -1):
        solution.append(product(inverses[index], reduced[index] - product(below[index].T, solution[-1])))
    return np.stack(solution[::-1])


def log_determinant(inverses: list[Array]) -> float:
    """Of the system that `factored` has prepared."""
    return -float(torch.linalg.slogdet(torch.from_numpy(np.stack(inverses))).logabsdet.sum())


def solve_block_tridiagonal(diagonal: Array, below: Array, right: Array) -> Array:
    """Solve a system as `factored` describes it, for one right side `[N, M]`."""
    return solve_factored(factored(diagonal, below), below, right)
