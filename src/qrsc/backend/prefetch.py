"""Work that runs ahead of who asks for it, or behind who hands it over, in a thread of its own, never far."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

# How long a thread waits on a full queue before it looks whether anybody still wants its items, in seconds.
_PATIENCE = 0.1


class _Failed:
    """An exception on its way from the thread to who asks."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


_END = object()


def ahead(items: Iterable[Item], depth: int) -> Iterator[Item]:
    """The same items in the same order, made by another thread while the caller works.

    Args:
        items: iterated in the other thread, which has ended when this iterator is exhausted or closed.
        depth: how many items may wait. 0 makes no thread: everything happens when it is asked for.

    An exception of `items` is raised here, in its place in the order.
    """
    if depth < 0:
        raise ValueError(f"depth is a number of waiting items, 0 or more; got {depth!r}.")
    return _threaded(items, depth) if depth else iter(items)


def _threaded(items: Iterable[Item], depth: int) -> Iterator[Item]:
    waiting: queue.Queue[object] = queue.Queue(depth)
    stopped = threading.Event()

    def hand_over(item: object) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        iterator = iter(items)
        try:
            for item in iterator:
                if not hand_over(item):
                    return
            hand_over(_END)
        except BaseException as error:  # whatever it is, it belongs to the caller
            hand_over(_Failed(error))
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    thread = threading.Thread(target=work, name="qrsc-ahead", daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not _END:
            if isinstance(item, _Failed):
                raise item.error
            yield item  # type: ignore[misc]  # what is neither mark is an item
    finally:
        stopped.set()
        thread.join()


class Behind:
    """Work that is done after the caller has gone on, in a thread of its own; see `behind`."""

    def __init__(self, work: Callable[[Item], None], depth: int) -> None:
        self._work = work
        self._waiting: queue.Queue[object] = queue.Queue(depth)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="qrsc-behind", daemon=True)
        self._thread.start()

    def __call__(self, item: object) -> None:
        """Hands an item over; waits while too many do. What went wrong with an earlier one is raised here."""
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._waiting.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return

    def _run(self) -> None:
        while (item := self._waiting.get()) is not _END:
            if self._error is None:
                try:
                    self._work(item)  # type: ignore[arg-type]  # what is handed over is an item
                except BaseException as error:  # whatever it is, it belongs to the caller
                    self._error = error

    def finish(self) -> None:
        """Waits until all is done."""
        self._waiting.put(_END)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def give_up(self) -> None:
        """Ends the thread; what still waits is dropped."""
        if self._error is None:
            self._error = RuntimeError("given up")
        self._waiting.put(_END)
        self._thread.join()


@contextmanager
def behind(work: Callable[[Item], None], depth: int) -> Iterator[Behind]:
    """A function to hand items to, which are worked on in order by another thread.

    All is done when the block ends well. If it fails, what still waits is dropped.

    Args:
        work: called with one item after the other.
        depth: how many items may wait.
    """
    thread = Behind(work, depth)
    try:
        yield thread
    except BaseException:
        thread.give_up()
        raise
    thread.finish()
