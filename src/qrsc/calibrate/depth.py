"""How near the scene is in every cell: a coarse grid of inverse depths that moves along with the picture.

Convention
    Nearness is 1 / depth in a unit of its own, since a picture tells depth only up to a factor; 1 is typical. Grids
    stand at times `SPACING` knots apart. Between two of them a cell takes its nearness from both, each looked up where
    the dominant motion carries the cell's place to at the time of that grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cell_motions import ClipMotions

Array = npt.NDArray[np.float64]
Index = npt.NDArray[np.int64]

GRID = (6, 8)  # rows and columns; 8 x 10 take half as long again and find gamma no better
PLACES = GRID[0] * GRID[1]
# Standard deviations of a place from what is expected, from its neighbour, and from one grid to the next.
SPREAD, NEIGHBOURS, CHANGE = 0.6, 0.4, 0.4
# The ground is near below and the sky far above: expected at the lower edge of the picture, above that at its middle.
GROUND = 0.5


class DepthGrids:
    """Where cells look up their nearness, and what is expected of it."""

    def __init__(self, motions: ClipMotions, first: Index, grid_times: Array, spacing: int) -> None:
        """Set up the grids of a clip.

        Args:
            motions: of the clip.
            first: `[P]`, number of the first knot that each pair meets, counted from that of the first grid.
            grid_times: `[N]`, of the grids, in frames.
            spacing: knots from one grid to the next.
        """
        height, width = motions.size
        self.before = first // spacing  # [P], number of the grid before each pair
        self.after = np.minimum(self.before + 1, len(grid_times) - 1)
        later = (first % spacing / spacing)[:, None]  # [P, 1]
        carried = _dominant_places(motions, grid_times)  # [N, 2]
        now = _dominant_places(motions, np.arange(motions.pairs) + 0.5)[:, None]
        middle = motions.place + 0.5 * motions.shift
        index, share = [], []
        for side, grid, part in ((0, self.before, 1.0 - later), (1, self.after, later)):
            place = middle + carried[grid][:, None] - now
            for corner, weight in _corners((place + 0.5) / [width, height] * [GRID[1], GRID[0]] - 0.5):
                index.append(side * PLACES + corner)
                share.append(part * weight)
        places, self.share = np.stack(index, axis=-1), np.stack(share, axis=-1)  # [P, C, 8]
        self.matrix = np.zeros((*motions.weight.shape, 2 * PLACES))  # [P, C, 2 G], the same, written out
        pairs, cells = np.mgrid[0 : motions.pairs, 0 : motions.weight.shape[1]]
        for number in range(places.shape[-1]):
            self.matrix[pairs, cells, places[..., number]] += self.share[..., number]
        self._index = places + 2 * PLACES * pairs[..., None]  # [P, C, 8], in the two grids of every pair, [P, 2 G]
        # Of two places that a cell looks up, each two once; those with themselves are counted twice below.
        one, other = np.triu_indices(places.shape[-1])
        self._products = places[..., one] * (2 * PLACES) + places[..., other]  # [P, C, 36]
        self._product_shares = self.share[..., one] * self.share[..., other] * np.where(one == other, 0.5, 1.0)
        down = (np.arange(GRID[0]) + 0.5) / GRID[0] - 0.5
        self.expected = np.repeat(1.0 + 2.0 * GROUND * down, GRID[1])  # [G]
        self.stiffness = self._stiffness(carried, (height, width))  # [N, 2 G, 2 G], over each grid and the next

    def at_cells(self, nearness: Array) -> Array:
        """Nearness of every cell, `[P, C]`, from grids `[N, G]`."""
        both = np.concatenate([nearness[self.before], nearness[self.after]], axis=1)
        seen: Array = np.einsum("pcn,pcn->pc", self.share, both.reshape(-1).take(self._index))
        return seen

    def on_grids(self, values: Array) -> Array:
        """Sums of what cells `[P, C]` have, each by its share, in the grids before and after each pair: `[P, 2, G]`."""
        shared = (self.share * values[..., None]).reshape(-1)
        summed = np.bincount(self._index.reshape(-1), shared, 2 * PLACES * len(values))
        return summed.reshape(-1, 2, PLACES).astype(np.float64)

    def gathered(self, pairs: slice, weight: Array) -> Array:
        """Normal equations `[2 G, 2 G]` of the nearness of every cell of pairs between the same two grids.

        Args:
            pairs: which ones.
            weight: `[p, C]`, how much each cell counts.
        """
        values = self._product_shares[pairs] * weight[..., None]
        summed = np.bincount(self._products[pairs].reshape(-1), values.reshape(-1), (2 * PLACES) ** 2)
        half = summed.reshape(2 * PLACES, 2 * PLACES).astype(np.float64)
        return half + half.T

    def departure(self, nearness: Array) -> Array:
        """Every grid `[N, G]` less what is expected, with that of the next beside it: `[N, 2 G]`."""
        own = nearness - self.expected
        return np.concatenate([own, np.vstack([own[1:], np.zeros_like(own[:1])])], axis=1)

    def _stiffness(self, carried: Array, size: tuple[int, int]) -> Array:
        height, width = size
        rows, columns = np.mgrid[0 : GRID[0], 0 : GRID[1]]
        number = rows * GRID[1] + columns
        beside = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
        one, other = (np.concatenate([pair[side].ravel() for pair in beside]) for side in (0, 1))
        steps = np.zeros((len(one), PLACES))
        steps[np.arange(len(one)), one], steps[np.arange(len(one)), other] = 1.0, -1.0
        stiffness = np.zeros((len(carried), 2 * PLACES, 2 * PLACES))
        stiffness[:, :PLACES, :PLACES] = steps.T @ steps / NEIGHBOURS**2 + np.eye(PLACES) / SPREAD**2
        for grid, (dx, dy) in enumerate(np.diff(carried, axis=0)):
            moved = np.stack([columns + dx / width * GRID[1], rows + dy / height * GRID[0]], axis=-1)
            change = np.hstack([np.eye(PLACES), np.zeros((PLACES, PLACES))])
            for corner, weight in _corners(moved):
                change[number.ravel(), PLACES + corner.ravel()] -= weight.ravel()
            stiffness[grid] += change.T @ change / CHANGE**2
        return stiffness


def _dominant_places(motions: ClipMotions, times: npt.NDArray[np.floating]) -> Array:
    """Where the dominant motion has carried the picture by given times: `[N, 2]` in pixels."""
    textured = motions.weight > 0.05
    medians = [
        np.median(shift[seen], axis=0) if seen.any() else np.zeros(2)
        for shift, seen in zip(motions.shift, textured, strict=True)
    ]
    path = np.concatenate([np.zeros((1, 2)), np.cumsum(medians, axis=0)])
    return np.stack([np.interp(times, np.arange(len(path)), path[:, part]) for part in (0, 1)], axis=-1)


def _corners(place: Array) -> Iterator[tuple[Index, Array]]:
    """The four places of the grid around points `[..., 2]` (x, y in its steps), and their shares, each `[...]`."""
    x, y = (np.clip(place[..., part], 0.0, GRID[1 - part] - 1.0 - 1e-6) for part in (0, 1))
    column, row = x.astype(np.int64), y.astype(np.int64)
    right, down = x - column, y - row
    for below in (0, 1):
        for beside in (0, 1):
            share = (down if below else 1.0 - down) * (right if beside else 1.0 - right)
            yield (row + below) * GRID[1] + column + beside, share
