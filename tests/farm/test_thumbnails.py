"""The pictures of a report show one frame before and after."""

from __future__ import annotations

import base64
from pathlib import Path

import cv2
import numpy as np
import torch

from qrsc.farm.thumbnails import thumbnail_of

from ..videos import Recipe, make_video


def decoded(url: str) -> np.ndarray:
    pixels = cv2.imdecode(np.frombuffer(base64.b64decode(url.split(",")[1]), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert pixels is not None
    return pixels


def test_both_halves_show_one_frame_whatever_the_key_frames(tmp_path: Path) -> None:
    greys = [torch.full((3, 48, 64), number / 30) for number in range(30)]
    sparse = make_video(tmp_path / "sparse.mp4", Recipe(greys, options={"crf": "8", "g": "30"}))
    dense = make_video(tmp_path / "dense.mkv", Recipe(greys, options={"crf": "8", "g": "7"}))
    pair = decoded(thumbnail_of(sparse, dense))
    assert pair.shape == (150, 400)
    halves = pair[:, :200].mean(), pair[:, 200:].mean()
    # 8.5 levels lie between two frames.
    assert abs(halves[0] - halves[1]) < 2.0
    assert abs(halves[0] - 255 * 15 / 30) < 10.0
    quarter_turn = (0, 65536, 0, -65536, 0, 0, 0, 0, 1 << 30)
    assert decoded(thumbnail_of(sparse, dense, quarter_turn)).shape == (267, 400)


def test_what_cannot_be_read_has_no_picture(tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    assert thumbnail_of(tmp_path / "broken.mp4", tmp_path / "broken.mp4") == ""
    assert thumbnail_of(tmp_path, tmp_path) == ""
