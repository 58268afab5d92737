"""What moved between the frames of a clip, cell by cell: all that the estimate of the readout looks at.

Convention
    A frame is divided into a grid of cells. Each gives one motion from its frame to the next, at the place where its
    texture lies. Places are in pixels of the frame, centres at whole coordinates; shifts
    are (dx, dy) in pixels per frame; pair `k` is that of the frames `k` and `k + 1`.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qrsc.calibrate.cells import GRID, Array, CellMotions, Flow, Grey, Picture, cell_motions, picture_of
from qrsc.flow.dis import Preset, landing, search

# So coarse a search is where cells begin; a finer one takes five times as long and leads them no nearer to the truth.
PRESET: Preset = "fast"
# A shift beyond this part of the width starts the search of the next pair.
LONG = 0.04
THREADS = 2  # pairs that are worked on at a time


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
        self._previous: Picture | None = None
        self._shift: Future[Flow] | None = None

    @property
    def pairs(self) -> int:
        """How many pairs of frames have come."""
        return len(self._pairs)

    def take(self, frame: Grey) -> None:
        """Take the next frame, a grey picture `[h, w]`."""
        picture = picture_of(np.ascontiguousarray(frame))
        if self._previous is not None:
            if frame.shape != self._previous.grey.shape:
                raise ValueError(
                    f"all frames of a clip must have one size, got {frame.shape} after {self._previous.grey.shape}."
                )
            before, self._shift = self._shift, Future()
            work = self._threads.submit(_pair_motions, self._previous, picture, before, self._shift)
            self._pairs.append(work)
            # Reading must not run ahead of the search, or a long clip would lie in memory as a whole.
            if len(self._pairs) > 2 * THREADS:
                self._pairs[-2 * THREADS].result()
        self._previous = picture

    def motions(self) -> ClipMotions:
        """What has moved so far."""
        if self._previous is None or not self._pairs:
            raise ValueError("a clip needs at least two frames for anything to move between them.")
        height, width = self._previous.grey.shape
        pairs = [work.result() for work in self._pairs]
        scale = np.array([self._size[1] / width, self._size[0] / height])
        # Of a scaled picture the frame's corners stay, and with them the centres of the pixels move.
        place = (np.stack([pair.place for pair in pairs]) + 0.5) * scale - 0.5
        shift = np.stack([pair.shift for pair in pairs]) * scale
        return ClipMotions(place, shift, np.stack([pair.weight for pair in pairs]), self._size)


def _pair_motions(first: Picture, second: Picture, before: Future[Flow] | None, shift: Future[Flow]) -> CellMotions:
    """Motions of a pair; its median flow becomes the result of `shift`, for which the next pair may be waiting."""
    try:
        flow, median = pair_flow(first.grey, second.grey, before)
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
    flow = search(PRESET, first, second)
    if before is not None and np.hypot(*before.result()) > LONG * first.shape[1]:
        started = search(PRESET, first, second, np.broadcast_to(before.result(), flow.shape))
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
