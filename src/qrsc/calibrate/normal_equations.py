"""Normal equations of a Gauss-Newton step of `camera_model`: a bordered block-tridiagonal matrix.

Convention
    A block holds the K path coefficients at the knots from one inverse depth grid to the next, then the G nodes of that
    grid: M = K + G unknowns. A pair of frames involves the block in which its first knot lies, and the next one. Gamma
    and the inverse squared focal length involve all blocks: they form the border. The correlated errors of a pair
    involve no other pair, and are eliminated there (Schur complement).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.camera_model import (
    BLOCK,
    COORDINATES,
    ERROR_MODES,
    MODE_STD,
    PAIR_KNOTS,
    CameraFit,
    CameraModel,
    Evaluation,
)
from qrsc.calibrate.inverse_depth import NODES
from qrsc.calibrate.linear_algebra import product

Array = npt.NDArray[np.float64]

PAIR_PATH = PAIR_KNOTS * COORDINATES  # path coefficients in reach of a pair
PATH = BLOCK * COORDINATES  # K

# The products of two knots and of two coordinates, each once, and the index in these of every entry of the normal
# matrix of a pair's path.
_KNOTS, _COORDINATES = np.triu_indices(PAIR_KNOTS), np.triu_indices(COORDINATES)


def _symmetric_index(pairs: tuple[npt.NDArray[np.intp], ...], size: int) -> npt.NDArray[np.intp]:
    index = np.zeros((size, size), dtype=np.intp)
    index[pairs] = index.T[pairs] = np.arange(len(pairs[0]))
    return index


_SQUARE = (
    np.kron(_symmetric_index(_KNOTS, PAIR_KNOTS), np.full((COORDINATES, COORDINATES), len(_COORDINATES[0])))
    + np.tile(_symmetric_index(_COORDINATES, COORDINATES), (PAIR_KNOTS, PAIR_KNOTS))
).reshape(-1)


class NormalMatrix(NamedTuple):
    """The matrix of the normal equations of a step."""

    diagonal: Array  # [N, M, M]
    below: Array  # [N - 1, M, M]
    border: Array  # [N, M, 2], of gamma and the inverse squared focal length
    corner: Array  # [2, 2]
    border_jacobian: Array  # [P, 2, 2, C], of the displacement of each cell by the border unknowns (axis 1)
    depth_jacobian: Array  # [P, 2, C], by the inverse depth of the cell
    log_determinant: float  # of the correlated errors, which are eliminated


class RightHandSide(NamedTuple):
    """Right-hand side of the normal equations: -noise² / 2 times the gradient of the weighted cost."""

    blocks: Array  # [N, M]
    border: Array  # [2], of gamma and the inverse squared focal length


def normal_matrix(model: CameraModel, fit: CameraFit, evaluation: Evaluation) -> NormalMatrix:
    """Linearise the model at a fit."""
    depth = _depth_jacobian(model, evaluation)
    border = _border_jacobian(model, fit, evaluation)
    modes, determinant = _whitened_modes(model.error_modes, fit.weight)
    diagonal, below = _prior_blocks(model, fit.noise**2)
    borders, corner = np.zeros((model.blocks, 2, PATH + NODES, 2)), np.zeros((2, 2))
    owner = model.first // BLOCK
    for number in np.unique(owner).tolist():
        pairs = slice(*np.searchsorted(owner, [number, number + 1]))
        block, borders[number], at_corner = _block_matrix(model, fit.weight, evaluation, depth, border, modes, pairs)
        diagonal[number] += block[0, :, 0]
        diagonal[number + 1] += block[1, :, 1]
        below[number] += block[1, :, 0]
        corner += at_corner
    return NormalMatrix(diagonal, below, _overlapped(borders), corner, border, depth, determinant)


def with_noise(model: CameraModel, matrix: NormalMatrix, before: float, after: float) -> NormalMatrix:
    """The matrix for another noise of a cell: only the weight of the priors changes."""
    diagonal, below = _prior_blocks(model, after**2 - before**2)
    return matrix._replace(diagonal=matrix.diagonal + diagonal, below=matrix.below + below)


def right_hand_side(model: CameraModel, fit: CameraFit, evaluation: Evaluation) -> RightHandSide:
    """The right-hand side at a fit; it is 0 where the weighted cost is least."""
    weighted = fit.weight[:, None] * evaluation.own_residual  # [P, 2, C]
    by_path = product(evaluation.basis, np.einsum("pkdc,pkc->pcd", evaluation.jacobian, weighted))  # [P, 9, 6]
    path = np.zeros((model.blocks * BLOCK, COORDINATES))
    np.add.at(path, model.knots, by_path)
    grids = np.zeros((model.blocks, 2, NODES))
    by_depth = (weighted * _depth_jacobian(model, evaluation)).sum(1)
    np.add.at(grids, model.depth.before, model.depth.on_grids(by_depth))
    blocks = np.concatenate([path.reshape(model.blocks, PATH), _overlapped(grids)], axis=1)
    blocks -= fit.noise**2 * _overlapped(_prior_gradient(model, fit))
    border = (weighted[:, None] * _border_jacobian(model, fit, evaluation)).sum((0, 2, 3))
    return RightHandSide(blocks, border)


def _prior_blocks(model: CameraModel, scale: float) -> tuple[Array, Array]:
    """`NormalMatrix.diagonal` and `NormalMatrix.below` of the priors of path and scene, times a noise squared."""
    size = PATH + NODES
    diagonal, below = np.zeros((model.blocks, size, size)), np.zeros((model.blocks - 1, size, size))
    for part, precision in ((slice(PATH), model.path_precision), (slice(PATH, size), model.depth.precision)):
        this, following = slice(precision.shape[1] // 2), slice(precision.shape[1] // 2, None)
        diagonal[:, part, part] = scale * precision[:, this, this]
        diagonal[1:, part, part] += scale * precision[:-1, following, following]
        below[:, part, part] = scale * precision[:-1, following, this]
    # The origin of the path is arbitrary: a small ridge fixes it.
    every = np.arange(size)
    diagonal[:, every, every] += 1e-9 + 5e-8 * scale * float((model.filters[:3] ** 2).sum())
    return diagonal, below


def _depth_jacobian(model: CameraModel, evaluation: Evaluation) -> Array:
    """`NormalMatrix.depth_jacobian`."""
    steps = evaluation.steps
    return np.stack([steps[:, 3] + model.x * steps[:, 5], steps[:, 4] + model.y * steps[:, 5]], axis=1)


def _border_jacobian(model: CameraModel, fit: CameraFit, evaluation: Evaluation) -> Array:
    """`NormalMatrix.border_jacobian`."""
    slope = product(model.at_pairs(fit.path), evaluation.basis_slope)
    gamma = np.einsum("pkdc,pdc->pkc", evaluation.jacobian, slope)
    along = model.x * evaluation.steps[:, 0] + model.y * evaluation.steps[:, 1]
    return np.stack([gamma, np.stack([model.x * along, model.y * along], axis=1)], axis=1)


def _prior_gradient(model: CameraModel, fit: CameraFit) -> Array:
    """Half the gradient of the prior costs of path and scene, over each block and the next: `[N, 2, M]`."""
    path = fit.path.reshape(model.blocks, PATH)
    path = np.concatenate([path, np.vstack([path[1:], np.zeros_like(path[:1])])], axis=1)
    by_path = (model.path_precision @ path[..., None]).reshape(-1, 2, PATH)
    deviation = model.depth.deviation(fit.inverse_depth)
    by_depth = (model.depth.precision @ deviation[..., None]).reshape(-1, 2, NODES)
    return np.concatenate([by_path, by_depth], axis=2)


def _overlapped(blocks: Array) -> Array:
    """`[N, M, ...]` from contributions to each block and the next, `[N, 2, M, ...]`, which are added up."""
    summed = blocks[:, 0].copy()
    summed[1:] += blocks[:-1, 1]
    return summed


def _block_matrix(
    model: CameraModel, weight: Array, evaluation: Evaluation, depth: Array, border: Array, modes: Array, pairs: slice
) -> tuple[Array, Array, Array]:
    """The normal matrix of the pairs of one block, without the priors.

    Args:
        model, evaluation: of the clip, at the fit.
        weight: `[P, C]`.
        depth, border: `[P, 2, C]` and `[P, 2, 2, C]`, Jacobians as in `NormalMatrix`.
        modes: `[P, 3, C]`, correlated error modes, whitened.
        pairs: which p pairs.

    Returns:
        `[2, M, 2, M]` and `[2, M, 2]`, over the block and the next, and `[2, 2]` of `NormalMatrix.corner`.
    """
    weight, depth, border, modes = weight[pairs], depth[pairs], border[pairs], modes[pairs]
    basis, jacobian, grids = evaluation.basis[pairs], evaluation.jacobian[pairs], model.depth.matrix[pairs]
    count, cells = weight.shape
    square, to_rest = _path_matrix(basis, jacobian, weight, border, modes)
    weighted = weight[:, None] * depth  # [p, 2, C]
    by_cell = np.empty((count, PAIR_PATH + 2 + 2 * ERROR_MODES, cells))
    by_path = by_cell[:, :PAIR_PATH].reshape(count, PAIR_KNOTS, COORDINATES, cells)
    np.multiply(basis[:, :, None], np.einsum("pkdc,pkc->pdc", jacobian, weighted)[:, None], out=by_path)
    by_cell[:, PAIR_PATH : PAIR_PATH + 2] = (weighted[:, None] * border).sum(2)
    by_cell[:, PAIR_PATH + 2 :] = (weighted[:, :, None] * modes[:, None]).reshape(count, 2 * ERROR_MODES, cells)
    to_grids = product(by_cell, grids)  # [p, 54 + 8, 2 G]
    weighted = weight[:, None, None] * border  # [p, 2, 2, C]
    corner = product(weighted.reshape(count, 2, -1), border.reshape(count, 2, -1).transpose(0, 2, 1))
    to_modes = product(weighted.reshape(count, 4, cells), modes.transpose(0, 2, 1)).reshape(count, 2, -1)  # [p, 2, 6]
    # Schur complement: the correlated errors are eliminated.
    path, grid = to_rest[..., 2:], to_grids[:, PAIR_PATH + 2 :]
    full = np.concatenate([square, to_grids[:, :PAIR_PATH], to_rest[..., :2]], axis=2)  # [p, 54, 54 + 2 G + 2]
    full -= product(path, np.concatenate([path.transpose(0, 2, 1), grid, to_modes.transpose(0, 2, 1)], axis=2))
    gathered = np.zeros((2 * PATH, full.shape[2] - PAIR_PATH + 2 * PATH))
    for equations, start in zip(full, model.first[pairs] % BLOCK * COORDINATES, strict=True):
        reached = slice(start, start + PAIR_PATH)
        gathered[reached, reached] += equations[:, :PAIR_PATH]
        gathered[reached, 2 * PATH :] += equations[:, PAIR_PATH:]
    grid, across = grid.reshape(-1, 2 * NODES), to_modes.transpose(0, 2, 1).reshape(-1, 2)
    between = gathered[:, 2 * PATH : -2]
    by_grids = model.depth.normal(pairs, weight * (depth**2).sum(1)) - product(grid.T, grid)
    block, at_border = np.empty((2, PATH + NODES, 2, PATH + NODES)), np.empty((2, PATH + NODES, 2))
    block[:, :PATH, :, :PATH] = gathered[:, : 2 * PATH].reshape(2, PATH, 2, PATH)
    block[:, :PATH, :, PATH:] = between.reshape(2, PATH, 2, NODES)
    block[:, PATH:, :, :PATH] = between.T.reshape(2, NODES, 2, PATH)
    block[:, PATH:, :, PATH:] = by_grids.reshape(2, NODES, 2, NODES)
    at_border[:, :PATH] = gathered[:, -2:].reshape(2, PATH, 2)
    grid_border = to_grids[:, PAIR_PATH : PAIR_PATH + 2].sum(0).T - product(grid.T, across)
    at_border[:, PATH:] = grid_border.reshape(2, NODES, 2)
    return block, at_border, corner.sum(0) - product(across.T, across)


def _whitened_modes(modes: Array, weight: Array) -> tuple[Array, float]:
    """Error modes `[P, 3, C]` whose amplitudes, given the cells, are independent and of unit variance.

    Also the log-determinant of the normal matrix of the amplitudes of both components, for the modes as given.
    """
    normal = product(modes * weight[:, None], modes.transpose(0, 2, 1)) + np.eye(ERROR_MODES) / MODE_STD**2
    triangle = np.linalg.cholesky(normal)
    logarithm = float(np.log(np.diagonal(triangle, axis1=1, axis2=2)).sum())
    return product(np.linalg.inv(triangle), modes), 4.0 * logarithm


def _path_matrix(basis: Array, jacobian: Array, weight: Array, border: Array, modes: Array) -> tuple[Array, Array]:
    """Normal matrix of the path of each pair, with itself and with everything but inverse depth.

    Args:
        basis, jacobian: `[p, 9, C]` and `[p, 2, 6, C]`, as in `Evaluation`.
        weight: `[p, C]`.
        border: `[p, 2, 2, C]`, Jacobian as in `NormalMatrix`.
        modes: `[p, 3, C]`, correlated error modes, whitened.

    Returns:
        `[p, 54, 54]` and `[p, 54, 2 + 6]`: gamma, inverse squared focal length, correlated errors of x and of y.
    """
    count, cells = weight.shape
    weighted = weight[:, None, None] * jacobian
    knots = basis[:, _KNOTS[0]] * basis[:, _KNOTS[1]]  # [p, 45, C]
    one, other = _COORDINATES
    coordinates = weighted[:, 0, one] * jacobian[:, 0, other] + weighted[:, 1, one] * jacobian[:, 1, other]
    once = product(knots, coordinates.transpose(0, 2, 1)).reshape(count, -1)  # [p, 45 * 21]
    square = once.take(_SQUARE, axis=1).reshape(count, PAIR_PATH, PAIR_PATH)
    across = np.empty((count, 2 + 2 * ERROR_MODES, COORDINATES, cells))
    across[:, :2] = weighted[:, None, 0] * border[:, :, 0, None] + weighted[:, None, 1] * border[:, :, 1, None]
    by_modes = across[:, 2:].reshape(count, 2, ERROR_MODES, COORDINATES, cells)
    np.multiply(weighted[:, :, None], modes[:, None, :, None], out=by_modes)
    by_cell = across.reshape(count, -1, cells).transpose(0, 2, 1)
    to_rest = product(basis, by_cell).reshape(count, PAIR_KNOTS, -1, COORDINATES)
    return square, to_rest.transpose(0, 1, 3, 2).reshape(count, PAIR_PATH, -1)
