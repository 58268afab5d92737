"""Let the C library reuse the memory of one frame for the next, and recognise that there is none left."""

from __future__ import annotations

import ctypes
import platform

# Parameters of glibc's `mallopt`, by their numbers in <malloc.h>.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# The largest threshold that glibc accepts; blocks above it are mapped from the system one by one, and returned to it.
_LARGEST_KEPT = 32 << 20
_MOST_KEPT = 512 << 20
_TAKEN_AT_ONCE = 64 << 20


# What PyTorch, OpenCV and Python say when an allocation or a new thread fails, in exceptions of different kinds.
_NO_MEMORY = ("can't allocate memory", "out of memory", "insufficient memory", "bad_alloc", "can't start new thread")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory has run out, on the CPU or on a GPU."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY)


def keep_freed_memory(size: tuple[int, int]) -> bool:
    """Let the C library keep freed memory for later allocations, up to half a gigabyte.

    glibc returns blocks of the size of a frame to the system, which clears every page when they are allocated again a
    frame later: 2 to 10 % of the time of `qrsc correct --fast` at 640x480. For large frames the memory kept would not
    be worth the time saved, and other C libraries have no such setting.

    Args:
        size: `(H, W)` of the frames.

    Returns:
        Whether memory is kept: for frames of up to 1280x720, on glibc.
    """
    three_frames = 3 * 12 * size[0] * size[1]
    if three_frames > _LARGEST_KEPT or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    wanted = {_MMAP_THRESHOLD: _LARGEST_KEPT, _TRIM_THRESHOLD: _MOST_KEPT, _TOP_PAD: _TAKEN_AT_ONCE}
    return all(libc.mallopt(parameter, value) for parameter, value in wanted.items())
