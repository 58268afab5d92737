"""How many threads PyTorch and OpenCV use within one operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

# PyTorch counts the threads of each thread by itself, OpenCV those of the process: of all blocks, the least holds.
_lock = Lock()
_limits: list[int] = []


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Limit the threads of each operation inside the block: for callers that run several operations at once.

    Blocks of several threads may overlap in any order.
    """
    import cv2

    before = torch.get_num_threads()
    torch.set_num_threads(min(count, before))
    with _lock:
        if not _limits:
            _limits.append(cv2.getNumThreads())
        _limits.append(count)
        cv2.setNumThreads(min(_limits))
    try:
        yield
    finally:
        torch.set_num_threads(before)
        with _lock:
            _limits.remove(count)
            cv2.setNumThreads(min(_limits))
            if len(_limits) == 1:  # what OpenCV had before the first block
                _limits.clear()
