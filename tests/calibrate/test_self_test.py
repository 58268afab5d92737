from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.dropped_frames import drops_frames
from qrsc.calibrate.estimate import estimate_readout
from qrsc.calibrate.self_test import checked_readout, combined, random_effects
from tests.calibrate.test_decision import FOUND, OPEN

Shaken = Callable[..., ClipMotions]


def joined(first: ClipMotions, second: ClipMotions) -> ClipMotions:
    """One clip after the other."""
    return ClipMotions(
        np.concatenate([first.position, second.position]),
        np.concatenate([first.shift, second.shift]),
        np.concatenate([first.weight, second.weight]),
        first.size,
    )


def test_estimates_that_agree_are_averaged() -> None:
    both = random_effects([0.5, 0.53], [0.02, 0.02])
    assert both.mean == pytest.approx(0.515)
    assert both.error == pytest.approx(0.02 / np.sqrt(2) * np.sqrt(1.125))  # Q is 1.125
    assert not both.contradictory


def test_what_they_differ_by_is_added() -> None:
    both = random_effects([0.5, 0.55], [0.02, 0.02])
    # Q = 3.125: the variance between them is 2.125 of their own.
    assert both.error == pytest.approx(np.sqrt(3.125) * 0.02 / np.sqrt(2))
    assert random_effects([0.883, 0.602], [0.019, 0.024]).contradictory
    assert not random_effects([0.883, 0.602], [0.019, np.inf]).contradictory


def test_a_clip_whose_halves_agree_stays_determined(shaken: Shaken) -> None:
    clip = shaken(0.6, pairs=48, seed=2)
    found = checked_readout(clip)
    assert found.determined, found.reason
    assert found.gamma == estimate_readout(clip).gamma
    assert found.low <= 0.6 <= found.high


def test_halves_that_contradict_each_other_determine_nothing(shaken: Shaken) -> None:
    # As where a camera stabilises: the readout that the motion suggests changes with the motion.
    found = checked_readout(joined(shaken(0.8, seed=1), shaken(0.5, seed=1)))
    assert not found.determined
    assert "contradict" in found.reason
    assert "stabilised" in found.reason
    assert found.low <= 0.55
    assert found.high >= 0.75


def test_pieces_that_agree_are_combined_and_others_contradict() -> None:
    one, other = replace(FOUND, gamma=0.50, error=0.03, determined=False), replace(FOUND, gamma=0.53, error=0.03)
    both = combined([one, other])
    assert both.determined
    assert (both.scan, both.pairs) == ("bottom-up", 120)
    assert both.gamma == pytest.approx(0.515)
    assert both.half_width == pytest.approx(2 * 0.03 / np.sqrt(2))
    apart = combined([one, replace(other, gamma=0.75), OPEN])
    assert not apart.determined
    assert "contradict" in apart.reason
    assert apart.low <= 0.44
    assert apart.high >= 0.81
    across = combined([one, replace(other, scan="top-down")])
    assert not across.determined
    assert across.both_directions


def test_pieces_without_motion_say_nothing() -> None:
    assert combined([OPEN, FOUND]).gamma == FOUND.gamma
    assert combined([OPEN, FOUND]).determined
    assert not combined([OPEN, OPEN]).determined


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
