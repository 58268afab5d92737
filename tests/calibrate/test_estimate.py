from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from qrsc.calibrate import estimate
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.coarse_search import CoarseSearch
from qrsc.calibrate.estimate import estimate_readout

Shaken = Callable[..., ClipMotions]


@pytest.mark.parametrize("gamma", [0.3, 0.85])
def test_the_readout_of_a_shaken_clip_is_found(shaken: Shaken, gamma: float) -> None:
    found = estimate_readout(shaken(gamma))
    assert found.determined, found.reason
    assert found.scan == "top-down"
    assert found.gamma == pytest.approx(gamma, abs=0.02)  # measured: 0.015 and 0.006
    assert found.low <= gamma <= found.high
    assert found.half_width < 0.05


def test_every_scan_is_told_apart(shaken: Shaken) -> None:
    clip = shaken(0.6, seed=2)
    for motions, scan in (
        (clip.flipped(), "bottom-up"),
        (clip.transposed(), "left-right"),
        (clip.flipped().transposed(), "right-left"),
    ):
        found = estimate_readout(motions, either_axis=True)
        assert (found.determined, found.scan) == (True, scan)
        assert found.gamma == pytest.approx(0.6, abs=0.015)


def test_the_scan_is_taken_to_run_along_the_shorter_side(shaken: Shaken) -> None:
    clip = shaken(0.6, seed=2)
    for motions, scan in ((clip, "top-down"), (clip.transposed(), "left-right")):
        found = estimate_readout(motions)
        assert (found.determined, found.scan) == (True, scan)
    wide = replace(clip.transposed(), size=clip.size)  # as if a camera had been read column by column
    assert estimate_readout(wide).scan in ("top-down", "bottom-up")


def test_a_moving_object_does_not_bias_gamma(shaken: Shaken) -> None:
    clip = shaken(0.7, seed=3)
    shift = clip.shift.reshape(clip.pairs, 12, 16, 2).copy()
    shift[:, 3:9, 2:8] += np.array([9.0, -4.0])  # an independent motion of three sixteenths of the picture
    found = estimate_readout(replace(clip, shift=shift.reshape(clip.shift.shape)))
    assert found.determined, found.reason
    assert found.gamma == pytest.approx(0.7, abs=0.02)


def test_a_ground_that_moves_faster_below_does_not_bias_gamma(shaken: Shaken) -> None:
    clip = shaken(0.5, seed=4)
    depth = 1.0 + 0.3 * (clip.position[..., 1:] / clip.size[0] - 0.5)
    found = estimate_readout(replace(clip, shift=clip.shift * depth))
    assert found.determined, found.reason
    assert found.gamma == pytest.approx(0.5, abs=0.03)


def test_a_global_shutter_is_recognised(shaken: Shaken) -> None:
    found = estimate_readout(shaken(0.0, seed=5))
    assert found.is_global
    assert found.gamma < 0.04


@pytest.mark.parametrize(
    ("gamma", "low", "high", "expected"),
    [
        (0.03, 0.0, 0.06, True),
        (0.052, 0.017, 0.088, True),  # 0 is as good a guess, and a tenth of a frame is the most it could be
        (0.052, 0.041, 0.063, False),
        (0.08, 0.03, 0.13, False),
    ],
)
def test_an_interval_that_cannot_be_told_from_0_is_a_global_shutter(
    shaken: Shaken, gamma: float, low: float, high: float, expected: bool
) -> None:
    found = estimate_readout(shaken(0.6, pairs=5))
    assert not found.is_global  # the clip is too short
    assert replace(found, gamma=gamma, low=low, high=high, determined=True).is_global is expected
    assert not replace(found, gamma=gamma, low=low, high=high).is_global


@pytest.mark.parametrize(("amplitude", "drift", "word"), [(0.0, 0.0, "still"), (0.0, 9.0, "steady")])
def test_a_clip_without_change_determines_nothing(shaken: Shaken, amplitude: float, drift: float, word: str) -> None:
    found = estimate_readout(shaken(0.6, amplitude=amplitude, drift=drift))
    assert not found.determined
    assert word in found.reason
    assert (found.low, found.high) == (0.0, 1.0)


