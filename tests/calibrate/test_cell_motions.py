from __future__ import annotations

import cv2
import numpy as np
import pytest

from qrsc.calibrate.cell_motions import clip_motions
from qrsc.calibrate.cells import GRID


def textured(height: int, width: int, seed: int = 0) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(height, width)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.0)
    return np.clip(128 + 220 * smooth, 0, 255).astype(np.uint8)


def test_a_shifted_picture_moves_as_a_whole() -> None:
    scene = textured(260, 340)
    frames = [scene[10 - k : 250 - k, 10 + 2 * k : 330 + 2 * k] for k in range(3)]
    motions = clip_motions(frames, (240, 320))
    assert motions.shift.shape == (2, GRID[0] * GRID[1], 2)
    sure = motions.weight > 0.5
    assert sure.mean() > 0.7
    assert np.median(motions.shift[sure], axis=0) == pytest.approx([-2.0, 1.0], abs=0.1)
    assert np.all((motions.position > 0) & (motions.position < [320, 240]))


def test_small_frames_are_counted_in_pixels_of_the_clip() -> None:
    scene = textured(260, 340)
    frames = [scene[10:250, 10 + 2 * k : 330 + 2 * k] for k in range(2)]
    motions = clip_motions(frames, (480, 640))
    sure = motions.weight > 0.5
    assert np.median(motions.shift[sure][:, 0]) == pytest.approx(-4.0, abs=0.2)
    assert motions.position[..., 0].max() > 500


def test_a_cut_has_no_weight() -> None:
    motions = clip_motions([textured(240, 320, seed) for seed in (1, 2)], (240, 320))
    assert motions.weight.max() == 0.0


def test_one_frame_is_not_enough() -> None:
    with pytest.raises(ValueError, match="at least two frames"):
        clip_motions([textured(64, 64)], (64, 64))


def test_frames_of_two_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="one size"):
        clip_motions([textured(240, 320), textured(240, 300)], (240, 320))
