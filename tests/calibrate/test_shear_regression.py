from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.estimate import estimate_readout
from qrsc.calibrate.shear_regression import (
    Slope,
    contradicting_slope,
    doubt,
    linear_motions,
    shear_change,
    shear_slopes,
)

Shaken = Callable[..., ClipMotions]


def stabilised(clip: ClipMotions, strength: float, width: float) -> ClipMotions:
    """A clip whose frames were shifted after recording, so that the path of the picture is smoother."""
    path = np.concatenate([np.zeros((1, 2)), clip.shift.mean(1).cumsum(0)])
    distance = np.arange(len(path))[:, None] - np.arange(len(path))
    kernel = np.exp(-0.5 * (distance / width) ** 2)
    smooth = kernel @ path / kernel.sum(1, keepdims=True)
    moved = strength * (smooth - path)
    return replace(clip, shift=clip.shift + np.diff(moved, axis=0)[:, None])


@pytest.mark.parametrize("gamma", [0.0, 0.35, 0.9])
def test_shear_over_acceleration_is_the_readout(shaken: Shaken, gamma: float) -> None:
    clip = shaken(gamma, pairs=60, seed=1)
    for motions, sign in ((clip, 1.0), (clip.flipped(), -1.0)):
        slopes = shear_slopes(linear_motions(motions))
        assert len(slopes) == 2
        for slope in slopes:
            assert slope.gamma == pytest.approx(sign * gamma, abs=0.05)
            assert slope.error < 0.03
        assert contradicting_slope(shear_slopes(linear_motions(motions)), sign * gamma, 0.02) is None
        assert contradicting_slope(shear_slopes(linear_motions(motions)), sign * (gamma + 0.4), 0.02) is not None


def test_what_slow_and_fast_motion_both_deny_is_doubted() -> None:
    # A simulated clip that zooms: 0.650 was found, within 0.036, for 0.596.
    slopes = [Slope(0.371, 0.046), Slope(0.375, 0.039)]
    assert doubt(slopes, 0.650) == pytest.approx(0.279 - 0.1 - 0.092)
    assert doubt(slopes, 0.45) == 0.0  # within what is tolerated
    assert doubt(slopes, 0.373) == 0.0  # on either side
    assert doubt(slopes[:1], 0.650) == 0.0
    assert doubt([Slope(0.371, 0.2), slopes[1]], 0.650) == 0.0


def test_roll_and_zoom_are_no_shear(shaken: Shaken) -> None:
    clip = shaken(0.5, pairs=60, seed=1)
    offset = clip.position - clip.position.mean((0, 1))
    random = np.random.default_rng(2)
    roll, zoom = 0.02 * random.normal(size=(2, 60, 1))
    turned = np.stack([-roll * offset[..., 1], roll * offset[..., 0]], -1) + zoom[..., None] * offset
    for slope in shear_slopes(linear_motions(replace(clip, shift=clip.shift + turned))):
        assert slope.gamma == pytest.approx(0.5, abs=0.05)


def test_a_pair_over_which_something_near_passes_is_left_out(shaken: Shaken) -> None:
    clip = shaken(0.5, pairs=60, seed=1)
    shift = clip.shift.copy()
    shift[30] += 40.0 * np.random.default_rng(3).normal(size=shift[30].shape)
    for slope in shear_slopes(linear_motions(replace(clip, shift=shift))):
        assert slope.gamma == pytest.approx(0.5, abs=0.05)


def test_too_short_a_clip_says_nothing(shaken: Shaken) -> None:
    assert shear_slopes(linear_motions(shaken(0.5, pairs=12))) == []
    assert contradicting_slope(shear_slopes(linear_motions(shaken(0.5, pairs=12))), 0.9, 0.01) is None


def test_a_stabilised_clip_is_recognised(shaken: Shaken) -> None:
    # A part of the motion is gone, and its shear is not: the camera model finds a readout that is not there.
    found = estimate_readout(stabilised(shaken(0.3, pairs=60, seed=4), strength=0.7, width=4.0))
    assert not found.determined
    assert found.altered
    assert "no single readout explains the clip: it was probably stabilised" in found.reason
    assert (found.least, found.high) == (-1.0, 1.0)


def test_a_clip_that_no_readout_fits_is_recognised_as_stabilised(shaken: Shaken) -> None:
    clip = stabilised(shaken(0.6, pairs=60, seed=4), strength=0.8, width=4.0)
    slope = contradicting_slope(shear_slopes(linear_motions(clip)), 1.0, np.inf)
    assert slope is not None
    assert slope.gamma > 1.3
    assert contradicting_slope(shear_slopes(linear_motions(shaken(0.9, pairs=60, seed=4))), 1.0, np.inf) is None


def test_the_shear_of_a_global_shutter_changes_by_noise_only(shaken: Shaken) -> None:
    clip = shaken(0.0, pairs=60, seed=1)
    assert shear_change(linear_motions(clip)) < 0.05  # 0.02
    assert shear_change(linear_motions(shaken(0.6, pairs=60, seed=1))) > 1.0  # 1.9
    down = (clip.position[..., 1] - clip.position[..., 1].mean()) / clip.size[0]  # [P, C]
    lean = np.where(np.arange(60) % 2, 1.0, -1.0)[:, None]  # pixels from top to bottom
    sheared = replace(clip, shift=clip.shift + np.stack([lean * down, np.zeros_like(down)], -1))
    assert shear_change(linear_motions(sheared)) == pytest.approx(2.0, abs=0.05)
    assert shear_change(linear_motions(clip.part(0, 1))) == 0.0


def test_a_vague_global_shutter_is_not_found_where_shear_changes(
    shaken: Shaken, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = shaken(0.0, pairs=60, seed=1)
    monkeypatch.setattr("qrsc.calibrate.estimate.shear_change", lambda motions: 0.9)
    assert estimate_readout(clip).is_global  # within an interval of 0.024 to either side
    monkeypatch.setattr("qrsc.calibrate.estimate.SHARP_GLOBAL", 0.02)
    found = estimate_readout(clip)
    assert not found.determined
    assert found.altered
    assert "moves as with a global shutter, but its shear changes by 0.9 px from frame to frame" in found.reason
    assert (found.least, found.high) == (-1.0, 1.0)
