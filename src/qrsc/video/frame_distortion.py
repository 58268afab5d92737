"""How much the picture bends from one frame to the next: a measure of rolling shutter that knows of no readout.

Points are followed from frame to frame, and a field of motion, quadratic in the position, is fitted to them. A camera
that turns, rolls, zooms or moves past a distant scene makes six of its twelve terms: two shifts, a roll, a scale and
two of perspective. The other six bend the picture: they shear it, stretch it along one axis, or make straight lines
curved. A rolling shutter does that while the motion of the camera changes, whichever way it is read. So do near objects
that pass, before a correction and after it alike.

Points lie between those that the camera path was fitted to, in blocks of a checkerboard. The two colours are fitted
apart: errors of one have nothing to do with those of the other, so that products of the two have no bias from noise.

Convention
    Positions and motions are (x, y) in pixels of the full frame; inside, positions count from the centre of the frame
    in halves of its longer side. Correction fields are RS -> GS, on the grid of the input frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from qrsc.image.colour import luma
from qrsc.image.resize import resized_picture
from qrsc.motion.path_fit import COLUMNS
from qrsc.timing import Readout

Grey = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float64]

LONGEST = 640  # pixels of the longer side at which points are followed
WINDOW, LEVELS = 15, 4  # of the pyramidal Lucas-Kanade tracker: side in pixels, and reductions by half
RETURNED = 0.5  # pixels by which a point that is followed there and back may miss
TEXTURE = 1e-4  # smallest eigenvalue of a corner's structure, relative to full contrast
FEWEST = 30  # points of one colour for a fit of twelve terms
ROUNDS = 4  # of iteratively reweighted least squares
OUTLIERS = 3.0  # medians of the residual from which on points lose their weight
TERMS = 6  # that bend the picture


class Bending(NamedTuple):
    """The terms that bend the picture from one frame to the next, by each of the two colours of blocks.

    They are scaled so that the sum of their squares is the mean squared displacement of the frame's pixels.

    Attributes:
        before, after: the correction, `[2, 6]`.
        shift: `[2]`, of the whole picture before it.
    """

    before: Array
    after: Array
    shift: Array


@dataclass(frozen=True)
class SeenFrame:
    """A frame of a clip, reduced, with the way that its pixels are corrected.

    Attributes:
        grey: `[h, w]`.
        size: `(H, W)` of the full frame.
        field: `[2, rows, columns]`, in pixels of the full frame; None leaves it as it is.
    """

    grey: Grey
    size: tuple[int, int]
    field: npt.NDArray[np.float32] | None


def seen_frame(frame: Tensor, field: Tensor | None) -> SeenFrame:
    """A frame `[3, H, W]` with its correction field `[2, h, w]`."""
    size = (frame.shape[-2], frame.shape[-1])
    shrink = min(1.0, LONGEST / max(size))
    reduced = (max(1, round(size[0] * shrink)), max(1, round(size[1] * shrink)))
    small = luma(resized_picture(frame[None], reduced))[0, 0]
    grey = (small.float().cpu() * 255.0).round().clamp(0.0, 255.0).byte().numpy()
    return SeenFrame(grey, size, None if field is None else field.detach().float().cpu().numpy())


def bending(first: SeenFrame, second: SeenFrame) -> Bending | None:
    """How the motion from one frame to the next bends the picture; None if too few points can be followed."""
    found = _followed(first.grey, second.grey)
    if found is None:
        return None
    start, end, colour = found
    scale = np.array([first.size[1] / first.grey.shape[1], first.size[0] / first.grey.shape[0]])
    # Scaling keeps the corners of the frame in place, not the centres of its pixels.
    start, end = ((points + 0.5) * scale - 0.5 for points in (start, end))
    moved = end - start
    corrected = moved + _corrections(second, end) - _corrections(first, start)
    middle = np.array([first.size[1] - 1, first.size[0] - 1]) / 2.0
    place = (0.5 * (start + end) - middle) / (max(first.size) / 2.0)
    both = np.stack([moved, corrected], -1)  # [N, 2, 2]
    parts = np.stack([_fitted(place[colour == each], both[colour == each]) for each in (0, 1)])  # [2, 12, 2]
    bent = _in_pixels(*first.size) @ parts[:, -TERMS:]  # [2, 6, 2]
    return Bending(bent[..., 0], bent[..., 1], parts[:, :2, 0].mean(0))


def readout_bending(acceleration: Array, readout: Readout, size: tuple[int, int]) -> Array:
    """What a readout makes of a motion that accelerates evenly by `[N, 2]` pixels per squared frame interval: `[N, 6]`.

    Rows that are read later move faster by what the motion has gained until then.
    """
    height, width = size
    slope = readout.time_per_pixel(height, width) * max(size) / 2.0  # from one half of the longer side to the next
    across, down = slope * acceleration.T
    terms = np.zeros((len(acceleration), TERMS))
    # Half of a motion that grows along one axis is a roll or a scale, which a camera could make.
    terms[:, :2] = 0.5 * (np.stack([down, -across], 1) if readout.sideways else np.stack([across, down], 1))
    return terms @ _in_pixels(height, width).T


def _followed(first: Grey, second: Grey) -> tuple[Array, Array, npt.NDArray[np.int64]] | None:
    """Points `[N, 2]` of the first picture, where they are in the second, and the colour of the block of each."""
    import cv2

    blocks, colour = _blocks(*first.shape)
    if len(blocks) < 2 * FEWEST:
        return None
    corners = cv2.cornerMinEigenVal(first, 5)
    points, kept = [], []
    for (top, left, side), each in zip(blocks, colour, strict=True):
        block = corners[top : top + side, left : left + side]
        place = int(block.argmax())
        if block.flat[place] > TEXTURE:
            points.append((left + place % block.shape[1], top + place // block.shape[1]))
            kept.append(each)
    if len(points) < 2 * FEWEST:
        return None
    start = np.array(points, dtype=np.float32)[:, None]
    end, there = _tracked(first, second, start)
    back, again = _tracked(second, first, end)
    height, width = second.shape
    inside = (end[:, 0] >= 0).all(1) & (end[:, 0, 0] < width) & (end[:, 0, 1] < height)
    good = (there[:, 0] > 0) & (again[:, 0] > 0) & (np.hypot(*(back - start)[:, 0].T) < RETURNED) & inside
    colours = np.array(kept)[good]
    if min((colours == 0).sum(), (colours == 1).sum()) < FEWEST:
        return None
    return start[good, 0].astype(np.float64), end[good, 0].astype(np.float64), colours


def _tracked(first: Grey, second: Grey, points: npt.NDArray[np.float32]) -> tuple[Any, Any]:
    """Where points `[N, 1, 2]` are in the second picture, and whether they were found, `[N, 1]`."""
    import cv2

    track: Any = cv2.calcOpticalFlowPyrLK  # its annotations want a place for the result
    end, found, _ = track(first, second, points, None, winSize=(WINDOW, WINDOW), maxLevel=LEVELS)
    return end, found


@lru_cache(maxsize=4)
def _blocks(height: int, width: int) -> tuple[list[tuple[int, int, int]], list[int]]:
    """Squares (top, left, side) half way between the samples of the camera path, and their colours, 0 or 1."""
    apart = max(4, width // COLUMNS)
    side = apart // 2
    found, colour = [], []
    for row, middle in enumerate(range(apart, height - side, apart)):
        for column, centre in enumerate(range(apart, width - side, apart)):
            found.append((middle - side // 2, centre - side // 2, side))
            colour.append((row + column) % 2)
    return found, colour


def _corrections(frame: SeenFrame, points: Array) -> Array:
    """The correction `[N, 2]` of a frame at points `[N, 2]`."""
    import cv2

    if frame.field is None:
        return np.zeros_like(points)
    _, rows, columns = frame.field.shape
    x = ((points[:, 0] + 0.5) * columns / frame.size[1] - 0.5).astype(np.float32)[None]
    y = ((points[:, 1] + 0.5) * rows / frame.size[0] - 0.5).astype(np.float32)[None]
    sampled = [
        cv2.remap(np.ascontiguousarray(plane), x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)[0]
        for plane in frame.field
    ]
    return np.stack(sampled, 1).astype(np.float64)


def _fitted(place: Array, motions: Array) -> Array:
    """The twelve terms `[12, 2]` of motions `[N, 2, 2]`, before and after with the same weights: so they compare."""
    basis = _basis(place)  # [N, 2, 12]
    weight = np.ones(len(place))
    for round_ in range(ROUNDS):
        root = np.sqrt(weight)[:, None, None]
        solution = np.linalg.lstsq((root * basis).reshape(-1, 12), (root * motions).reshape(-1, 2), rcond=None)[0]
        if round_ < ROUNDS - 1:
            # A point that is off before or after is off.
            miss = np.linalg.norm(motions - basis @ solution, axis=1).max(1)  # [N]
            weight = 1.0 / (1.0 + (miss / (OUTLIERS * np.median(miss) + 1e-3)) ** 2) ** 2
    return np.asarray(solution, dtype=np.float64)


def _basis(place: Array) -> Array:
    """Motions `[N, 2, 12]` at places `[N, 2]`: first the six that a camera makes, then the six that bend."""
    x, y = place.T
    one, zero = np.ones_like(x), np.zeros_like(x)
    across = [one, zero, -y, x, x * x, x * y, y, -x, y * y, zero, x * x, zero]
    down = [zero, one, x, y, x * y, y * y, x, y, zero, x * x, zero, y * y]
    return np.stack([np.stack(across, -1), np.stack(down, -1)], 1)


@lru_cache(maxsize=4)
def _in_pixels(height: int, width: int) -> Array:
    """`[6, 6]`, takes the bending terms to ones whose squares add up to a mean squared displacement in pixels.

    What the six terms of a camera could make of them is left out: the displacement is what remains when a camera has
    followed the picture as well as it can.
    """
    half = max(height, width) / 2.0
    x, y = np.meshgrid(*((np.arange(24) - 11.5) / 12.0 * side / (2.0 * half) for side in (width, height)))
    basis = _basis(np.stack([x.ravel(), y.ravel()], -1)).reshape(-1, 12)
    camera, bends = basis[:, :-TERMS], basis[:, -TERMS:]
    rest = bends - camera @ np.linalg.lstsq(camera, bends, rcond=None)[0]
    return np.asarray(np.linalg.qr(rest / np.sqrt(len(rest) / 2.0), mode="r"))  # |R c| = |rest c|
