"""How many threads PyTorch and OpenCV use within one operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def at_most_threads(count: int) -> Iterator[None]:
    """Limit the threads of each operation inside the block: for callers that run several operations at once."""
    import cv2

    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(min(count, before[0]))
    cv2.setNumThreads(min(count, before[1]))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])
