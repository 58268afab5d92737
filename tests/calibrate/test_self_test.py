from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from qrsc.calibrate import self_test
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.estimate import Calibration
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
    first: list[Calibration] = []
    found = checked_readout(shaken(0.6, pairs=48, seed=2), early=first.append)
    assert found.determined, found.reason
    assert [found.gamma] == [estimate.gamma for estimate in first]
    assert found.low <= 0.6 <= found.high


def test_a_clip_whose_shear_says_nothing_needs_a_sharper_estimate(
    shaken: Shaken, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = shaken(0.6, pairs=48, seed=2)
    before = checked_readout(clip)
    monkeypatch.setattr("qrsc.calibrate.estimate.shear_slopes", lambda linear: [])
    found = checked_readout(clip)
    assert found.error == pytest.approx(1.5 * before.error)


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


def estimates(monkeypatch: pytest.MonkeyPatch, whole: Calibration, *halves: Calibration) -> None:
    """Let a clip of 40 pairs of frames and its halves have these estimates."""
    left = list(halves)
    monkeypatch.setattr(
        self_test, "estimate_readout", lambda motions, **options: whole if motions.pairs == 40 else left.pop(0)
    )


def test_a_half_whose_direction_is_open_still_contradicts(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of a clip with frames missing here and there: jumps without shear make its second half a global shutter.
    whole = replace(FOUND, gamma=0.009, low=0.0, high=0.036, least=-0.017, error=0.013, scan="top-down")
    first = replace(whole, gamma=0.208, low=0.0, high=0.256, least=-0.256, error=0.024, determined=False)
    estimates(monkeypatch, whole, first, replace(whole, gamma=0.003, error=0.012))
    found = checked_readout(shaken(0.2, pairs=40))
    assert not found.determined
    assert found.altered
    assert found.high >= 0.208
    assert "(gamma 0.21 ± 0.05, 0.00 ± 0.02)" in found.reason


def test_the_test_begins_when_the_first_estimate_has_been_taken(
    shaken: Shaken, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def estimate(motions: ClipMotions, **options: Any) -> Calibration:
        asked.append(motions.pairs)
        return FOUND

    monkeypatch.setattr(self_test, "estimate_readout", estimate)
    checked_readout(shaken(0.6, pairs=40), early=lambda found: asked.append(-1))
    assert asked == [40, -1, 20, 20]


def test_halves_widen_the_interval_of_an_open_clip(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(FOUND, gamma=0.69, low=0.62, high=0.76, least=0.62, error=0.034, determined=False, reason="vague")
    halves = [replace(whole, gamma=gamma, error=0.05) for gamma in (0.60, 0.78)]
    estimates(monkeypatch, whole, *halves)
    found = checked_readout(shaken(0.6, pairs=40))
    ratio = 0.18 / np.hypot(0.05, 0.05)  # of Birge
    assert not found.determined
    assert not found.altered
    assert found.half_width == pytest.approx(2 * 0.034 * ratio)


def test_what_else_is_open_about_a_clip_stays_open(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(FOUND, least=-0.54, low=0.0, determined=False, reason="either direction")
    estimates(monkeypatch, whole, FOUND, FOUND)
    found = checked_readout(shaken(0.6, pairs=40))
    assert (found.determined, found.reason, found.least) == (False, "either direction", -0.54)


def test_a_piece_against_the_given_scan_is_enough() -> None:
    against = replace(FOUND, gamma=0.0, low=0.0, high=0.0, least=-0.35, determined=False, reason="opposite")
    found = combined([OPEN, against])
    assert (found.determined, found.is_global, found.against_scan) == (False, False, True)
    assert combined([against, replace(FOUND, gamma=0.01, low=0.0, high=0.03, least=-0.01)]).reason == "opposite"


def test_one_altered_piece_is_enough() -> None:
    stabilised = replace(FOUND, least=-1.0, low=0.0, high=1.0, determined=False, altered=True, reason="stabilised")
    found = combined([FOUND, stabilised])
    assert (found.determined, found.altered, found.reason) == (False, True, "stabilised")
    assert found.pairs == FOUND.pairs + stabilised.pairs
