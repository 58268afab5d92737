from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from qrsc.evaluate.metrics.temporal import STEADY, Tracks, clip_flicker, find_tracks, flicker
from qrsc.flow import FlowPair

HEIGHT, WIDTH = 9, 12
LUMA = (0.299, 0.587, 0.114)


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


class Shift:
    """A flow of whole pixels to the right."""

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        forward = torch.zeros(1, 2, *first.shape[-2:])
        forward[:, 0] = float(self.pixels)
        return FlowPair(forward, -forward)


def level(picture: Tensor, y: int, x: int) -> float:
    """Luma of a pixel in grey levels; outside, that of the nearest edge pixel."""
    y, x = min(max(y, 0), HEIGHT - 1), min(max(x, 0), WIDTH - 1)
    return 255.0 * sum(share * float(picture[c, y, x]) for c, share in enumerate(LUMA))


def slow_flicker(pictures: tuple[Tensor, Tensor], truths: tuple[Tensor, Tensor], pixels: int) -> float:
    """The definition, pixel by pixel, for a motion of whole pixels to the right that is trusted everywhere."""

    def change(pair: tuple[Tensor, Tensor], y: int, x: int) -> float:
        return level(pair[1], y, min(max(x + pixels, 0), WIDTH - 1)) - level(pair[0], y, x)

    taps = [(step, (4 - abs(step)) / 16) for step in range(-3, 4)]
    squares = []
    for y in range(HEIGHT):
        for x in range(WIDTH):
            around = 0.0
            for down, share_y in taps:
                for across, share_x in taps:
                    at_y, at_x = min(max(y + down, 0), HEIGHT - 1), min(max(x + across, 0), WIDTH - 1)
                    around += share_y * share_x * change(truths, at_y, at_x)
            if abs(around) <= STEADY and x + pixels < WIDTH:
                squares.append((change(pictures, y, x) - change(truths, y, x)) ** 2)
    return math.sqrt(sum(squares) / len(squares)) if squares else math.nan


def truth_pair(pixels: int) -> tuple[Tensor, Tensor]:
    """Two frames that move, with a lamp that is switched on in the lower right corner."""
    first = rand(3, HEIGHT, WIDTH)
    second = first.roll(pixels, -1) + 0.01 * rand(3, HEIGHT, WIDTH, seed=1)
    second[:, 5:, 7:] += 0.2
    return first, second


@pytest.mark.parametrize("pixels", [0, 2])
def test_flicker_is_that_of_its_slow_twin(pixels: int) -> None:
    truths = truth_pair(pixels)
    pictures = (truths[0] + 0.05 * rand(3, HEIGHT, WIDTH, seed=2), truths[1] + 0.05 * rand(3, HEIGHT, WIDTH, seed=3))
    tracks = find_tracks(*truths, Shift(pixels))
    assert 0 < int(tracks.steady.sum()) < HEIGHT * (WIDTH - pixels)
    expected = slow_flicker(pictures, truths, pixels)
    assert flicker(*pictures, tracks) == pytest.approx(expected, rel=1e-4)  # measured 2e-6
    assert flicker(*truths, tracks) == 0.0


def test_a_brighter_frame_flickers_by_as_much() -> None:
    frame = 0.5 * rand(3, HEIGHT, WIDTH)
    tracks = find_tracks(frame, frame, Shift(0))
    assert bool(tracks.steady.all())
    assert flicker(frame, frame + 3 / 255, tracks) == pytest.approx(3.0, abs=1e-4)
    nowhere = Tracks(tracks.motion, ~tracks.steady, tracks.change)
    assert math.isnan(flicker(frame, frame, nowhere))


def test_flicker_of_a_clip_without_truth() -> None:
    frame = 0.5 * rand(3, HEIGHT, WIDTH)
    still = [frame, frame, frame]
    assert clip_flicker(still, Shift(0)) == 0.0
    unsteady = [frame, frame + 2 / 255, frame]
    assert clip_flicker(unsteady, Shift(0)) == pytest.approx(2.0, abs=1e-4)
    # A lamp that is switched on is no flicker: those tracks are not steady.
    lit = [frame, frame + 40 / 255]
    assert math.isnan(clip_flicker(lit, Shift(0)))
