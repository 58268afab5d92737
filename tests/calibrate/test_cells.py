from __future__ import annotations

import cv2
import numpy as np
import pytest

from qrsc.calibrate.cells import cell_motions, gradient_frame

HEIGHT, WIDTH = 240, 320


def scene() -> np.ndarray:
    noise = np.random.default_rng(0).normal(size=(HEIGHT, WIDTH)).astype(np.float32)
    return np.clip(128 + 220 * cv2.GaussianBlur(noise, (0, 0), 2.0), 0, 255).astype(np.uint8)


def test_a_shear_that_the_flow_has_smoothed_away_is_found() -> None:
    first = scene()
    x, y = np.meshgrid(np.arange(WIDTH, dtype=np.float32), np.arange(HEIGHT, dtype=np.float32))
    shear = 1.2 / HEIGHT
    # Row y of the first picture, moved by 2 + shear (y - H / 2): a horizontal motion, so the backward warp is exact.
    moved = cv2.remap(first, x - (2.0 + shear * (y - HEIGHT / 2)), y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
    second = moved.astype(np.uint8)
    flow = np.zeros((HEIGHT, WIDTH, 2), dtype=np.float32)
    flow[..., 0] = 2.0
    found = cell_motions(gradient_frame(first), gradient_frame(second), flow)
    sure = found.weight > 0.3
    assert sure.mean() > 0.7
    expected = 2.0 + shear * (found.position[sure, 1] - HEIGHT / 2)
    assert np.median(np.abs(found.shift[sure, 0] - expected)) < 0.03
    slope = np.polyfit(found.position[sure, 1], found.shift[sure, 0], 1)[0]
    assert slope == pytest.approx(shear, rel=0.05)


def test_a_change_of_brightness_is_no_motion() -> None:
    first = scene()
    second = np.clip(first.astype(np.float32) + 12.0, 0, 255).astype(np.uint8)
    flow = np.zeros((HEIGHT, WIDTH, 2), dtype=np.float32)
    found = cell_motions(gradient_frame(first), gradient_frame(second), flow)
    assert np.abs(found.shift[found.weight > 0.3]).max() < 0.05


def test_a_cell_is_not_followed_out_of_the_picture() -> None:
    picture = scene()
    flow = np.zeros((HEIGHT, WIDTH, 2), dtype=np.float32)
    flow[..., 0] = 100.0
    moved = np.roll(picture, 100, axis=1)
    weight = cell_motions(gradient_frame(picture), gradient_frame(moved), flow).weight.reshape(12, 16)
    assert weight[:, -4:].max() == 0.0
    assert weight[:, 2:8].min() > 0.1
