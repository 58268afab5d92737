"""The motions of a clip, cell by cell: the observations from which the readout is estimated.

Convention
    A frame is divided into a grid of cells. Each gives one motion from its frame to the next, at the centroid of its
    texture. Positions are in pixels of the frame, pixel centres at whole coordinates; shifts are (dx, dy) in pixels
    per frame; pair `k` consists of the frames `k` and `k + 1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from qrsc.backend.threads import thread_pool
from qrsc.calibrate.cells import GRID, Array, CellMotions, Flow, GradientFrame, Grey, cell_motions, gradient_frame
from qrsc.flow.dis import Preset, landing, search

# Of the flow that initialises the cells; a finer one takes five times as long and does not make them more accurate.
PRESET: Preset = "fast"
# A median flow longer than this fraction of the width initialises the flow of the next pair as well.
LONG = 0.04
THREADS = 2  # pairs that are processed concurrently
# A frame repeats the one before if nine of ten cells move by fewer pixels, or by a smaller part of what is usual in the
# clip, and that is enough to tell. Repeated frames that were compressed again move by a few hundredths of a pixel.
REPEATED_PX, REPEATED_PART = 0.05, 0.02
MOVING_PX = 0.5


@dataclass(frozen=True)
class ClipMotions:
    """The motions of the cells of a clip.

    Attributes:
        position: `[P, C, 2]`, (x, y) in pixels of each of C cells (row by row) in the first frame of each of P pairs.
        shift: `[P, C, 2]`, (dx, dy) in pixels to the second frame.
        weight: `[P, C]`, 0 to 1: textured fraction of the cell that stays inside the frame; 0 at a cut.
        size: `(height, width)` of the frames.
        grid: rows and columns of cells.
    """

    position: Array
    shift: Array
    weight: Array
    size: tuple[int, int]
    grid: tuple[int, int] = GRID

    @property
    def pairs(self) -> int:
        """Number of pairs of frames."""
        return len(self.shift)

    def dominant(self) -> Array:
        """The median motion of each pair that has enough texture: `[N, 2]`, N at most P."""
        textured = self.weight > 0.05
        kept = textured.mean(1) > 0.1
        seen = np.where(textured[..., None], self.shift, np.nan)[kept]
        medians: Array = np.nanmedian(seen, axis=1) if kept.any() else np.zeros((0, 2))
        return medians

    def part(self, start: int, end: int) -> ClipMotions:
        """The pairs from `start` up to `end`."""
        return self.kept(slice(start, end))

    def kept(self, pairs: slice | npt.NDArray[np.bool_]) -> ClipMotions:
        """Some of the pairs, as if they followed each other."""
        return ClipMotions(self.position[pairs], self.shift[pairs], self.weight[pairs], self.size, self.grid)

    def without(self, pairs: npt.NDArray[np.bool_]) -> ClipMotions:
        """All pairs, but the marked ones `[P]` say nothing, as at a cut."""
        return replace(self, weight=np.where(pairs[:, None], 0.0, self.weight))

    def repeated(self) -> npt.NDArray[np.bool_]:
        """The pairs `[P]` whose second frame repeats the first, in a clip that moves."""
        lengths = np.where(self.weight > 0.05, np.hypot(self.shift[..., 0], self.shift[..., 1]), np.nan)
        seen = ~np.isnan(lengths).all(1)
        nearly_all, typical = np.full(self.pairs, np.inf), np.zeros(self.pairs)
        nearly_all[seen] = np.nanquantile(lengths[seen], 0.9, axis=1)
        typical[seen] = np.nanmedian(lengths[seen], axis=1)
        usual = float(np.median(typical[seen])) if seen.any() else 0.0
        return (nearly_all < max(REPEATED_PX, REPEATED_PART * usual)) & (usual > MOVING_PX)

    def most_active(self, pairs: int) -> ClipMotions:
        """The run of so many consecutive pairs over which the motion changes most."""
        if self.pairs <= pairs:
            return self
        middle = np.median(self.shift, axis=1)
        changes = np.concatenate([[0.0], np.cumsum(np.minimum(np.hypot(*np.diff(middle, axis=0).T), 20.0))])
        start = int((changes[pairs - 1 :] - changes[: len(changes) - pairs + 1]).argmax())
        return self.part(start, start + pairs)

    def transposed(self) -> ClipMotions:
        """The motions of the clip with rows and columns of its frames exchanged."""
        rows, columns = self.grid

        def exchange(values: Array) -> Array:
            cells = values.reshape(self.pairs, rows, columns, -1).transpose(0, 2, 1, 3)
            return cells.reshape(self.pairs, rows * columns, -1)

        return ClipMotions(
            exchange(self.position)[..., ::-1],
            exchange(self.shift)[..., ::-1],
            exchange(self.weight)[..., 0],
            (self.size[1], self.size[0]),
            (columns, rows),
        )

    def flipped(self) -> ClipMotions:
        """The motions of the clip flipped vertically."""
        rows, columns = self.grid

        def flip(values: Array) -> Array:
            cells = values.reshape(self.pairs, rows, columns, -1)[:, ::-1]
            return cells.reshape(self.pairs, rows * columns, -1)

        position = flip(self.position) * [1.0, -1.0] + [0.0, self.size[0] - 1.0]
        shift = flip(self.shift) * [1.0, -1.0]
        return ClipMotions(position, shift, flip(self.weight)[..., 0], self.size, self.grid)


class MotionReader:
    """Collects the motions of a clip from its frames, one by one; a few threads process pairs concurrently."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`(height, width)` of the clip, in whose pixels positions and shifts are given; frames may be smaller."""
        self._size = size
        self._threads = thread_pool(THREADS)
        self._pairs: list[Future[CellMotions]] = []
        self._previous: GradientFrame | None = None
        self._shift: Future[Flow] | None = None

    @property
    def pairs(self) -> int:
        """Number of pairs of frames taken so far."""
        return len(self._pairs)

    def take(self, frame: Grey) -> None:
        """Take the next frame, grey, `[h, w]`."""
        current = gradient_frame(np.ascontiguousarray(frame))
        if self._previous is not None:
            if frame.shape != self._previous.grey.shape:
                raise ValueError(
                    f"all frames of a clip must have one size, got {frame.shape} after {self._previous.grey.shape}."
                )
            before, self._shift = self._shift, Future()
            work = self._threads.submit(_pair_motions, self._previous, current, before, self._shift)
            self._pairs.append(work)
            # Reading must not run ahead of the flow, or a long clip would be held in memory as a whole.
            if len(self._pairs) > 2 * THREADS:
                self._pairs[-2 * THREADS].result()
        self._previous = current

    def motions(self) -> ClipMotions:
        """The motions of all pairs so far."""
        if self._previous is None or not self._pairs:
            raise ValueError("motion needs at least two frames.")
        height, width = self._previous.grey.shape
        pairs = [work.result() for work in self._pairs]
        scale = np.array([self._size[1] / width, self._size[0] / height])
        # Scaling keeps the corners of the frame in place, not the centres of its pixels.
        position = (np.stack([pair.position for pair in pairs]) + 0.5) * scale - 0.5
        shift = np.stack([pair.shift for pair in pairs]) * scale
        return ClipMotions(position, shift, np.stack([pair.weight for pair in pairs]), self._size)


