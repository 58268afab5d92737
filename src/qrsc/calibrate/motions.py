"""What moved between the frames of a clip, cell by cell: all that the estimate of the readout looks at.

Convention
    A frame is divided into a grid of cells. Each gives one motion from its frame to the next: the mean flow of its
    texture, at the mean place of that texture. Places are in pixels of the frame, centres at whole coordinates; shifts
    are (dx, dy) in pixels per frame; pair `k` is that of the frames `k` and `k + 1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from qrsc.flow.dis import landing, search

Grey = npt.NDArray[np.uint8]
Flow = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

GRID = (12, 16)  # rows and columns of cells
# Every second pixel of the flow each way: the search itself settles it on patches of 8 x 8.
STRIDE = 2
# Slope of the brightness, in grey levels per pixel, over which a place has texture to speak of.
TEXTURE = 4.0
# What a cell's motion is set right by at most, in pixels, and squared slopes, in grey levels per pixel, that are too
# small to do it by.
LARGEST_CORRECTION = 0.5
DAMPING = 1.0
# A shift beyond this part of the width starts the search of the next pair.
LONG = 0.04
# Flow that ends so close to the border, in pixels, was matched with a patch that is partly outside.
RIM = 3
# Frames that the flow explains so badly, in grey levels on average, and by less than this part of their difference,
# do not show the same scene.
CUT_LEVELS = 12.0
CUT_PART = 0.7
THREADS = 2  # pairs that are worked on at a time


class CellMotions(NamedTuple):
    """Motions of the cells of one pair: places and shifts `[C, 2]`, weights `[C]`."""

    place: Array
    shift: Array
    weight: Array


@dataclass(frozen=True)
class ClipMotions:
    """The motions of the cells of a clip.

    Attributes:
        place: `[P, C, 2]`, (x, y) in pixels, of each of C cells (row by row) in the first frame of each of P pairs.
        shift: `[P, C, 2]`, (dx, dy) in pixels to the second frame.
        weight: `[P, C]`, 0 to 1: how much texture the cell has that stays inside the frame; 0 at a cut.
        size: `(height, width)` of the frames.
        grid: rows and columns of cells.
    """

    place: Array
    shift: Array
    weight: Array
    size: tuple[int, int]
    grid: tuple[int, int] = GRID

    @property
    def pairs(self) -> int:
        """How many pairs of frames there are."""
        return len(self.shift)

    def dominant(self) -> Array:
        """The median motion of each pair that has texture enough: `[N, 2]`, N at most P."""
        textured = self.weight > 0.05
        kept = textured.mean(1) > 0.1
        seen = np.where(textured[..., None], self.shift, np.nan)[kept]
        medians: Array = np.nanmedian(seen, axis=1) if kept.any() else np.zeros((0, 2))
        return medians

    def liveliest(self, pairs: int) -> ClipMotions:
        """So many consecutive pairs, those over which the motion changes most."""
        if self.pairs <= pairs:
            return self
        middle = np.median(self.shift, axis=1)
        changes = np.concatenate([[0.0], np.cumsum(np.minimum(np.hypot(*np.diff(middle, axis=0).T), 20.0))])
        start = int((changes[pairs - 1 :] - changes[: len(changes) - pairs + 1]).argmax())
        part = slice(start, start + pairs)
        return ClipMotions(self.place[part], self.shift[part], self.weight[part], self.size, self.grid)

    def transposed(self) -> ClipMotions:
        """The motions of the clip with the rows and the columns of its pictures exchanged."""
        rows, columns = self.grid

        def exchanged(values: Array) -> Array:
            cells = values.reshape(self.pairs, rows, columns, -1).transpose(0, 2, 1, 3)
            return cells.reshape(self.pairs, rows * columns, -1)

        return ClipMotions(
            exchanged(self.place)[..., ::-1],
            exchanged(self.shift)[..., ::-1],
            exchanged(self.weight)[..., 0],
            (self.size[1], self.size[0]),
            (columns, rows),
        )

    def mirrored(self) -> ClipMotions:
        """The motions of the clip turned upside down."""
        rows, columns = self.grid

        def turned(values: Array) -> Array:
            cells = values.reshape(self.pairs, rows, columns, -1)[:, ::-1]
            return cells.reshape(self.pairs, rows * columns, -1)

        place = turned(self.place) * [1.0, -1.0] + [0.0, self.size[0] - 1.0]
        return ClipMotions(
            place, turned(self.shift) * [1.0, -1.0], turned(self.weight)[..., 0], self.size, self.grid,
        )  # fmt: skip


class MotionReader:
    """Takes the frames of a clip one by one and gathers what moved; pairs are worked on by a few threads at a time."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`(height, width)` of the clip, which places and shifts are counted in; frames may come smaller."""
        self._size = size
        self._threads = ThreadPoolExecutor(THREADS)
        self._pairs: list[Future[CellMotions]] = []
        self._previous: Grey | None = None
        self._shift: Future[Flow] | None = None

    @property
    def pairs(self) -> int:
        """How many pairs of frames have come."""
        return len(self._pairs)

    def take(self, frame: Grey) -> None:
        """Take the next frame, a grey picture `[h, w]`."""
        frame = np.ascontiguousarray(frame)
        if self._previous is not None:
            if frame.shape != self._previous.shape:
                raise ValueError(
                    f"all frames of a clip must have one size, got {frame.shape} after {self._previous.shape}."
                )
            before, self._shift = self._shift, Future()
            work = self._threads.submit(_pair_motions, self._previous, frame, before, self._shift)
            self._pairs.append(work)
            # Reading must not run ahead of the search, or a long clip would lie in memory as a whole.
            if len(self._pairs) > 2 * THREADS:
                self._pairs[-2 * THREADS].result()
        self._previous = frame

    def motions(self) -> ClipMotions:
        """What has moved so far."""
        if self._previous is None or not self._pairs:
            raise ValueError("a clip needs at least two frames for anything to move between them.")
        height, width = self._previous.shape
        pairs = [work.result() for work in self._pairs]
        scale = np.array([self._size[1] / width, self._size[0] / height])
        # Of a scaled picture the frame's corners stay, and with them the centres of the pixels move.
        place = (np.stack([pair.place for pair in pairs]) + 0.5) * scale - 0.5
        shift = np.stack([pair.shift for pair in pairs]) * scale
        return ClipMotions(place, shift, np.stack([pair.weight for pair in pairs]), self._size)


