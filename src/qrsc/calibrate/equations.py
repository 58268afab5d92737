"""The normal equations of a step from a fit of `rigid`: path and nearness by blocks, bordered by gamma and the bend.

Convention
    A block holds the K coefficients of the path at the knots from one grid of nearness to the next, then the G places
    of that grid: M = K + G unknowns. A pair of frames meets the block in which its first knot lies, and the next one.
    The errors that the cells of a pair have in common meet no other pair: they are eliminated on the spot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.depth import PLACES
from qrsc.calibrate.rigid import BLOCK, COMMON, COORDINATES, REACHED, SHAPES, Look, RigidFit, RigidModel
from qrsc.calibrate.spline import product

Array = npt.NDArray[np.float64]

MET = REACHED * COORDINATES  # coefficients of the path that a pair meets
PATH = BLOCK * COORDINATES  # K

# Products of two knots and of two coordinates, each once; and where in these the equations of a path find their own.
_KNOTS, _COORDINATES = np.triu_indices(REACHED), np.triu_indices(COORDINATES)


def _numbers(pairs: tuple[npt.NDArray[np.intp], ...], size: int) -> npt.NDArray[np.intp]:
    numbers = np.zeros((size, size), dtype=np.intp)
    numbers[pairs] = numbers.T[pairs] = np.arange(len(pairs[0]))
    return numbers


_SQUARE = (
    np.kron(_numbers(_KNOTS, REACHED), np.full((COORDINATES, COORDINATES), len(_COORDINATES[0])))
    + np.tile(_numbers(_COORDINATES, COORDINATES), (REACHED, REACHED))
).reshape(-1)


class System(NamedTuple):
    """Normal equations of a step, but for their right sides."""

    diagonal: Array  # [N, M, M]
    below: Array  # [N - 1, M, M]
    border: Array  # [N, M, 2], of gamma and bend
    corner: Array  # [2, 2]
    by_border: Array  # [P, 2, 2, C], what gamma and the bend do to each cell
    by_nearness: Array  # [P, 2, C]
    log_determinant: float  # of the errors in common, which are eliminated


class Pulls(NamedTuple):
    """Right sides of the equations of a step."""

    blocks: Array  # [N, M]
    border: Array  # [2], of gamma and bend


def step_equations(model: RigidModel, fit: RigidFit, look: Look) -> System:
    """The equations of a step from a fit."""
    near, border = _by_nearness(model, look), _by_border(model, fit, look)
    shapes, determinant = _common_shapes(model.shapes, fit.weight)
    diagonal, below = _expectations(model, fit.error**2)
    borders, corner = np.zeros((model.blocks, 2, PATH + PLACES, 2)), np.zeros((2, 2))
    owner = model.first // BLOCK
    for number in np.unique(owner).tolist():
        pairs = slice(*np.searchsorted(owner, [number, number + 1]))
        block, borders[number], at_corner = _block_equations(model, fit.weight, look, near, border, shapes, pairs)
        diagonal[number] += block[0, :, 0]
        diagonal[number + 1] += block[1, :, 1]
        below[number] += block[1, :, 0]
        corner += at_corner
    return System(diagonal, below, _joined(borders), corner, border, near, determinant)


def with_error(model: RigidModel, system: System, before: float, after: float) -> System:
    """The equations of a step from a fit with another error of a cell: what is expected counts differently."""
    diagonal, below = _expectations(model, after**2 - before**2)
    return system._replace(diagonal=system.diagonal + diagonal, below=system.below + below)


def step_pulls(model: RigidModel, fit: RigidFit, look: Look) -> Pulls:
    """The right sides of the equations of a step from a fit: what they would be 0 of where the cost is least."""
    pull = fit.weight[:, None] * look.own  # [P, 2, C]
    on_path = product(look.values, np.einsum("pkdc,pkc->pcd", look.fields, pull))  # [P, 9, 6]
    path = np.zeros((model.blocks * BLOCK, COORDINATES))
    np.add.at(path, model.knots, on_path)
    grids = np.zeros((model.blocks, 2, PLACES))
    np.add.at(grids, model.depth.before, model.depth.on_grids((pull * _by_nearness(model, look)).sum(1)))
    blocks = np.concatenate([path.reshape(model.blocks, PATH), _joined(grids)], axis=1)
    blocks -= fit.error**2 * _joined(_departures(model, fit))
    return Pulls(blocks, (pull[:, None] * _by_border(model, fit, look)).sum((0, 2, 3)))


def _expectations(model: RigidModel, scale: float) -> tuple[Array, Array]:
    """`System.diagonal` and `System.below` of what is expected of path and scene; the scale is an error squared."""
    size = PATH + PLACES
    diagonal, below = np.zeros((model.blocks, size, size)), np.zeros((model.blocks - 1, size, size))
    for part, stiffness in ((slice(PATH), model.bending), (slice(PATH, size), model.depth.stiffness)):
        this, following = slice(stiffness.shape[1] // 2), slice(stiffness.shape[1] // 2, None)
        diagonal[:, part, part] = scale * stiffness[:, this, this]
        diagonal[1:, part, part] += scale * stiffness[:-1, following, following]
        below[:, part, part] = scale * stiffness[:-1, following, this]
    # Where the path as a whole lies is arbitrary.
    every = np.arange(size)
    diagonal[:, every, every] += 1e-9 + 5e-8 * scale * float((model.filters[:3] ** 2).sum())
    return diagonal, below


def _by_nearness(model: RigidModel, look: Look) -> Array:
    """What nearness does to each cell: `[P, 2, C]`."""
    steps = look.steps
    return np.stack([steps[:, 3] + model.x * steps[:, 5], steps[:, 4] + model.y * steps[:, 5]], axis=1)


def _by_border(model: RigidModel, fit: RigidFit, look: Look) -> Array:
    """What gamma and the bend do to each cell: `[P, 2, 2, C]`."""
    gamma = np.einsum("pkdc,pdc->pkc", look.fields, product(model.at_pairs(fit.path), look.slopes))
    along = model.x * look.steps[:, 0] + model.y * look.steps[:, 1]
    return np.stack([gamma, np.stack([model.x * along, model.y * along], axis=1)], axis=1)


def _departures(model: RigidModel, fit: RigidFit) -> Array:
    """How far path and scene are from what is expected, over each block and the next: `[N, 2, M]`."""
    path = fit.path.reshape(model.blocks, PATH)
    path = np.concatenate([path, np.vstack([path[1:], np.zeros_like(path[:1])])], axis=1)
    bent = (model.bending @ path[..., None]).reshape(-1, 2, PATH)
    away = model.depth.departure(fit.nearness)
    return np.concatenate([bent, (model.depth.stiffness @ away[..., None]).reshape(-1, 2, PLACES)], axis=2)


def _joined(right: Array) -> Array:
    """Right sides `[N, M, ...]` from those over each block and the next, `[N, 2, M, ...]`."""
    joined = right[:, 0].copy()
    joined[1:] += right[:-1, 1]
    return joined


def _block_equations(
    model: RigidModel, weight: Array, look: Look, near: Array, border: Array, shapes: Array, pairs: slice
) -> tuple[Array, Array, Array]:
    """The equations of the pairs of one block, but for what is expected.

    Args:
        model, look: of the clip, at the fit.
        weight: `[P, C]`.
        near, border: `[P, 2, C]` and `[P, 2, 2, C]`, what nearness does to each cell, and what gamma and the bend do.
        shapes: `[P, 3, C]`, of errors in common.
        pairs: which p pairs.

    Returns:
        `[2, M, 2, M]` and `[2, M, 2]`, over the block and the next, and `[2, 2]` of `System.corner`.
    """
    weight, near, border, shapes = weight[pairs], near[pairs], border[pairs], shapes[pairs]
    values, fields, grids = look.values[pairs], look.fields[pairs], model.depth.matrix[pairs]
    count, cells = weight.shape
    square, to_rest = _path_equations(values, fields, weight, border, shapes)
    pull = weight[:, None] * near  # [p, 2, C]
    through = np.empty((count, MET + 2 + 2 * SHAPES, cells))
    on_path = np.einsum("pkdc,pkc->pdc", fields, pull)
    np.multiply(values[:, :, None], on_path[:, None], out=through[:, :MET].reshape(count, REACHED, COORDINATES, cells))
    through[:, MET : MET + 2] = (pull[:, None] * border).sum(2)
    through[:, MET + 2 :] = (pull[:, :, None] * shapes[:, None]).reshape(count, 2 * SHAPES, cells)
    to_grids = product(through, grids)  # [p, 54 + 8, 2 G]
    pulled = weight[:, None, None] * border  # [p, 2, 2, C]
    by_border = product(pulled.reshape(count, 2, -1), border.reshape(count, 2, -1).transpose(0, 2, 1))
    corner = product(pulled.reshape(count, 4, cells), shapes.transpose(0, 2, 1)).reshape(count, 2, -1)  # [p, 2, 6]
    # What the errors in common explain is taken out.
    path, grid = to_rest[..., 2:], to_grids[:, MET + 2 :]
    full = np.concatenate([square, to_grids[:, :MET], to_rest[..., :2]], axis=2)  # [p, 54, 54 + 2 G + 2]
    full -= product(path, np.concatenate([path.transpose(0, 2, 1), grid, corner.transpose(0, 2, 1)], axis=2))
    gathered = np.zeros((2 * PATH, full.shape[2] - MET + 2 * PATH))
    for equations, start in zip(full, model.first[pairs] % BLOCK * COORDINATES, strict=True):
        met = slice(start, start + MET)
        gathered[met, met] += equations[:, :MET]
        gathered[met, 2 * PATH :] += equations[:, MET:]
    grid, across = grid.reshape(-1, 2 * PLACES), corner.transpose(0, 2, 1).reshape(-1, 2)
    between = gathered[:, 2 * PATH : -2]
    by_grids = model.depth.gathered(pairs, weight * (near**2).sum(1)) - product(grid.T, grid)
    block, at_border = np.empty((2, PATH + PLACES, 2, PATH + PLACES)), np.empty((2, PATH + PLACES, 2))
    block[:, :PATH, :, :PATH] = gathered[:, : 2 * PATH].reshape(2, PATH, 2, PATH)
    block[:, :PATH, :, PATH:] = between.reshape(2, PATH, 2, PLACES)
    block[:, PATH:, :, :PATH] = between.T.reshape(2, PLACES, 2, PATH)
    block[:, PATH:, :, PATH:] = by_grids.reshape(2, PLACES, 2, PLACES)
    at_border[:, :PATH] = gathered[:, -2:].reshape(2, PATH, 2)
    at_border[:, PATH:] = (to_grids[:, MET : MET + 2].sum(0).T - product(grid.T, across)).reshape(2, PLACES, 2)
    return block, at_border, by_border.sum(0) - product(across.T, across)


def _common_shapes(shapes: Array, weight: Array) -> tuple[Array, float]:
    """Shapes `[P, 3, C]` of errors in common whose sizes, once the cells are known, are independent and of variance 1.

    With them comes the logarithm of the determinant of the equations of both components, of the shapes as given.
    """
    own = product(shapes * weight[:, None], shapes.transpose(0, 2, 1)) + np.eye(SHAPES) / COMMON**2
    triangle = np.linalg.cholesky(own)
    logarithm = float(np.log(np.diagonal(triangle, axis1=1, axis2=2)).sum())
    return product(np.linalg.inv(triangle), shapes), 4.0 * logarithm


def _path_equations(values: Array, fields: Array, weight: Array, border: Array, shapes: Array) -> tuple[Array, Array]:
    """Normal equations of the path of each pair, with itself and with all that is no nearness.

    Args:
        values, fields: `[p, 9, C]` and `[p, 2, 6, C]`, as in `Look`.
        weight: `[p, C]`.
        border: `[p, 2, 2, C]`, what gamma and the bend do to each cell.
        shapes: `[p, 3, C]`, of errors in common.

    Returns:
        `[p, 54, 54]` and `[p, 54, 2 + 6]`: gamma, bend, the errors in common of x and those of y.
    """
    count, cells = weight.shape
    pulls = weight[:, None, None] * fields
    twice = values[:, _KNOTS[0]] * values[:, _KNOTS[1]]  # [p, 45, C]
    one, other = _COORDINATES
    moved = pulls[:, 0, one] * fields[:, 0, other] + pulls[:, 1, one] * fields[:, 1, other]  # [p, 21, C]
    once = product(twice, moved.transpose(0, 2, 1)).reshape(count, -1)
    square = once.take(_SQUARE, axis=1).reshape(count, MET, MET)
    across = np.empty((count, 2 + 2 * SHAPES, COORDINATES, cells))
    across[:, :2] = pulls[:, None, 0] * border[:, :, 0, None] + pulls[:, None, 1] * border[:, :, 1, None]
    by_shapes = across[:, 2:].reshape(count, 2, SHAPES, COORDINATES, cells)
    np.multiply(pulls[:, :, None], shapes[:, None, :, None], out=by_shapes)
    by_cell = across.reshape(count, -1, cells).transpose(0, 2, 1)
    to_rest = product(values, by_cell).reshape(count, REACHED, -1, COORDINATES)
    return square, to_rest.transpose(0, 1, 3, 2).reshape(count, MET, -1)
