"""Cubic splines of time with evenly spaced knots, and the systems of equations that fitting them leads to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

Array = npt.NDArray[np.float64]

SUPPORT = 4  # splines that are not 0 at a given time


@contextmanager
def one_thread() -> Iterator[None]:
    """Matrix products of the calibration run by one thread.

    They are many and small. With both of two busy cores to wait for, they took five times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def product(one: Array, other: Array) -> Array:
    """Product of matrices `[..., M, K]` and `[..., K, N]`, which heeds `one_thread` where NumPy's own does not."""
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


def bspline_slopes(times: Array) -> Array:
    """Derivatives of the splines that `bspline_values` gives, `[..., 4]`."""
    part = times - np.floor(times)
    slopes = np.stack(
        [-((1.0 - part) ** 2), 3.0 * part**2 - 4.0 * part, -3.0 * part**2 + 2.0 * part + 1.0, part**2], axis=-1
    )
    return 0.5 * slopes


def component_products(one: Array, other: Array) -> Array:
    """Products of `[P, C, 2, A]` and `[P, C, 2, B]`, summed over the two components: `[P, C, A B]`."""
    # Written out: as many tiny matrix products as there are cells take several times as long.
    summed = one[:, :, 0, :, None] * other[:, :, 0, None] + one[:, :, 1, :, None] * other[:, :, 1, None]
    return summed.reshape(*summed.shape[:2], -1)


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
    return -float(sum(np.linalg.slogdet(inverse)[1] for inverse in inverses))


def solve_block_tridiagonal(diagonal: Array, below: Array, right: Array) -> Array:
    """Solve a system as `factored` describes it, for one right side `[N, M]`."""
    return solve_factored(factored(diagonal, below), below, right)