def _pair_motions(first: Grey, second: Grey, before: Future[Flow] | None, shift: Future[Flow]) -> CellMotions:
    """Motions of a pair; its median flow becomes the result of `shift`, for which the next pair may be waiting."""
    try:
        flow, median = pair_flow(first, second, before)
    except BaseException as error:
        shift.set_exception(error)
        raise
    shift.set_result(median)
    return cell_motions(first, second, flow)


def clip_motions(frames: Iterable[Grey], size: tuple[int, int]) -> ClipMotions:
    """The motions of a clip from its frames.

    Args:
        frames: grey pictures `[h, w]`, all of one size, perhaps smaller than the clip's; at least two.
        size: `(height, width)` of the clip.
    """
    reader = MotionReader(size)
    for frame in frames:
        reader.take(frame)
    return reader.motions()


def pair_flow(first: Grey, second: Grey, before: Future[Flow] | None = None) -> tuple[Flow, Flow]:
    """Flow `[h, w, 2]` between two pictures, and its median `[2]`, from which the next search may start.

    Args:
        first, second: `[h, w]`.
        before: median flow of the pair before, perhaps still to come. Where it is long, a search from it is tried as
            well, and the one that explains the second picture better is kept.
    """
    flow = search("medium", first, second)
    if before is not None and np.hypot(*before.result()) > LONG * first.shape[1]:
        started = search("medium", first, second, np.broadcast_to(before.result(), flow.shape))
        if unexplained(first, second, started) < unexplained(first, second, flow):
            flow = started
    return flow, np.median(flow[::8, ::8].reshape(-1, 2), axis=0).astype(np.float32)


