from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from qrsc.calibrate import calibrate_clip as module
from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.cells import Grey
from qrsc.calibrate.grey_frames import ClipSource, open_clip
from tests.calibrate.test_self_test import joined
from tests.videos import Recipe, make_video, texture_frames

Shaken = Callable[..., ClipMotions]
CLIP = ClipSource(Path("clip.mp4"), (480, 640), 30.0, "")


@pytest.mark.parametrize(
    ("frames", "starts"), [(None, (0,)), (100, (0,)), (239, (0,)), (240, (0, 120)), (1000, (0, 880, 440))]
)
def test_pieces_lie_all_over_the_clip(frames: int | None, starts: tuple[int, ...]) -> None:
    assert module.piece_starts(frames) == starts


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> dict[int, ClipMotions]:
    """Stands in for a clip of 1000 frames: the motions of its pieces, by their first frames."""
    motions: dict[int, ClipMotions] = {}
    monkeypatch.setattr(ClipSource, "frame_count", 1000)
    monkeypatch.setattr(module, "_motions", lambda clip, first, most, advance: motions[first])
    return motions


def test_a_clip_that_stands_still_at_first_is_determined_by_its_end(
    pieces: dict[int, ClipMotions], shaken: Shaken
) -> None:
    pieces |= {0: shaken(0.6, amplitude=0.0), 880: shaken(0.6, seed=2)}
    found = module.calibrate_clip(CLIP)
    assert found.determined, found.reason
    assert found.gamma == pytest.approx(0.6, abs=0.02)


def test_pieces_that_are_each_determined_have_to_agree(pieces: dict[int, ClipMotions], shaken: Shaken) -> None:
    pieces |= {0: shaken(0.85, seed=1), 880: shaken(0.55, seed=2), 440: shaken(0.7, seed=3)}
    found = module.calibrate_clip(CLIP)
    assert not found.determined
    assert "contradict" in found.reason
    assert found.low < 0.56
    assert found.high > 0.84


def test_the_halves_of_the_only_piece_that_moves_have_to_agree(pieces: dict[int, ClipMotions], shaken: Shaken) -> None:
    still = shaken(0.6, amplitude=0.0)
    pieces |= {0: still, 880: joined(shaken(0.8, pairs=24, seed=1), shaken(0.5, pairs=24, seed=1)), 440: still}
    found = module.calibrate_clip(CLIP)
    assert not found.determined
    assert "contradict" in found.reason


def test_frames_at_uneven_times_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = torch.stack(texture_frames(6)).mul(255).byte()[:, 0].numpy()  # [6, H, W]
    times = [0.0, 1.0, 3.0, 4.0, np.nan, 5.0]

    def timed(self: ClipSource, *arguments: Any) -> Iterator[tuple[Grey, float]]:
        yield from zip(frames, times, strict=True)

    monkeypatch.setattr(ClipSource, "timed_frames", timed)
    size = (int(frames.shape[1]), int(frames.shape[2]))
    motions = module._motions(ClipSource(Path("clip.mp4"), size, 30.0, ""), 0, 6, None)
    assert motions.weight.any(axis=1).tolist() == [True, False, True, False, False]


def test_timestamps_reach_the_calibration(tmp_path: Path) -> None:
    stamps = [0, 1, 2, 4, 5]
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(5), stamps=[3000 * k for k in stamps]))
    clip = open_clip(source)
    assert [time for _, time in clip.timed_frames()] == pytest.approx(stamps, abs=0.05)
    assert len(list(clip.timed_frames(3))) == 2
    assert clip.frame_count == 5