def _pair_motions(
    first: GradientFrame, second: GradientFrame, before: Future[Flow] | None, shift: Future[Flow]
) -> CellMotions:
    """Motions of a pair; its median flow becomes the result of `shift`, for which the next pair may be waiting."""
    try:
        flow, median = _pair_flow(first.grey, second.grey, before)
    except BaseException as error:
        shift.set_exception(error)
        raise
    shift.set_result(median)
    return cell_motions(first, second, flow)


def clip_motions(frames: Iterable[Grey], size: tuple[int, int]) -> ClipMotions:
    """The motions of a clip from its frames.

    Args:
        frames: grey, `[h, w]`, all of one size, perhaps smaller than the clip's; at least two.
        size: `(height, width)` of the clip.
    """
    reader = MotionReader(size)
    for frame in frames:
        reader.take(frame)
    return reader.motions()


def _pair_flow(first: Grey, second: Grey, before: Future[Flow] | None = None) -> tuple[Flow, Flow]:
    """Flow `[h, w, 2]` between two frames, and its median `[2]`, which may initialise the next flow.

    Args:
        first, second: `[h, w]`.
        before: median flow of the previous pair, perhaps still being computed. Where it is long, a flow initialised
            with it is computed as well, and the one with the smaller residual is kept.
    """
    flow = search(PRESET, first, second)
    if before is not None and np.hypot(*before.result()) > LONG * first.shape[1]:
        started = search(PRESET, first, second, np.broadcast_to(before.result(), flow.shape))
        if _residual(first, second, started) < _residual(first, second, flow):
            flow = started
    return flow, np.median(flow[::8, ::8].reshape(-1, 2), axis=0).astype(np.float32)


def _residual(first: Grey, second: Grey, flow: Flow) -> float:
    """Mean absolute difference, in grey levels, of the first frame and the second warped to it by a flow."""
    import cv2

    warped = cv2.remap(second.astype(np.float32), *landing(flow), cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return float(np.mean(np.abs(np.asarray(warped, dtype=np.float32) - first)))
