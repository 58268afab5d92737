from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate import estimate
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.estimate import estimate_readout
from qrsc.calibrate.retiming import drops_frames, retiming, skipped_frames
from tests.calibrate.test_decision import FOUND

Shaken = Callable[..., ClipMotions]


def test_repeated_frames_are_recognised(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=48, seed=2)
    assert not clip.repeated().any()
    every = np.arange(48) % 5 == 4
    shift = np.where(every[:, None, None], 0.001, clip.shift)
    retimed = replace(clip, shift=shift)
    assert retimed.repeated().tolist() == every.tolist()
    found = estimate_readout(retimed)
    assert not found.determined
    assert "9 of 49 frames repeat the one before: the clip was re-timed" in found.reason


def test_a_single_repeated_frame_is_passed_over(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=48, seed=2)
    shift = clip.shift.copy()
    shift[21] += shift[20]
    shift[20] = 0.0
    found = estimate_readout(replace(clip, shift=shift))
    assert found.determined, found.reason
    assert found.gamma == pytest.approx(0.6, abs=0.02)


def test_a_frozen_tail_is_passed_over(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=48, seed=2)
    frozen = np.where((np.arange(48) >= 44)[:, None, None], 0.0, clip.shift)
    found = estimate_readout(replace(clip, shift=frozen))
    assert found.determined, found.reason
    assert found.gamma == pytest.approx(0.6, abs=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_frames_dropped_regularly_are_recognised_and_nothing_else(shaken: Shaken, seed: int) -> None:
    assert not drops_frames(shaken(0.6, pairs=90, drift=20.0, seed=seed))
    clip = shaken(0.6, pairs=90, amplitude=2.0, drift=20.0, seed=seed)
    assert not drops_frames(clip)
    every = np.arange(90) % 6 == 3
    assert drops_frames(replace(clip, shift=np.where(every[:, None, None], 2.0, 1.0) * clip.shift))


def test_a_clip_with_dropped_frames_is_said_to_be_retimed(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=60, drift=20.0)
    every = np.arange(60) % 6 == 3
    found = estimate_readout(replace(clip, shift=np.where(every[:, None, None], 2.0, 1.0) * clip.shift))
    assert not found.determined
    assert "frames are missing at regular intervals" in found.reason
    assert (found.low, found.high) == (0.0, 1.0)


def test_frames_that_are_missing_here_and_there_are_recognised(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    # Variable rate played at a constant one: nothing repeats often enough, nothing is missing regularly.
    clip = shaken(0.5, pairs=60, amplitude=0.8, drift=12.0, seed=3)
    assert skipped_frames(clip) == 0
    times = np.ones(60)
    times[[7, 21, 26, 44, 51]] = 2.0, 3.0, 2.0, 2.0, 3.0
    skipping = replace(clip, shift=times[:, None, None] * clip.shift)
    assert skipped_frames(skipping) == 5
    monkeypatch.setattr(estimate, "_estimate", lambda *arguments: replace(FOUND, scan="top-down"))
    found = estimate_readout(skipping)
    assert not found.determined
    assert found.altered
    assert found.reason.startswith("frames are missing in 5 places: the clip was re-timed")
    assert (found.low, found.high) == (0.0, 1.0)


def test_one_or_two_jumps_are_no_retiming(shaken: Shaken) -> None:
    clip = shaken(0.5, pairs=60, amplitude=0.8, drift=12.0, seed=3)
    times = np.where(np.isin(np.arange(60), [21, 44]), 2.0, 1.0)
    skipping = replace(clip, shift=times[:, None, None] * clip.shift)
    assert retiming(skipping, skipping.repeated()) == ""
