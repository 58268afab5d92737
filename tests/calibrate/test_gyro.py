from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.gpmf import GyroBlock
from qrsc.calibrate.gyro import gyro_agreement, gyro_in_words

Shaken = Callable[..., ClipMotions]
INTERVAL = 1.0 / 30.0


def blocks(moved: np.ndarray, *, lag: float = 0.0) -> list[GyroBlock]:
    """A gyroscope of 200 Hz in blocks of a second, whose second and third axes turn as the picture moves."""
    times = (np.arange(600) + 0.5) / 200.0
    frames = np.clip(times / INTERVAL - lag, 0, len(moved) - 1)
    at = np.arange(len(moved)) + 0.5
    rates = np.stack([0.1 * np.sin(times), *(-0.02 * np.interp(frames, at, part) for part in moved.T)], axis=1)
    return [GyroBlock(float(k), 1.0, rates[200 * k : 200 * (k + 1)]) for k in range(3)]


@pytest.mark.parametrize("lag", [0.0, 1.0])
def test_a_picture_that_follows_its_gyroscope_agrees(shaken: Shaken, lag: float) -> None:
    clip = shaken(0.6, pairs=60)
    found = gyro_agreement(clip, INTERVAL, blocks(clip.dominant(), lag=lag))
    assert found is not None
    assert found > 0.95  # measured: 0.98 and 0.98
    assert "moves as the file's gyroscope says" in gyro_in_words(found)


def test_a_picture_that_moves_otherwise_does_not(shaken: Shaken) -> None:
    clip, other = shaken(0.6, pairs=60), shaken(0.6, pairs=60, seed=9)
    found = gyro_agreement(clip, INTERVAL, blocks(other.dominant()))
    assert found is not None
    assert found < 0.8
    assert "does not move" in gyro_in_words(0.3)


def test_a_short_clip_says_nothing(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=20)
    assert gyro_agreement(clip, INTERVAL, blocks(clip.dominant())) is None
    assert gyro_agreement(shaken(0.6, pairs=60), INTERVAL, []) is None
