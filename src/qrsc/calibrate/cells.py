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


def cell_motions(first: Grey, second: Grey, flow: Flow) -> CellMotions:
    """The motion of each cell of a pair.

    Against exact flows, on rendered pictures with noise and compression, cells are off by 0.09 to 0.11 px in the median
    from a fast search (and from a finer one as well), where averages of a fine search were off by 0.10 to 0.14 px.

    Args:
        first, second: pictures `[h, w]`.
        flow: `[h, w, 2]`, about how the second is reached from the first.
    """
    import cv2

    height, width = first.shape
    grid = _grid(height, width)
    pictures = [cv2.GaussianBlur(picture.astype(np.float32), (0, 0), BLUR) for picture in (first, second)]
    slopes = [
        [cv2.Sobel(picture, cv2.CV_32F, *order, scale=1 / 8) for order in ((1, 0), (0, 1))] for picture in pictures
    ]
    grey, slope_x, slope_y = (_cells(np.asarray(part, dtype=np.float32)) for part in (pictures[0], *slopes[0]))
    motion, agreeing = _begin(grid, flow, _texture(slope_x, slope_y))
    for _ in range(STEPS):
        shift = motion.astype(np.float32) @ grid.shapes  # [C, 2, n]
        x, y = grid.x + shift[:, 0], grid.y + shift[:, 1]
        brought, to_x, to_y = (
            cv2.remap(part, x, y, kind, borderMode=cv2.BORDER_REPLICATE)
            for part, kind in ((pictures[1], cv2.INTER_CUBIC), *((slope, cv2.INTER_LINEAR) for slope in slopes[1]))
        )
        along_x, along_y = 0.5 * (slope_x + to_x), 0.5 * (slope_y + to_y)
        inside = (x > RIM) & (x < width - 1 - RIM) & (y > RIM) & (y < height - 1 - RIM)
        unlike = grey - brought
        # Brightness that has changed as a whole is left out; pixels that differ by more than most count less.
        left = unlike - np.median(unlike, axis=1, keepdims=True)
        typical = 1.5 * np.median(np.abs(left), axis=1, keepdims=True) + 0.5
        weight = agreeing * inside / (1.0 + (left / (2.0 * typical)) ** 2) ** 2
        motion = motion + _step(grid.shapes, along_x, along_y, weight, left)
    energy = weight * (along_x**2 + along_y**2) + 1e-6
    shapes = ((energy @ grid.shapes.T) / energy.sum(1, keepdims=True)).astype(np.float64)  # [C, 3]
    change = float(np.mean(cv2.absdiff(first, second)))
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
    off = found - np.median(found, axis=2, keepdims=True)
    spread = 0.5 + 1.5 * np.median(np.abs(off).sum(1), axis=1, keepdims=True)
    agreeing = 1.0 / (1.0 + (off**2).sum(1) / spread**2) ** 2
    weighted = grid.shapes * ((texture + np.float32(1e-3)) * agreeing)[:, None]  # [C, 3, n]
    normal = (weighted @ grid.shapes.T).astype(np.float64) + 1e-3 * np.eye(3)
    motion = np.linalg.solve(normal, (weighted @ found.transpose(0, 2, 1)).astype(np.float64))
    return motion.transpose(0, 2, 1), agreeing


def _step(shapes: Flow, along_x: Flow, along_y: Flow, weight: Flow, left: Flow) -> Array:
    """What the motion `[C, 2, 3]` of each cell changes by to explain most of what is left."""
    sides = np.concatenate([along_x[:, None] * shapes, along_y[:, None] * shapes], axis=1)  # [C, 6, n]
    weighted = sides * weight[:, None]
    damping = np.diag(np.tile(DAMPING, 2)) * left.shape[1]
    normal = (weighted @ sides.transpose(0, 2, 1)).astype(np.float64) + damping
    step = np.linalg.solve(normal, (weighted @ left[..., None]).astype(np.float64))[..., 0]
    limited: Array = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
    return limited.reshape(-1, 2, 3)


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
