"""A clip that needs no correction is copied, byte for byte."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

import qrsc
from qrsc.backend.progress import Cancelled
from qrsc.cli.app import app

from ..videos import Recipe, make_video, texture_frames


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_video(tmp_path / "in.mp4", Recipe(texture_frames(6), sound=1))


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_a_clip_that_needs_nothing_is_the_input_to_the_byte(clip: Path, tmp_path: Path) -> None:
    code, said = run("correct", clip, "-o", tmp_path / "out.mp4", "--gamma", 0)
    assert code == 0, said
    assert (tmp_path / "out.mp4").read_bytes() == clip.read_bytes()
    assert "6 frames copied to" in said
    assert "nothing to correct" in said
    assert "verified: the output is the input, byte for byte" in said


def test_the_result_says_so(clip: Path, tmp_path: Path) -> None:
    result = qrsc.correct_video(clip, tmp_path / "out.mp4", gamma=0.5, strength=0.0)
    assert result.copied
    assert (result.frames, result.unchanged) == (6, 6)
    assert result.figures()["copied"] is True
    assert not qrsc.correct_video(clip, tmp_path / "moved.mp4", gamma=0.5, preset="fast").copied


@pytest.mark.parametrize("options", [(), ("--gamma", 0.5)])
def test_a_still_clip_is_the_input_to_the_byte(tmp_path: Path, options: tuple[object, ...]) -> None:
    still = make_video(tmp_path / "still.mp4", Recipe([texture_frames(1)[0]] * 8))
    code, said = run("correct", still, "-o", tmp_path / "out.mp4", "--fast", *options)
    assert code == 0, said
    assert (tmp_path / "out.mp4").read_bytes() == still.read_bytes()
    assert "8 frames copied to" in said
    assert "nothing to correct" in said


def test_a_folder_of_images_is_copied(clip: Path, tmp_path: Path) -> None:
    qrsc.correct_video(clip, tmp_path / "images", gamma=0.0)
    images = tmp_path / "images"
    assert qrsc.correct_video(images, tmp_path / "again", gamma=0.0).copied
    for path in images.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "options", [("--crf", 20), ("--start", 0.05), ("--end", 0.1), ("--border", "crop"), ("--codec", "h264")]
)
def test_what_asks_for_another_file_gets_one(clip: Path, tmp_path: Path, options: tuple[object, ...]) -> None:
    code, said = run("correct", clip, "-o", tmp_path / "out.mp4", "--gamma", 0, *options)
    assert code == 0, said
    assert "copied" not in said.replace("a clip is copied whole", "")
    assert (tmp_path / "out.mp4").read_bytes() != clip.read_bytes()


def test_another_file_format_is_encoded_and_said(clip: Path, tmp_path: Path) -> None:
    code, said = run("correct", clip, "-o", tmp_path / "out.mkv", "--gamma", 0)
    assert code == 0, said
    assert "note: nothing is corrected, but encoded anew" in said


def test_an_existing_file_stays_and_a_cancelled_copy_leaves_nothing(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrsc.video.pass_through.BLOCK", 100)
    (tmp_path / "there.mp4").write_bytes(b"mine")
    code, said = run("correct", clip, "-o", tmp_path / "there.mp4", "--gamma", 0)
    assert code == 2
    assert "add --overwrite" in said
    cancel = threading.Event()
    with pytest.raises(Cancelled):
        qrsc.correct_video(clip, tmp_path / "out.mp4", gamma=0.0, cancel=cancel, progress=lambda progress: cancel.set())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4", "there.mp4"]


def test_a_truncated_clip_is_copied_and_said(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", Recipe(texture_frames(12), "ffv1", options={}))
    torn = tmp_path / "torn.mkv"
    torn.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    code, said = run("correct", torn, "-o", tmp_path / "out.mkv", "--gamma", 0)
    assert code == 4, said
    assert "torn.mkv is truncated" in said
    assert (tmp_path / "out.mkv").read_bytes() == torn.read_bytes()
