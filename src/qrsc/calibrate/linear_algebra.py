"""Matrix products and block-tridiagonal systems, computed with PyTorch so that its thread limit holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch

from qrsc.backend.threads import thread_pool

Array = npt.NDArray[np.float64]

THREADS = 3  # as many as gammas that are compared: on two cores, no core is then without work for long


def small_thread_pool() -> ThreadPoolExecutor:
    """A pool of a few threads, in each of which PyTorch computes with a single thread."""
    return thread_pool(THREADS, 1)


def product(one: Array, other: Array) -> Array:
    """Product of matrices `[..., M, K]` and `[..., K, N]`, within PyTorch's thread limit.

    NumPy's BLAS has threads of its own, which wait by spinning. Beside other work on two cores, determinants of 144
    unknowns taken by it alone made a calibration of 4.5 s last 11 s.
    """
    result: Array = torch.matmul(torch.from_numpy(one), torch.from_numpy(other)).numpy()
    return result


def factorised(diagonal: Array, below: Array) -> list[Array]:
    """Block LDL factorisation of a symmetric positive definite block-tridiagonal matrix.

    Args:
        diagonal: `[N, M, M]`, blocks on the diagonal.
        below: `[N - 1, M, M]`, block `j` lies in block row `j + 1` and block column `j`.

    Returns:
        Inverses of the N pivots, `[M, M]` each. The cost is linear in N.
    """
    inverses: list[Array] = []
    for index, block in enumerate(diagonal):
        if index:
            link = below[index - 1]
            block = block - product(product(link, inverses[-1]), link.T)
        inverses.append(_inverse(torch.from_numpy(np.ascontiguousarray(block))).numpy())
    return inverses


def _inverse(pivot: torch.Tensor) -> torch.Tensor:
    """Of a symmetric matrix `[M, M]`, in half the time of `inv` unless rounding has made it indefinite."""
    triangle, failed = torch.linalg.cholesky_ex(pivot)
    return torch.linalg.inv(pivot) if failed else torch.cholesky_inverse(triangle)


def solve_factorised(inverses: list[Array], below: Array, right: Array) -> Array:
    """Solve a system that was `factorised`; right-hand side and solution are `[N, M]` or `[N, M, K]`."""
    reduced = [right[0]]
    for vector, link, inverse in zip(right[1:], below, inverses, strict=False):
        reduced.append(vector - product(link, product(inverse, reduced[-1])))
    solution = [product(inverses[-1], reduced[-1])]
    for index in range(len(inverses) - 2, -1, -1):
        solution.append(product(inverses[index], reduced[index] - product(below[index].T, solution[-1])))
    return np.stack(solution[::-1])


def log_determinant(inverses: list[Array]) -> float:
    """Log-determinant of a matrix that was `factorised`."""
    return -float(torch.linalg.slogdet(torch.from_numpy(np.stack(inverses))).logabsdet.sum())


def solve_block_tridiagonal(diagonal: Array, below: Array, right: Array) -> Array:
    """Factorise and solve a block-tridiagonal system for one right-hand side `[N, M]`."""
    return solve_factorised(factorised(diagonal, below), below, right)
