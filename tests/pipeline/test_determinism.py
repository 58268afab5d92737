"""Whether the number of threads changes a result: not with `--fast`, and by less than a level with networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import cv2
import pytest
import torch
from torch import Tensor

from qrsc.names import PresetName
from qrsc.pipeline import Corrector
from qrsc.simulate.render.clip import render_clip
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout

READOUT = Readout(0.8)
LEVEL = 1.0 / 255.0


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(count)
    cv2.setNumThreads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        cv2.setNumThreads(before[1])


@pytest.fixture(scope="module")
def clip() -> Tensor:
    """`[2, 3, 72, 96]`, a simulated walk."""
    return torch.stack([frame.pictures["rolling"] for frame in render_clip(demo_scene((72, 96), 2, 0), READOUT, 2)])


def corrected(clip: Tensor, preset: PresetName, flow: str, count: int) -> Tensor:
    with threads(count):
        corrector = Corrector(READOUT, preset=preset, flow=flow)
        return torch.stack([result.frame for result in corrector.stream(clip)])


def test_a_search_and_the_mean_do_not_depend_on_threads(clip: Tensor) -> None:
    one, *others = (corrected(clip, "fast", "dis", count) for count in (1, 2, 3))
    assert all(torch.equal(one, other) for other in others)


def test_networks_depend_on_threads_by_less_than_a_level(clip: Tensor) -> None:
    # Convolutions add up in another order: 0.4 of a level at most and 0.001 on average over three frames of 640x360.
    one, two, again = (corrected(clip, "default", "raft-rs+dis", count) for count in (1, 2, 2))
    difference = (one - two).abs()
    assert float(difference.max()) < LEVEL
    assert float(difference.mean()) < 0.01 * LEVEL
    assert torch.equal(two, again)
