"""Simulated clips: a moving texture for tests, a street for pictures of the page."""

from __future__ import annotations

from pathlib import Path

from qrsc.media.mp4 import write_video
from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout

from ..videos import seen, texture

GAMMA = 0.8  # of the moving texture
TURN = 20  # frames after which it turns round


def moving_clip(path: Path, frames: int = 12, seed: int = 0) -> Path:
    """Write an MP4 of 96x72 pixels at 30 frames per second, in which rows are up to 7 px apart.

    The picture moves to and fro, so that every frame has to be corrected, however long the clip.
    """
    picture = texture(seed, 72, 120 + 7 * min(frames, 2 * TURN))
    times = (TURN - abs(index % (2 * TURN) - TURN) for index in range(frames))
    write_video(path, (seen(picture, time / 2) for time in times), fps=30)
    return path


def street_clip(path: Path, size: tuple[int, int] = (480, 640), frames: int = 72) -> Path:
    """Write an MP4 of a street, filmed by hand, with a readout of 20 ms at 30 frames per second.

    Args:
        path: of the file.
        size: `(H, W)`.
        frames: its length.
    """
    scene = demo_scene(size, frames, 0)
    write_video(path, (render_rs(scene, Readout(0.6), index)[0] for index in range(frames)), fps=30)
    return path
