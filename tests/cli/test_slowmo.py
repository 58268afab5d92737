from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.media.image_folder import list_frames, read_frame, write_frame
from qrsc.media.reader import read_video

from ..videos import Recipe, facts, make_video, texture_frames

STAMPS = [3000, 6000, 9000, 15000, 18000]  # the third frame stays for two intervals


def slowed(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["slowmo", *(str(argument) for argument in arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def fails(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["slowmo", *(str(argument) for argument in arguments)])
    assert result.exit_code == 2, result.output
    return result.output


def test_longer_at_the_same_rate_without_sound(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(5), stamps=STAMPS, sound=1, rotation=90))
    said = slowed(source, "-o", tmp_path / "out.mp4", "--factor", 3, "--gamma", 0.5)
    assert "its sound is left out" in said
    assert "13 frames made for" in said
    before, after = facts(source), facts(tmp_path / "out.mp4")
    steps = [1000] * 6 + [2000] * 3 + [1000] * 3
    assert after.times == [3 * (before.times[0] + Fraction(sum(steps[:k]), 90000)) for k in range(13)]
    assert after.tracks == []
    assert after.matrix == facts(source).matrix


def test_the_same_duration_at_a_higher_rate_with_sound(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(5), stamps=STAMPS, sound=1))
    slowed(source, "-o", tmp_path / "out.mp4", "--factor", 4, "--keep", "duration", "--gamma", 0.5)
    before, after = facts(source), facts(tmp_path / "out.mp4")
    assert len(after.times) == 17
    assert after.times[::4] == before.times
    assert after.times[1] - after.times[0] == Fraction(750, 90000)
    assert after.tracks == before.tracks


def test_frames_between_show_the_motion_between(tmp_path: Path) -> None:
    # A global shutter, 4 px a frame: two instants are 2 px apart.
    frames = texture_frames(6, 72, 96, step=4)
    source = make_video(tmp_path / "in.mkv", Recipe(frames, "ffv1", "yuv444p", options={}))
    slowed(source, "-o", tmp_path / "out.mkv", "--factor", 2, "--gamma", 0)
    made = list(read_video(tmp_path / "out.mkv"))
    assert len(made) == 11
    halfway = made[5]  # between frames 2 and 3
    inner = (..., slice(10, -10), slice(16, -16))
    shifted = frames[2].roll(2, -1)
    assert float((halfway - shifted)[inner].abs().mean()) < 0.01
    assert float((halfway - frames[2])[inner].abs().mean()) > 0.03


def test_folders_go_in_and_out(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    for number, frame in enumerate(texture_frames(4)):
        write_frame(source / f"{number}.png", frame)
    slowed(source, "-o", tmp_path / "out", "--factor", 2, "--gamma", 0.5)
    assert [path.name for path in list_frames(tmp_path / "out")] == [f"{k:06d}.png" for k in range(7)]
    assert torch.isfinite(read_frame(tmp_path / "out" / "000003.png").frame).all()
    slowed(source, "-o", tmp_path / "out.mp4", "--factor", 2, "--gamma", 0.5, "--fps", 25, "-q")
    assert facts(tmp_path / "out.mp4").times == [Fraction(k, 25) for k in range(7)]
    assert "give that of the video as --fps" in fails(source, "-o", tmp_path / "b.mp4", "--factor", 2, "--gamma", 0.5)


@pytest.mark.parametrize("factor", [0, 65, "two"])
def test_factors_that_make_no_sense_are_refused(tmp_path: Path, factor: object) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(2)))
    fails(source, "-o", tmp_path / "out.mp4", "--factor", factor, "--gamma", 0.5)
    assert not (tmp_path / "out.mp4").exists()
