"""Precomputed flows, read from files.

Convention
    Pair k consists of frames k and k + 1 of a clip. An `.npz` file holds `forward` and `backward`: `[T - 1, 2, H, W]`
    for all pairs of a clip, or `[2, H, W]` for one pair in a folder of such files, sorted by number. A folder may also
    hold two files for each pair, `NAME_forward` and `NAME_backward`, as `.npy` (`[2, H, W]` or `[H, W, 2]`) or
    Middlebury `.flo` files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.flow.protocol import FlowPair, check_pair

Array = npt.NDArray[np.float32]
Reader = Callable[[int], tuple[Array, Array]]  # forward and backward flow of the pair with an index
SUFFIXES = (".npy", ".flo")
_FLO_MARK = 202021.25


class PrecomputedFlow:
    """The flows of one clip. Calls return its pairs in order; `pair` returns one by its index."""

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
        forward, backward = (_as_flow(array, self.path, number, first) for array in self._read(number))
        return FlowPair(forward, backward)


def _clip_reader(path: Path) -> tuple[int, Reader]:
    """Read all pairs of a clip from one file."""
    forward, backward = _read_npz(path)
    if forward.ndim == 3:
        forward, backward = forward[None], backward[None]
    if forward.ndim != 4 or forward.shape != backward.shape:
        raise ValueError(
            f"{path} must hold forward and backward as [T - 1, 2, H, W]; got {forward.shape} and {backward.shape}."
        )
    return len(forward), lambda number: (forward[number], backward[number])


def _folder_reader(path: Path) -> tuple[int, Reader]:
    """Read each pair from one or two files."""
    if not path.is_dir():
        raise FileNotFoundError(f"there is no file or folder of flows {path}.")
    archives = _in_order(path.glob("*.npz"))
    if archives:
        return len(archives), lambda number: _read_npz(archives[number])
    both = [_in_order(f for s in SUFFIXES for f in path.glob(f"*{word}{s}")) for word in ("forward", "backward")]
    names = [[file.stem.removesuffix("forward").removesuffix("backward") for file in files] for files in both]
    if not names[0] or names[0] != names[1]:
        raise ValueError(
            f"{path} must hold one .npz for each pair of frames, or NAME_forward and NAME_backward as .npy or .flo; "
            f"it holds {len(names[0])} forward and {len(names[1])} backward flows."
        )
    return len(names[0]), lambda number: (_read_one(both[0][number]), _read_one(both[1][number]))


def _read_npz(path: Path) -> tuple[Array, Array]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not {"forward", "backward"} <= set(archive.files):
                raise ValueError(
                    f"{path} must hold forward and backward; it holds {', '.join(archive.files) or 'none'}."
                )
            return archive["forward"].astype(np.float32), archive["backward"].astype(np.float32)
    except (OSError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an .npz archive: {error}.") from error


def _read_one(path: Path) -> Array:
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False).astype(np.float32)  # type: ignore[no-any-return]  # numpy's stubs
    content = path.read_bytes()
    mark = np.frombuffer(content[:4], "<f4")
    width, height = np.frombuffer(content[4:12], "<i4") if len(content) >= 12 else (0, 0)
    if len(mark) != 1 or mark[0] != np.float32(_FLO_MARK) or len(content) != 12 + 8 * int(width) * int(height):
        raise ValueError(f"{path} is not a complete .flo file.")
    return np.frombuffer(content, "<f4", offset=12).reshape(int(height), int(width), 2).copy()


def _as_flow(array: Array, path: Path, number: int, frame: Tensor) -> Tensor:
    """As `[1, 2, H, W]`; raises unless it has the size of the frames and is finite."""
    if array.ndim == 3 and array.shape[-1] == 2 and array.shape[0] != 2:
        array = array.transpose(2, 0, 1)
    expected = (2, *frame.shape[-2:])
    if array.shape != expected:
        raise ValueError(f"pair {number + 1} of {path} has the shape {array.shape}; the frames need {expected}.")
    if not np.isfinite(array).all():
        raise ValueError(f"pair {number + 1} of {path} holds values that are not finite.")
    return torch.from_numpy(np.ascontiguousarray(array))[None].to(frame)


def _in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort by number, also without leading zeros: shorter names come first."""
    return sorted(paths, key=lambda path: (len(path.name), path.name))
