"""Reading and writing of a clip beside its correction, in threads of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qrsc.backend.prefetch import ahead, behind
from qrsc.pipeline import TimedFrame
from qrsc.video.clips import FolderSource, SourceFrame, VideoSource

# Frames that may wait between two threads: a few, and fewer of them the larger they are.
MOST_WAITING = 4
WAITING_BYTES = 128 << 20

Taker = Callable[[Any], None]


def waiting_frames(size: tuple[int, int]) -> int:
    """How many frames of a size `(H, W)` may wait between two threads."""
    return max(1, min(MOST_WAITING, WAITING_BYTES // (12 * size[0] * size[1])))


@contextmanager
def side_by_side(
    source: FolderSource | VideoSource, take: Taker, hear: Callable[[SourceFrame], None]
) -> Iterator[tuple[Iterator[TimedFrame], Taker]]:
    """The frames of a source, read ahead, and whom to give what is to be written.

    Args:
        source: its frames are to be corrected; what else it has (packets of sound, say) goes straight to `take`.
        take: writes, in a thread of its own.
        hear: is told of each frame before it is corrected.
    """
    depth = waiting_frames(source.size)
    with behind(take, depth) as hand_over:

        def frames() -> Iterator[TimedFrame]:
            for item in ahead(source.items(), depth):
                if isinstance(item, SourceFrame):
                    hear(item)
                    yield TimedFrame(item.frame, item.time)
                else:
                    hand_over(item)

        yield frames(), hand_over
