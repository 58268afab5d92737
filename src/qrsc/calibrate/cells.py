"""The motion of each cell of a pair of pictures: an even motion per cell, set right by what the pictures differ in.

Convention
    A cell is a rectangle of the first picture. Its motion is `shift + slopes (u, v)`, in pixels, with u and v from
    -1 to 1 across the cell; what is reported is that motion where the texture of the cell lies. A search that keeps
    flows smooth takes away some of the shear that the readout is read off; here, it only says where to begin.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

Grey = npt.NDArray[np.uint8]
Flow = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

GRID = (12, 16)  # rows and columns of cells
# Standard deviation, in pixels, of the blur that takes noise out of the slopes of the brightness. Afterwards, every
# second pixel each way tells as much as all of them.
BLUR = 1.0
STRIDE = 2
STEPS = 2
# Slope of the brightness, in grey levels per pixel, over which a place has texture to speak of.
TEXTURE = 4.0
# What a motion changes by at most in one step, in pixels, and squared slopes of the brightness, in grey levels per
# pixel, that are too small to change a shift or its slopes by.
LONGEST_STEP = 0.7
DAMPING = (0.05, 0.0025, 0.0025)
# What ends so close to the border, in pixels, was matched with something that is partly outside.
RIM = 3
# Pictures that the motions explain so badly, in grey levels on average, and by less than this part of their difference,
# do not show the same scene.
CUT_LEVELS = 12.0
CUT_PART = 0.7


class Picture(NamedTuple):
    """A frame, and what the cells of its two pairs compare: `[h, w]` each."""

    grey: Grey
    smooth: Flow
    slope_x: Flow
    slope_y: Flow


class CellMotions(NamedTuple):
    """Motions of the cells of one pair: places and shifts `[C, 2]`, weights `[C]`."""

    place: Array
    shift: Array
    weight: Array


class _Grid(NamedTuple):
    """Pixels of the cells that are looked at, `[C, n]` each, and what an even motion is made of there."""

    x: Flow
    y: Flow
    shapes: Flow  # [3, n]: 1, u, v, the same in all cells
    middle: Array  # [C, 2]
    half: Array  # [2], half of a cell in pixels


def picture_of(grey: Grey) -> Picture:
    """A frame `[h, w]`, made smooth, and how its brightness changes along x and y."""
    import cv2

    smooth = np.asarray(cv2.GaussianBlur(grey.astype(np.float32), (0, 0), BLUR), dtype=np.float32)
    slope_x, slope_y = (
        np.asarray(cv2.Sobel(smooth, cv2.CV_32F, *order, scale=1 / 8), dtype=np.float32) for order in ((1, 0), (0, 1))
    )
    return Picture(grey, smooth, slope_x, slope_y)


def cell_motions(first: Picture, second: Picture, flow: Flow) -> CellMotions:
    """The motion of each cell of a pair.

    Against exact flows, on rendered pictures with noise and compression, cells are off by 0.09 to 0.11 px in the median
    from a fast search (and from a finer one as well), where averages of a fine search were off by 0.10 to 0.14 px.

    Args:
        first, second: pictures of one size.
        flow: `[h, w, 2]`, about how the second is reached from the first.
    """
    import cv2

    height, width = first.grey.shape
    grid = _grid(height, width)
    smooth, slope_x, slope_y = (_cells(part) for part in (first.smooth, first.slope_x, first.slope_y))
    motion, agreeing = _begin(grid, flow, _texture(slope_x, slope_y))
    for _ in range(STEPS):
        shift = motion.astype(np.float32) @ grid.shapes  # [C, 2, n]
        x, y = grid.x + shift[:, 0], grid.y + shift[:, 1]
        brought, to_x, to_y = (
            cv2.remap(part, x, y, kind, borderMode=cv2.BORDER_REPLICATE)
            for part, kind in (
                (second.smooth, cv2.INTER_CUBIC),
                (second.slope_x, cv2.INTER_LINEAR),
                (second.slope_y, cv2.INTER_LINEAR),
            )
        )
        along_x, along_y = 0.5 * (slope_x + to_x), 0.5 * (slope_y + to_y)
        inside = (x > RIM) & (x < width - 1 - RIM) & (y > RIM) & (y < height - 1 - RIM)
        unlike = smooth - brought
        # Brightness that has changed as a whole is left out; pixels that differ by more than most count less.
        left = unlike - _median(unlike)
        typical = 1.5 * _median(np.abs(left)) + 0.5
        weight = agreeing * inside / (1.0 + (left / (2.0 * typical)) ** 2) ** 2
        motion = motion + _step(grid.shapes, along_x, along_y, weight, left)
    energy = weight * (along_x**2 + along_y**2) + 1e-6
    shapes = _sums(grid.shapes, energy) / energy.sum(1, keepdims=True)  # [C, 3]
    change = float(np.mean(cv2.absdiff(first.grey, second.grey)))
    same = float(np.mean(np.abs(unlike))) < max(CUT_LEVELS, CUT_PART * change)
    return CellMotions(
        grid.middle + shapes[:, 1:] * grid.half,
        (motion @ shapes[..., None])[..., 0],
        (_texture(along_x, along_y) * inside).mean(axis=1).astype(np.float64) * same,
    )


def _texture(slope_x: Flow, slope_y: Flow) -> Flow:
    strength = slope_x**2 + slope_y**2
    return strength / (strength + np.float32(TEXTURE**2))


def _begin(grid: _Grid, flow: Flow, texture: Flow) -> tuple[Array, Flow]:
    """Even motions `[C, 2, 3]` through the flow of each cell, and how far its pixels agree with most, `[C, n]`."""
    found = np.stack([_cells(flow[..., 0]), _cells(flow[..., 1])], axis=1)  # [C, 2, n]
    off = found - _median(found)
    spread = 0.5 + 1.5 * _median(np.abs(off).sum(1))
    agreeing = 1.0 / (1.0 + (off**2).sum(1) / spread**2) ** 2
    weight = (texture + np.float32(1e-3)) * agreeing
    normal = _squares(grid.shapes, weight) + 1e-3 * np.eye(3)
    motion = np.linalg.solve(normal, _sums(grid.shapes, weight[:, None] * found).transpose(0, 2, 1))
    return motion.transpose(0, 2, 1).astype(np.float64), agreeing


def _step(shapes: Flow, along_x: Flow, along_y: Flow, weight: Flow, left: Flow) -> Array:
    """What the motion `[C, 2, 3]` of each cell changes by to explain most of what is left."""
    pull_x, pull_y = weight * along_x, weight * along_y
    normal = np.empty((len(left), 2, 3, 2, 3))
    normal[:, 0, :, 0] = _squares(shapes, pull_x * along_x)
    normal[:, 1, :, 1] = _squares(shapes, pull_y * along_y)
    normal[:, 0, :, 1] = normal[:, 1, :, 0] = _squares(shapes, pull_x * along_y)
    damping = np.diag(np.tile(DAMPING, 2)) * left.shape[1]
    right = np.concatenate([_sums(shapes, pull_x * left), _sums(shapes, pull_y * left)], axis=1)[..., None]
    step = np.linalg.solve(normal.reshape(-1, 6, 6) + damping, right)[..., 0]
    limited: Array = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    return limited.reshape(-1, 2, 3)


def _sums(shapes: Flow, values: Flow) -> Array:
    """Sums over each cell of values `[..., n]` times each shape: `[..., 3]`."""
    sums = torch.from_numpy(values).reshape(-1, values.shape[-1]) @ torch.from_numpy(shapes).T
    return sums.double().numpy().reshape(*values.shape[:-1], -1)


def _squares(shapes: Flow, values: Flow) -> Array:
    """Sums over each cell of values `[C, n]` times each two shapes: `[C, 3, 3]`."""
    products = (shapes[:, None] * shapes[None]).reshape(9, -1)
    return _sums(products, values).reshape(-1, 3, 3)


def _median(values: Flow) -> Flow:
    """Median of the last axis, which stays, of length 1; of an even number, the higher of the middle two."""
    middle = values.shape[-1] // 2
    return np.partition(values, middle, axis=-1)[..., middle : middle + 1]


@lru_cache(maxsize=4)
def _grid(height: int, width: int) -> _Grid:
    x, y = (_cells(part) for part in np.meshgrid(*(np.arange(side, dtype=np.float32) for side in (width, height))))
    middle = np.stack([part.mean(axis=1, dtype=np.float64) for part in (x, y)], axis=-1)
    sides = zip((width, height), GRID[::-1], strict=True)
    half = 0.5 * np.array([side // (count * STRIDE) * STRIDE for side, count in sides])
    u, v = ((part[0] - middle[0, axis]) / half[axis] for axis, part in enumerate((x, y)))
    return _Grid(x, y, np.stack([np.ones_like(u), u, v]).astype(np.float32), middle, half)


def _cells(values: Flow) -> Flow:
    """Values `[h, w]` by cells: `[C, n]`, a margin of less than a cell left out."""
    rows, columns = GRID
    height, width = (side // (count * STRIDE) * STRIDE for side, count in zip(values.shape, GRID, strict=True))
    top, left = (values.shape[0] - height * rows) // 2, (values.shape[1] - width * columns) // 2
    inner = values[top : top + height * rows : STRIDE, left : left + width * columns : STRIDE]
    parts = inner.reshape(rows, height // STRIDE, columns, width // STRIDE).transpose(0, 2, 1, 3)
    return parts.reshape(rows * columns, -1)
