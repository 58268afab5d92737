"""Inverse depth of every cell: coarse grids over the picture that move along with it.

Convention
    Inverse depth has an arbitrary unit, since a clip determines depth only up to a factor; 1 is typical. Grids of G
    nodes stand `spacing` knots apart in time. A cell interpolates its inverse depth from the grids before and after
    it, each looked up where the dominant motion carries the cell by the time of that grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

GRID = (6, 8)  # rows and columns; 8 x 10 take half as long again and find gamma no better
NODES = GRID[0] * GRID[1]  # G
# Prior standard deviations of a node: from the prior mean, from its neighbour, and from one grid to the next.
MEAN_STD, NEIGHBOUR_STD, CHANGE_STD = 0.6, 0.4, 0.4
# The ground below is near and the sky above far: prior mean at the lower edge of the picture minus that at its middle.
GROUND = 0.5


class InverseDepthGrids:
    """Interpolation from the grids to the cells, and the prior of the grids."""

    def __init__(self, motions: ClipMotions, first: Index, grid_times: Array, spacing: int) -> None:
        """Set up the grids of a clip.

        Args:
            motions: of the clip.
            first: `[P]`, index of the first knot in reach of each pair, counted from the knot of the first grid.
            grid_times: `[N]`, of the grids, in frames.
            spacing: knots from one grid to the next.
        """
        height, width = motions.size
        self.before = first // spacing  # [P], index of the grid before each pair
        self.after = np.minimum(self.before + 1, len(grid_times) - 1)
        later = (first % spacing / spacing)[:, None]  # [P, 1]
        carried = _dominant_positions(motions, grid_times)  # [N, 2]
        now = _dominant_positions(motions, np.arange(motions.pairs) + 0.5)[:, None]
        middle = motions.position + 0.5 * motions.shift
        index, weight = [], []
        for side, grid, part in ((0, self.before, 1.0 - later), (1, self.after, later)):
            position = middle + carried[grid][:, None] - now
            for corner, bilinear in _corners((position + 0.5) / [width, height] * [GRID[1], GRID[0]] - 0.5):
                index.append(side * NODES + corner)
                weight.append(part * bilinear)
        nodes, self.weight = np.stack(index, axis=-1), np.stack(weight, axis=-1)  # [P, C, 8]
        self.matrix = np.zeros((*motions.weight.shape, 2 * NODES))  # [P, C, 2 G], the same as dense rows
        pairs, cells = np.mgrid[0 : motions.pairs, 0 : motions.weight.shape[1]]
        for number in range(nodes.shape[-1]):
            self.matrix[pairs, cells, nodes[..., number]] += self.weight[..., number]
        self._index = nodes + 2 * NODES * pairs[..., None]  # [P, C, 8], in the two grids of every pair, [P, 2 G]
        # Each product of two nodes of a cell once; `normal` adds the transpose, hence half of the squares.
        one, other = np.triu_indices(nodes.shape[-1])
        self._products = nodes[..., one] * (2 * NODES) + nodes[..., other]  # [P, C, 36]
        self._product_weights = self.weight[..., one] * self.weight[..., other] * np.where(one == other, 0.5, 1.0)
        down = (np.arange(GRID[0]) + 0.5) / GRID[0] - 0.5
        self.prior_mean = np.repeat(1.0 + 2.0 * GROUND * down, GRID[1])  # [G]
        self.precision = self._prior_precision(carried, (height, width))  # [N, 2 G, 2 G], over each grid and the next

    def at_cells(self, inverse_depth: Array) -> Array:
        """Inverse depth of every cell, `[P, C]`, from grids `[N, G]`."""
        both = np.concatenate([inverse_depth[self.before], inverse_depth[self.after]], axis=1)
        interpolated: Array = np.einsum("pcn,pcn->pc", self.weight, both.reshape(-1).take(self._index))
        return interpolated

    def on_grids(self, values: Array) -> Array:
        """Adjoint of `at_cells`: values of cells `[P, C]` summed in the grids around each pair, `[P, 2, G]`."""
        weighted = (self.weight * values[..., None]).reshape(-1)
        summed = np.bincount(self._index.reshape(-1), weighted, 2 * NODES * len(values))
        return summed.reshape(-1, 2, NODES).astype(np.float64)

    def normal(self, pairs: slice, weight: Array) -> Array:
        """Normal matrix `[2 G, 2 G]` of pairs that lie between the same two grids.

        Args:
            pairs: which p pairs.
            weight: `[p, C]`, of each cell.
        """
        values = self._product_weights[pairs] * weight[..., None]
        summed = np.bincount(self._products[pairs].reshape(-1), values.reshape(-1), (2 * NODES) ** 2)
        half = summed.reshape(2 * NODES, 2 * NODES).astype(np.float64)
        return half + half.T

    def deviation(self, inverse_depth: Array) -> Array:
        """Every grid `[N, G]` minus the prior mean, with that of the next beside it: `[N, 2 G]`."""
        own = inverse_depth - self.prior_mean
        return np.concatenate([own, np.vstack([own[1:], np.zeros_like(own[:1])])], axis=1)

    def _prior_precision(self, carried: Array, size: tuple[int, int]) -> Array:
        height, width = size
        rows, columns = np.mgrid[0 : GRID[0], 0 : GRID[1]]
        number = rows * GRID[1] + columns
        neighbours = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
        one, other = (np.concatenate([pair[side].ravel() for pair in neighbours]) for side in (0, 1))
        differences = np.zeros((len(one), NODES))
        differences[np.arange(len(one)), one], differences[np.arange(len(one)), other] = 1.0, -1.0
        precision = np.zeros((len(carried), 2 * NODES, 2 * NODES))
        precision[:, :NODES, :NODES] = differences.T @ differences / NEIGHBOUR_STD**2 + np.eye(NODES) / MEAN_STD**2
        for grid, (dx, dy) in enumerate(np.diff(carried, axis=0)):
            moved = np.stack([columns + dx / width * GRID[1], rows + dy / height * GRID[0]], axis=-1)
            change = np.hstack([np.eye(NODES), np.zeros((NODES, NODES))])
            for corner, weight in _corners(moved):
                change[number.ravel(), NODES + corner.ravel()] -= weight.ravel()
            precision[grid] += change.T @ change / CHANGE_STD**2
        return precision


def _dominant_positions(motions: ClipMotions, times: npt.NDArray[np.floating]) -> Array:
    """Where the dominant motion has carried the picture by given times: `[N, 2]` in pixels."""
    textured = motions.weight > 0.05
    medians = [
        np.median(shift[seen], axis=0) if seen.any() else np.zeros(2)
        for shift, seen in zip(motions.shift, textured, strict=True)
    ]
    path = np.concatenate([np.zeros((1, 2)), np.cumsum(medians, axis=0)])
    return np.stack([np.interp(times, np.arange(len(path)), path[:, part]) for part in (0, 1)], axis=-1)


def _corners(position: Array) -> Iterator[tuple[Index, Array]]:
    """The four nodes around points `[..., 2]` (x, y in grid units), and their bilinear weights, each `[...]`."""
    x, y = (np.clip(position[..., part], 0.0, GRID[1 - part] - 1.0 - 1e-6) for part in (0, 1))
    column, row = x.astype(np.int64), y.astype(np.int64)
    right, down = x - column, y - row
    for below in (0, 1):
        for beside in (0, 1):
            weight = (down if below else 1.0 - down) * (right if beside else 1.0 - right)
            yield (row + below) * GRID[1] + column + beside, weight
