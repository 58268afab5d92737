"""Let the C library reuse the memory of one frame for the next, and recognise that there is none left."""

from __future__ import annotations

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Parameters of glibc's `mallopt`, by their numbers in <malloc.h>.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_MOST_KEPT = (1 << 31) - 1  # the largest that `mallopt` takes
_TAKEN_AT_ONCE = 64 << 20
_MAPPED_BLOCKS = 65536  # glibc's default

# What PyTorch, OpenCV and Python say when an allocation or a new thread fails, in exceptions of different kinds.
_NO_MEMORY = ("can't allocate memory", "out of memory", "insufficient memory", "bad_alloc", "can't start new thread")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory has run out, on the CPU or on a GPU."""
    said = str(error).lower()
    return isinstance(error, MemoryError) or any(words in said for words in _NO_MEMORY)


_users = 0
_counting = threading.Lock()


@contextmanager
def freed_memory_kept() -> Iterator[bool]:
    """Let the C library keep freed memory for later allocations, up to two gigabytes; give it back at the end.

    glibc maps blocks of the size of a frame one by one and returns them to the system, which clears every page when
    they are mapped again a frame later: a third of the processor time of the default at 1920x1080, 2 to 10 % of that of
    `--fast` at 640x480. The peak grows by 15 to 20 %. Contexts may overlap, in any threads.

    Yields:
        Whether memory is kept: other C libraries have no such setting.
    """
    if platform.libc_ver()[0] != "glibc":
        yield False
        return
    libc = ctypes.CDLL(None)
    _count(libc, 1)
    try:
        yield True
    finally:
        _count(libc, -1)


def _count(libc: ctypes.CDLL, change: int) -> None:
    """Change the number of users; the first one changes the settings, and the last one changes them back."""
    global _users  # the settings are the process's, too
    with _counting:
        before, _users = _users, _users + change
        if before == 0:
            wanted = {_MMAP_MAX: 0, _TRIM_THRESHOLD: _MOST_KEPT, _TOP_PAD: _TAKEN_AT_ONCE}
            for parameter, value in wanted.items():
                libc.mallopt(parameter, value)
        elif _users == 0:
            libc.mallopt(_MMAP_MAX, _MAPPED_BLOCKS)
            libc.malloc_trim(0)
