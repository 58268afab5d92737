"""Samples that a thread renders."""

from __future__ import annotations

import threading
import time

import torch

from qrsc.baselines.training.samples import WindowPool, WindowSamples

from ...baselines.windows import panned_windows


def test_a_pool_that_is_paused_renders_nothing() -> None:
    """The thread of a GPU, here on the CPU."""
    inside = threading.Event()

    def render(generator: torch.Generator) -> WindowSamples:
        inside.set()
        time.sleep(0.02)
        inside.clear()
        return panned_windows(generator)

    pool = WindowPool(render, capacity=64, device="cpu", uses=0.01)  # wants new samples all the time
    pool.crop = 32
    pool._thread = threading.Thread(target=pool._render_until_closed, daemon=True)
    pool._thread.start()
    with pool:
        for _ in range(3):
            pool.draw(2)
            with pool.paused():
                assert not inside.is_set()
                before = pool.rendered
                pool.draw(2)
                time.sleep(0.05)
                assert pool.rendered == before
                assert not inside.is_set()
            pool.draw(2)
            deadline = time.monotonic() + 10.0
            while pool.rendered == before and time.monotonic() < deadline:
                time.sleep(0.005)
            assert pool.rendered > before
    assert pool._thread is None
