from __future__ import annotations

import cv2
import torch

from qrsc.backend.threads import at_most_threads


def test_both_get_their_threads_back() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    with at_most_threads(1):
        assert torch.get_num_threads() == 1
        assert cv2.getNumThreads() == 1
    assert (torch.get_num_threads(), cv2.getNumThreads()) == before


def test_blocks_of_several_threads_may_end_in_any_order() -> None:
    before = cv2.getNumThreads()
    one, other = at_most_threads(1), at_most_threads(1)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert cv2.getNumThreads() == 1
    other.__exit__(None, None, None)
    assert cv2.getNumThreads() == before


def test_nobody_gets_more_than_before() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    with at_most_threads(10_000):
        assert (torch.get_num_threads(), cv2.getNumThreads()) == before
