"""Background threads with bounded queues: `prefetch` produces items in advance, `background` consumes them later."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from qrsc.backend.threads import begin_thread

Item = TypeVar("Item")

# Seconds a thread blocks on a full queue before it checks whether it has been stopped.
_POLL = 0.1


class _Failed:
    """An exception on its way from the thread to the caller."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


def prefetch(items: Iterable[Item], depth: int) -> Iterator[Item]:
    """Iterate in a background thread and yield the same items in the same order.

    Args:
        items: iterated in the thread, which has ended when this iterator is exhausted or closed.
        depth: how many items may wait in the queue. With 0 there is no thread, and items are produced on demand.

    An exception raised by `items` is raised here, in its place in the order.
    """
    if depth < 0:
        raise ValueError(f"depth is a number of waiting items, 0 or more; got {depth!r}.")
    return _threaded(items, depth) if depth else iter(items)


def _threaded(items: Iterable[Item], depth: int) -> Iterator[Item]:
    waiting: queue.Queue[object] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: object) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=_POLL)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        iterator = iter(items)
        try:
            begin_thread()
            for item in iterator:
                if not put(item):
                    return
            put(_END)
        except BaseException as error:  # of any kind: the caller handles it
            put(_Failed(error))
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=produce, name="qrsc-prefetch", daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not _END:
            if isinstance(item, _Failed):
                raise item.error
            yield item  # type: ignore[misc]  # anything but the two markers is an item
    finally:
        stopped.set()
        thread.join()


class BackgroundWorker:
    """A thread that works on items in the order they are submitted; see `background`."""

    def __init__(self, work: Callable[[Item], None], depth: int) -> None:
        self._work = work
        self._waiting: queue.Queue[object] = queue.Queue(depth)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="qrsc-background", daemon=True)
        self._thread.start()

    def __call__(self, item: object) -> None:
        """Submit an item; blocks while the queue is full. An error of an earlier item is raised here."""
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._waiting.put(item, timeout=_POLL)
            except queue.Full:
                continue
            return

    def _run(self) -> None:
        try:
            begin_thread()
        except MemoryError as error:
            self._error = error
        while (item := self._waiting.get()) is not _END:
            if self._error is None:
                try:
                    self._work(item)  # type: ignore[arg-type]  # what is submitted is an item
                except BaseException as error:  # of any kind: the caller handles it
                    self._error = error

    def finish(self) -> None:
        """Wait until all items are done."""
        self._waiting.put(_END)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """End the thread; items that still wait are dropped."""
        if self._error is None:
            self._error = RuntimeError("cancelled")
        self._waiting.put(_END)
        self._thread.join()


@contextmanager
def background(work: Callable[[Item], None], depth: int) -> Iterator[BackgroundWorker]:
    """Provide a function that submits items to a background thread, which works on them in order.

    Leaving the block waits until all items are done. If the block raises, items that still wait are dropped.

    Args:
        work: called with one item after another.
        depth: how many items may wait in the queue.
    """
    worker = BackgroundWorker(work, depth)
    try:
        yield worker
    except BaseException:
        worker.cancel()
        raise
    worker.finish()
