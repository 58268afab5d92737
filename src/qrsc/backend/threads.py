"""How many threads PyTorch and OpenCV use within one operation, and what each thread of ours does first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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


def begin_thread(count: int | None = None) -> None:
    """What a thread that computes has to do first: get ready for errors of C++, and set its own number of threads.

    The C library gives a thread its variables of a library when the thread first uses them. Those that C++ needs to
    throw an exception are first used by the first error. If that error is that there is no memory, there is none for
    the variables either, and the whole process ends ("cannot allocate memory for thread-local data: ABORT"). So each
    thread meets an error while there is memory, which takes 20 µs.

    Args:
        count: of threads within each operation of PyTorch; None leaves them.
    """
    with suppress(RuntimeError, MemoryError):
        torch.empty(-1)
    if count is not None:
        torch.set_num_threads(count)
