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


def test_nobody_gets_more_than_before() -> None:
    before = torch.get_num_threads(), cv2.getNumThreads()
    with at_most_threads(10_000):
        assert (torch.get_num_threads(), cv2.getNumThreads()) == before
