"""A preview of two seconds is written before the clip itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import qrsc
from qrsc.cli.app import app
from qrsc.media.probe import clip_info
from qrsc.media.reader import read_pixels
from qrsc.video.preview import PREVIEW_SECONDS, previewed

from ..videos import Recipe, make_video, texture_frames


def test_two_seconds_of_the_middle_are_shown_before_and_after(tmp_path: Path) -> None:
    clip, seen = make_video(tmp_path / "in.mp4", Recipe(texture_frames(90))), tmp_path / "seen.mp4"
    there: list[bool] = []
    result = qrsc.correct_video(
        clip,
        tmp_path / "out.mp4",
        gamma=0.5,
        preset="fast",
        preview=seen,
        on_frame=lambda _: there.append(seen.is_file()),
    )
    assert (result.frames, all(there), len(there)) == (90, True, 90)
    info, source = clip_info(seen), clip_info(clip)
    assert info is not None
    assert source is not None
    assert info.size == (source.size[0], 2 * source.size[1])
    assert info.frames == round(PREVIEW_SECONDS * source.fps)
    start, _ = previewed(source, None, None)
    first, before = next(iter(read_pixels(seen))), list(read_pixels(clip))[round(start * source.fps)]
    left, right = first[:, : source.size[1]].astype(float), first[:, source.size[1] :].astype(float)
    assert abs(left - before).mean() < 6.0 < abs(left - right).mean()
    assert any("seen.mp4 shows seconds" in note for note in result.notes)


def test_a_part_is_previewed_inside_of_it(tmp_path: Path) -> None:
    info = clip_info(make_video(tmp_path / "in.mp4", Recipe(texture_frames(90))))
    assert info is not None
    assert previewed(info, 1.0, None)[0] >= 1.0
    assert previewed(info, 0.2, 1.0) == (0.2, 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--preview in.mp4", "--preview is the input"),
        ("--preview out.mp4", "the output and --preview are both"),
        ("--preview both.mp4 --compare both.mp4", "--compare and --preview are both"),
        ("--preview seen.png", "--preview writes a video"),
        ("--preview seen.mp4 --dry-run", "a dry run writes nothing"),
        ("--preview there.mp4", "there.mp4 exists"),
    ],
)
def test_previews_that_cannot_be_are_refused_before_any_work(
    options: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    (tmp_path / "there.mp4").write_bytes(b"")
    before = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    result = CliRunner().invoke(app, ["correct", "in.mp4", "-o", "out.mp4", "--gamma", "0.5", *options.split()])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == before


def test_folders_have_no_seconds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a preview is of a video"):
        qrsc.correct_video(tmp_path, tmp_path / "out", gamma=0.5, fps=30, preview=tmp_path / "seen.mp4")
