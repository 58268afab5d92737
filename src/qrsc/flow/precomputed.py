"""Precomputed flows, read from files.

Convention
    Pair k consists of frames k and k + 1 of a clip. An `.npz` file holds `forward` and `backward`: `[T - 1, 2, H, W]`
    for all pairs of a clip, or `[2, H, W]` for one pair in a folder of such files, sorted by number. A folder may also
    hold two files for each pair, `NAME_forward` and `NAME_backward`, as `.npy` (`[2, H, W]` or `[H, W, 2]`) or
    Middlebury `.flo` files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qrsc.files.arrays import ArrayArchive, StoredArray, npy_array, raw_array
from qrsc.flow.protocol import FlowPair, check_pair

Reader = Callable[[int], tuple[StoredArray, StoredArray]]  # forward and backward flow of the pair with an index
SUFFIXES = (".npy", ".flo")
_FLO_HEADER = struct.Struct("<fii")  # mark, width, height
_FLO_MARK = 202021.25


class PrecomputedFlow:
    """The flows of one clip. Calls return its pairs in order; `pair` returns one by its index.

    Only one pair is in memory at a time, and it is read after its shape was compared with that of the frames.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._count, self._read = _clip_reader(path) if path.is_file() else _folder_reader(path)
        self._next = 0

    def __len__(self) -> int:
        return self._count

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        """The flows of the next pair of frames `[1, 3, H, W]`."""
        return self.pair(self._next, first, second)

    def pair(self, number: int, first: Tensor, second: Tensor) -> FlowPair:
        """The flows of the pair with an index; size, device and dtype are those of the frames `[1, 3, H, W]`."""
        check_pair(first, second)
        if not 0 <= number < self._count:
            raise ValueError(
                f"{self.path} holds flows for {self._count} pairs of frames, and pair {number + 1} was asked for: "
                f"a clip of N frames has N - 1 pairs. Give the flows of this clip."
            )
        self._next = number + 1
        forward, backward = (_as_flow(stored, self.path, number, first) for stored in self._read(number))
        return FlowPair(forward, backward)


def _clip_reader(path: Path) -> tuple[int, Reader]:
    """Read all pairs of a clip from one file."""
    # With `in_parts`, damage is found before the first pair is used; otherwise only at the last one.
    forward, backward = (each.in_c_order() for each in _open_npz(path, in_parts=True))
    if len(forward.shape) not in (3, 4) or forward.shape != backward.shape:
        raise ValueError(
            f"{path} must hold forward and backward as [T - 1, 2, H, W]; got {forward.shape} and {backward.shape}."
        )
    if len(forward.shape) == 3:
        return 1, lambda _: (forward, backward)
    return forward.shape[0], lambda number: (forward.item(number), backward.item(number))


def _folder_reader(path: Path) -> tuple[int, Reader]:
    """Read each pair from one or two files."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder of flows {path}.")
    archives = _in_order(path.glob("*.npz"))
    if archives:
        return len(archives), lambda number: _open_npz(archives[number])
    both = [_in_order(f for s in SUFFIXES for f in path.glob(f"*{word}{s}")) for word in ("forward", "backward")]
    names = [[file.stem.removesuffix("forward").removesuffix("backward") for file in files] for files in both]
    if not names[0] or names[0] != names[1]:
        raise ValueError(
            f"{path} must hold one .npz for each pair of frames, or NAME_forward and NAME_backward as .npy or .flo; "
            f"it holds {len(names[0])} forward and {len(names[1])} backward flows."
        )
    return len(names[0]), lambda number: (_open_one(both[0][number]), _open_one(both[1][number]))


def _open_npz(path: Path, *, in_parts: bool = False) -> tuple[StoredArray, StoredArray]:
    """Forward and backward in an archive."""
    archive = ArrayArchive(path)
    if not {"forward", "backward"} <= set(archive.names):
        held = ", ".join(archive.names[:8]) or "none"
        raise ValueError(f"{path} must hold forward and backward; it holds {held}.")
    return archive.array("forward", in_parts=in_parts), archive.array("backward", in_parts=in_parts)


def _open_one(path: Path) -> StoredArray:
    """The flow in an `.npy` or `.flo` file."""
    if path.suffix == ".npy":
        return npy_array(path)
    with path.open("rb") as file:
        header = file.read(_FLO_HEADER.size)
    size = path.stat().st_size
    mark, width, height = _FLO_HEADER.unpack(header) if len(header) == _FLO_HEADER.size else (0.0, 0, 0)
    if mark != _FLO_MARK or min(width, height) < 1 or size != _FLO_HEADER.size + 8 * width * height:
        raise ValueError(f"{path} is not a complete .flo file.")
    return raw_array(path, (height, width, 2), np.dtype("<f4"), False, _FLO_HEADER.size)


def _as_flow(stored: StoredArray, path: Path, number: int, frame: Tensor) -> Tensor:
    """As `[1, 2, H, W]`; raises unless it has the size of the frames and is finite."""
    channels_last = len(stored.shape) == 3 and stored.shape[-1] == 2 and stored.shape[0] != 2
    shape = (2, *stored.shape[:2]) if channels_last else stored.shape
    expected = (2, *frame.shape[-2:])
    if shape != expected:
        raise ValueError(f"pair {number + 1} of {path} has the shape {shape}; the frames need {expected}.")
    with np.errstate(over="ignore"):  # float64 beyond the range of float32 is not finite below
        array = stored.read().astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError(f"pair {number + 1} of {path} holds values that are not finite.")
    array = array.transpose(2, 0, 1) if channels_last else array
    return torch.from_numpy(np.ascontiguousarray(array))[None].to(frame)


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort by number, also without leading zeros: shorter names come first."""
    return sorted(paths, key=lambda path: (len(path.name), path.name))
