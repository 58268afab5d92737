"""Memory that is freed with one frame and asked for again with the next."""

from __future__ import annotations

import ctypes
import platform

# Parameters of glibc's `mallopt`, by their numbers in <malloc.h>.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
# The most that glibc takes for the size from which on a block comes from the system and goes back to it by itself.
_LARGEST_KEPT = 32 << 20
_MOST_KEPT = 512 << 20
_TAKEN_AT_ONCE = 64 << 20


def keep_freed_memory(size: tuple[int, int]) -> bool:
    """Let the C library keep what is freed for what comes next, up to half a gigabyte.

    glibc gives blocks of the size of a picture back to the system, which clears every page of them when they are asked
    for again, a frame later: 2 to 10 % of the time of `qrsc correct --fast` at 640x480. Kept blocks of large pictures
    would cost more memory than they save time, and other C libraries know no such thing.

    Args:
        size: `(H, W)` of the frames.

    Returns:
        Whether it does: for frames of up to 1280x720, on glibc.
    """
    three_frames = 3 * 12 * size[0] * size[1]
    if three_frames > _LARGEST_KEPT or platform.libc_ver()[0] != "glibc":
        return False
    libc = ctypes.CDLL(None)
    wanted = {_MMAP_THRESHOLD: _LARGEST_KEPT, _TRIM_THRESHOLD: _MOST_KEPT, _TOP_PAD: _TAKEN_AT_ONCE}
    return all(libc.mallopt(parameter, value) for parameter, value in wanted.items())