def test_noise_alone_determines_nothing(shaken: Shaken) -> None:
    motions = shaken(0.6, amplitude=0.0)
    random = np.random.default_rng(6)
    jitter = random.normal(size=(motions.pairs, 1, 2))  # the picture jumps about, but every row alike
    bands = 0.3 * random.normal(size=(motions.pairs, 12, 1, 2)).repeat(16, 2).reshape(motions.shift.shape)
    found = estimate_readout(replace(motions, shift=motions.shift + jitter + bands))
    assert not (found.determined and not found.is_global)


def test_a_short_clip_says_so(shaken: Shaken) -> None:
    found = estimate_readout(shaken(0.6, pairs=5))
    assert not found.determined
    assert "too short" in found.reason


def test_a_known_scan_and_neighbourhood_are_kept(shaken: Shaken) -> None:
    found = estimate_readout(shaken(0.6, seed=7), scan="top-down", around=0.5)
    assert found.determined
    assert found.gamma == pytest.approx(0.6, abs=0.015)
    assert np.all(found.curve_gammas > -0.2)


def test_a_readout_against_the_given_scan_is_none(shaken: Shaken) -> None:
    upwards = shaken(0.12, seed=8).flipped()
    found = estimate_readout(upwards, scan="top-down")
    assert found.gamma == 0.0
    assert found.least < -0.05
    assert found.against_scan
    assert not found.is_global
    assert "opposite to the given one (gamma 0.1" in found.reason
    free = estimate_readout(upwards)
    assert (free.scan, free.both_directions) == ("bottom-up", False)
    assert free.gamma == pytest.approx(0.12, abs=0.03)


def test_the_worst_change_is_that_of_the_farther_end_of_the_interval(shaken: Shaken) -> None:
    found = replace(estimate_readout(shaken(0.6, pairs=5)), least=-0.2, high=0.7, fastest=10.0)
    assert found.worst_change(0.5) == pytest.approx(0.5 * 10.0 * 0.7)
    assert found.worst_change(0.1) == pytest.approx(0.5 * 10.0 * 0.6)


@pytest.mark.parametrize(
    ("fitted", "starts", "expected"),
    [
        ([0.3], [0.1], (-0.3, 0.01)),
        ([-0.12, 0.25], [0.1, 0.12], (0.25, 0.01)),
        ([-0.12, -0.12], [0.1, 0.12], (-0.1, np.inf)),
        ([1.1], [0.1], (-0.1, np.inf)),
    ],
)
def test_a_fit_at_the_end_of_its_range_starts_again_or_means_nothing(
    shaken: Shaken,
    monkeypatch: pytest.MonkeyPatch,
    fitted: list[float],
    starts: list[float],
    expected: tuple[float, float],
) -> None:
    asked: list[float] = []

    def fit_camera(model: object, gamma: float) -> tuple[SimpleNamespace, float]:
        asked.append(gamma)
        return SimpleNamespace(gamma=fitted[len(asked) - 1]), 0.01

    monkeypatch.setattr(estimate, "fit_camera", fit_camera)
    search = CoarseSearch("rows", np.zeros(1), np.zeros(1), -0.1, np.zeros(1), True)
    assert estimate._refined(search, shaken(0.25, pairs=12)) == expected
    assert asked == starts


def test_an_estimate_at_the_end_of_the_range_could_be_anything(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_refined", lambda search, motions: (1.0, np.inf))
    found = estimate_readout(shaken(0.6, pairs=20))
    assert (found.determined, found.least, found.high) == (False, -1.0, 1.0)
    assert "no gamma from 0 to 1 fits" in found.reason


def test_an_estimate_beyond_1_reaches_as_far_down_as_one_at_1(shaken: Shaken, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_refined", lambda search, motions: (1.056, 0.052))
    monkeypatch.setattr(estimate, "contradicting_slope", lambda motions, gamma, error: None)
    found = estimate_readout(shaken(0.9, pairs=20))
    assert (found.gamma, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(1.0 - 2 * 0.052)
