"""Reading, writing and checking of a clip in threads of their own, while its frames are corrected."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from qrsc.backend.prefetch import background, prefetch
from qrsc.backend.progress import CancelToken, require_not_cancelled
from qrsc.pipeline import Seconds, TimedFrame
from qrsc.video.source import Source, SourceFrame

# Frames that may wait between two threads: a few, and fewer of them the larger they are.
MOST_WAITING = 4
WAITING_BYTES = 128 << 20

Taker = Callable[[Any], None]
Correction = TypeVar("Correction")


def waiting_frames(size: tuple[int, int]) -> int:
    """How many frames of a size `(H, W)` may wait between two threads."""
    return max(1, min(MOST_WAITING, WAITING_BYTES // (12 * size[0] * size[1])))


@contextmanager
def concurrent_io(
    source: Source, write: Taker, on_frame: Callable[[SourceFrame], None], cancel: CancelToken | None = None
) -> Iterator[tuple[Iterator[TimedFrame], Taker]]:
    """The frames of a source, read ahead, and a function to pass on what is to be written.

    Args:
        source: its frames are to be corrected; packets of other tracks go straight to `write`.
        write: called with one item after the other, in a thread of its own.
        on_frame: called with each frame before it is corrected.
        cancel: asked before each frame.
    """
    depth = waiting_frames(source.size)
    with background(write, depth) as pass_on:

        def frames() -> Iterator[TimedFrame]:
            for item in prefetch(source.items(), depth):
                require_not_cancelled(cancel)
                if isinstance(item, SourceFrame):
                    on_frame(item)
                    yield TimedFrame(item.frame, item.time, item.restarts)
                else:
                    pass_on(item)

        yield frames(), pass_on


@contextmanager
def concurrent_correction(
    source: Source,
    correct: Callable[[Iterator[TimedFrame]], Iterator[Correction]],
    write: Taker,
    check: Taker,
    seconds: Seconds,
    cancel: CancelToken | None = None,
) -> Iterator[tuple[Iterator[tuple[SourceFrame, Correction]], Taker, Taker]]:
    """The frames of a source with their corrections, and functions to pass on what is to be written and checked.

    Args:
        source, write, cancel: as for `concurrent_io`.
        correct: gives the correction of each frame, in order.
        check: called with one item after the other, in a thread of its own.
        seconds: gets the time for checking.
    """
    waiting: deque[SourceFrame] = deque()

    def timed_check(item: Any) -> None:
        with seconds.of("check"):
            check(item)

    with (
        concurrent_io(source, write, waiting.append, cancel) as (frames, pass_on),
        background(timed_check, waiting_frames(source.size)) as pass_to_check,
    ):
        corrections = correct(frames)
        try:
            yield ((waiting.popleft(), each) for each in corrections), pass_on, pass_to_check
        finally:
            if isinstance(corrections, Generator):  # which may have threads of its own
                corrections.close()
