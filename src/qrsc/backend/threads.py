"""How many threads PyTorch and OpenCV use within one operation, and what each thread of ours does first."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock

import torch

# Bytes of memory that a thread finds before it begins; its variables of libraries take a few thousand.
FIRST_BYTES = 1 << 20

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


def begin_thread() -> None:
    """What a thread that computes has to do first, so that it gets an error where memory is short later on.

    The C library gives a thread its variables of a library when the thread first uses them. Those that C++ needs to
    throw an exception are first used by the first error. If that error is that there is no memory, there is none for
    the variables either, and the whole process ends ("cannot allocate memory for thread-local data: ABORT"). So each
    thread meets an error while there is memory, which takes 20 µs.

    Raises:
        MemoryError: there is no memory even for that.
    """
    bytearray(FIRST_BYTES)
    with suppress(RuntimeError):
        torch.empty(-1)


def thread_pool(workers: int, threads: int | None = None) -> ThreadPoolExecutor:
    """A pool of threads that compute; in each, an operation of PyTorch uses so many threads, or as many as it likes."""

    def begin() -> None:
        with suppress(MemoryError):  # which the work will meet
            begin_thread()
        if threads is not None:
            torch.set_num_threads(threads)

    return ThreadPoolExecutor(workers, initializer=begin)
