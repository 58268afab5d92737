from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qrsc.media.errors import MediaError
from qrsc.media.orientation import IDENTITY, degrees, matrix_from_bytes, mirrored, upright
from qrsc.media.probe import probe
from qrsc.media.tracks import set_rotation_in_file
from qrsc.timing import SCANS, Readout
from qrsc.video.readout import choose_scan

from ..videos import Recipe, facts, make_video, texture_frames

ONE = 65536
QUARTERS = {
    0: IDENTITY,
    90: (0, ONE, 0, -ONE, 0, 0, 0, 0, 1 << 30),
    180: (-ONE, 0, 0, 0, -ONE, 0, 0, 0, 1 << 30),
    270: (0, -ONE, 0, ONE, 0, 0, 0, 0, 1 << 30),
}
FLIPPED = (-ONE, 0, 0, 0, ONE, 0, 0, 0, 1 << 30)


@pytest.mark.parametrize("turned", list(QUARTERS))
def test_matrices_say_how_far_a_picture_is_turned(turned: int) -> None:
    assert degrees(QUARTERS[turned]) == turned
    assert not mirrored(QUARTERS[turned])
    assert mirrored(FLIPPED)
    assert matrix_from_bytes(struct.pack("=9i", *QUARTERS[turned])) == QUARTERS[turned]


@pytest.mark.parametrize("turned", list(QUARTERS))
def test_pixels_are_turned_clockwise_for_display(turned: int) -> None:
    stored = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    assert np.array_equal(upright(stored, QUARTERS[turned]), np.rot90(stored, -turned // 90))
    assert np.array_equal(upright(stored, FLIPPED), stored[:, ::-1])
    assert np.array_equal(upright(stored, (ONE, 0, 0, 0, -ONE, 0, 0, 0, 1 << 30)), stored[::-1])
    assert np.array_equal(upright(stored, (0, ONE, 0, ONE, 0, 0, 0, 0, 1 << 30)), stored.swapaxes(0, 1))


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("turned", list(QUARTERS))
def test_a_scan_as_seen_is_turned_back_to_the_stored_frames(scan: Any, turned: int) -> None:
    said: list[str] = []
    info: Any = SimpleNamespace(matrix=QUARTERS[turned], size=(48, 64))
    stored = choose_scan(scan, info, said.append)
    assert stored is not None
    # Turning the stored picture clockwise for display turns its scan along: back to what the user said.
    assert Readout(0.5, stored).rotated(-turned // 90).scan == scan
    assert bool(said) == (stored != scan)


def test_what_is_assumed_without_a_scan_is_said() -> None:
    said: list[str] = []
    for matrix, size in [(IDENTITY, (48, 64)), (QUARTERS[90], (48, 64)), (IDENTITY, (64, 48))]:
        info: Any = SimpleNamespace(matrix=matrix, size=size)
        assert choose_scan(None, info, said.append) is None
    assert len(said) == 2
    assert "has a rotation tag: its stored frames, turned by 90° clockwise for display" in said[0]
    assert "portrait clip without a rotation tag" in said[1]
    assert "--scan left-right" in said[1]
    mirror: Any = SimpleNamespace(matrix=FLIPPED, size=(48, 64))
    assert choose_scan("left-right", mirror, said.append) == "right-left"
    assert "and mirrored for display" in said[2]


def test_a_rotation_is_what_players_do_with_it(tmp_path: Path) -> None:
    # PyAV speaks of counter-clockwise degrees.
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(2), rotation=90))
    assert degrees(probe(source).matrix) == 270


def test_the_tag_can_be_written_into_a_finished_file(tmp_path: Path) -> None:
    for name in ("plain.mp4", "plain.mov"):
        path = make_video(tmp_path / name, Recipe(texture_frames(2), sound=1))
        tracks = facts(path).tracks
        assert probe(path).matrix == IDENTITY
        set_rotation_in_file(path, QUARTERS[90])
        assert probe(path).matrix == QUARTERS[90]
        assert facts(path).tracks == tracks
    other = make_video(tmp_path / "plain.mkv", Recipe(texture_frames(2)))
    with pytest.raises(MediaError, match=r"\.mkv cannot hold the rotation tag"):
        set_rotation_in_file(other, QUARTERS[90])


def test_a_damaged_matrix_counts_as_none() -> None:
    assert matrix_from_bytes(struct.pack("=9i", 65536, 0, 0, 65536, 0, 0, 0, 0, 1 << 30)) == IDENTITY
    assert matrix_from_bytes(struct.pack("=9i", *QUARTERS[90])) == QUARTERS[90]