def followed(picture: Grey, flow: Flow) -> npt.NDArray[np.float32]:
    """A picture brought back along a flow that leads to it: `[h, w]`."""
    import cv2

    brought = cv2.remap(picture.astype(np.float32), *landing(flow), cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(brought, dtype=np.float32)


def unexplained(first: Grey, second: Grey, flow: Flow) -> float:
    """Mean absolute difference of two pictures, in grey levels, after following a flow."""
    return float(np.mean(np.abs(followed(second, flow) - first)))


def cell_motions(first: Grey, second: Grey, flow: Flow) -> CellMotions:
    """The motion of each cell of a pair: the mean over its texture, less what departs from the median of the cell.

    Places and flows are averaged with the same weights, so that a flow that changes evenly over the cell is right at
    the place given, wherever in the cell the texture lies. The mean is then set right by what the pictures still
    differ in: a search that keeps flows smooth takes away some of the shear that the readout is read off. (A plane
    filmed at gamma 0.7 with a known motion is read as 0.679 without, 0.695 with it, 0.699 from its exact flows.)
    """
    import cv2

    height, width = first.shape
    x, y = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    at_x, at_y, dx, dy = (_cells(values) for values in (x, y, flow[..., 0], flow[..., 1]))  # [C, n] each
    brought = followed(second, flow)
    both = 0.5 * (brought + first)
    slope_x, slope_y = (
        _cells(np.asarray(cv2.Sobel(both, cv2.CV_32F, *order, scale=1 / 8), dtype=np.float32))
        for order in ((1, 0), (0, 1))
    )
    left = _cells(first - brought)
    stays = (at_x + dx > RIM) & (at_x + dx < width - 1 - RIM) & (at_y + dy > RIM) & (at_y + dy < height - 1 - RIM)
    strength = slope_x**2 + slope_y**2
    texture = strength / (strength + TEXTURE**2) * stays
    off_x, off_y = (values - np.median(values, axis=1, keepdims=True) for values in (dx, dy))
    spread = 0.5 + 1.5 * np.median(np.abs(off_x) + np.abs(off_y), axis=1, keepdims=True)
    share = (texture + 1e-6) / (1.0 + (off_x**2 + off_y**2) / spread**2) ** 2
    share = share / share.sum(axis=1, keepdims=True)
    place, shift = (
        np.stack([(share * part).sum(axis=1) for part in parts], axis=1).astype(np.float64)
        for parts in ((at_x, at_y), (dx, dy))
    )
    shift += _correction(share, slope_x, slope_y, left)
    unlike = float(np.mean(np.abs(left)))
    same = unlike < CUT_LEVELS or unlike < CUT_PART * float(np.mean(cv2.absdiff(first, second)))
    return CellMotions(place, shift, texture.mean(axis=1).astype(np.float64) * same)


def _correction(share: Flow, slope_x: Flow, slope_y: Flow, left: Flow) -> Array:
    """The shift of each cell that would explain most of what its pixels still differ by: `[C, 2]`, in pixels.

    Brightness that has changed as a whole is left out, and pixels that differ by much more than most count less.
    """
    left = left - np.median(left, axis=1, keepdims=True)
    typical = 1.5 * np.median(np.abs(left), axis=1, keepdims=True) + 0.5
    weight = share / (1.0 + (left / (2.0 * typical)) ** 2) ** 2
    xx, xy, yy, xl, yl = (
        (weight * product).sum(axis=1).astype(np.float64)
        for product in (slope_x**2, slope_x * slope_y, slope_y**2, slope_x * left, slope_y * left)
    )
    xx, yy = xx + DAMPING, yy + DAMPING
    determinant = xx * yy - xy**2
    step = np.stack([yy * xl - xy * yl, xx * yl - xy * xl], axis=1) / determinant[:, None]
    limited: Array = np.clip(step, -LARGEST_CORRECTION, LARGEST_CORRECTION)
    return limited


def _cells(values: Flow) -> Flow:
    """Values `[h, w]` by cells: `[C, n]`, a margin of less than a cell left out."""
    rows, columns = GRID
    height, width = (side // (count * STRIDE) * STRIDE for side, count in zip(values.shape, GRID, strict=True))
    top, left = (values.shape[0] - height * rows) // 2, (values.shape[1] - width * columns) // 2
    inner = values[top : top + height * rows : STRIDE, left : left + width * columns : STRIDE]
    parts = inner.reshape(rows, height // STRIDE, columns, width // STRIDE).transpose(0, 2, 1, 3)
    return parts.reshape(rows * columns, -1)
