"""The calls of the library that the page makes, without a server."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import pytest

from qrsc.media.orientation import IDENTITY
from qrsc.media.probe import count_frames, probe
from qrsc.web.settings import Settings
from qrsc.web.work import TimeLine, Watch, look, plays_in_browsers, preview, run, stills

from ..videos import Recipe, make_video, seen, texture


def make(path: Path, frames: int = 6, **more: Any) -> Path:
    return make_video(path, Recipe([seen(texture(0), time / 2) for time in range(frames)], **more))


def test_a_clip_is_looked_at_as_people_see_it(tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4", rotation=-90, metadata={"make": "Acme", "model": "Shaky 3"})
    seen_as = look(clip, tmp_path)
    assert (seen_as["width"], seen_as["height"], seen_as["frames"], seen_as["codec"]) == (72, 96, 6, "h264")
    assert seen_as["fps"] == pytest.approx(30)
    first = cv2.imread(str(tmp_path / "first.jpg"))
    assert first is not None
    assert first.shape == (96, 72, 3)
    assert json.dumps(seen_as)


@pytest.mark.parametrize(
    ("suffix", "codec", "pixel_format", "plays"),
    [
        (".mp4", "libx264", "yuv420p", True),
        (".mov", "libx264", "yuv420p", True),
        (".mkv", "libx264", "yuv420p", False),
        (".mp4", "libx264", "yuv444p", False),
        (".mp4", "libx265", "yuv420p", False),
        (".webm", "libvpx-vp9", "yuv420p", True),
    ],
)
def test_what_browsers_play(tmp_path: Path, suffix: str, codec: str, pixel_format: str, plays: bool) -> None:
    clip = make(tmp_path / f"in{suffix}", 3, codec=codec, pixel_format=pixel_format, options={})
    assert plays_in_browsers(clip, probe(clip)) == plays


def test_what_browsers_do_not_play_is_shown_by_a_copy_that_they_do(tmp_path: Path) -> None:
    clip = make(tmp_path / "source.mkv", codec="ffv1", options={})
    (tmp_path / "run").mkdir()
    settings = Settings(readout="gamma", gamma=0.8, preset="fast")
    shown: list[int] = []
    done = run(clip, tmp_path / "run", settings, Watch(shown=shown.append), "my clip.mkv")
    assert probe(tmp_path / "run" / "result.mkv").codec == "ffv1"
    for name in (done["before"], done["after"], "compare.mp4"):
        path = tmp_path / "run" / name
        assert plays_in_browsers(path, probe(path))
        assert count_frames(path) == 6
    told = json.loads((tmp_path / "run" / "result.json").read_text())
    assert (told["output"], told["timeline"]["frames"], told["settings"]["gamma"]) == ("my clip-corrected.mkv", 6, 0.8)
    assert shown[0] == 1
    assert (tmp_path / "run" / "thumb.jpg").is_file()


def test_the_time_line_is_of_the_last_try_alone(tmp_path: Path) -> None:
    line = TimeLine(tmp_path, IDENTITY, None)
    for unsure, cut, repeats in ((0.9, True, True), (0.8, False, False), (0.1, False, True), (0.2, True, False)):
        line.add(SimpleNamespace(unsure=unsure, after_cut=cut, repeats=repeats))  # type: ignore[arg-type]
    assert line.figures(2) == {"frames": 2, "cuts": [1], "repeated": [0], "unsure": [0.1, 0.2]}
    assert line.figures(0) == {"frames": 0, "cuts": [], "repeated": [], "unsure": []}  # of a copy


def test_a_preview_is_a_part_of_the_clip_and_stills_are_one_frame_of_it(tmp_path: Path) -> None:
    clip = make(tmp_path / "in.mp4", 9, stamps=[30000 * index for index in range(9)])  # 3 frames per second
    done = preview(clip, tmp_path, Settings(readout="gamma", gamma=0.8, start=100.0), Watch())
    for name in (done["before"], done["after"]):
        assert count_frames(tmp_path / name) == 6  # the last two seconds, since there are no later ones
    assert done["calibration"] is None
    (tmp_path / "again").mkdir()
    beginning = preview(clip, tmp_path / "again", Settings(readout="gamma", gamma=0.8), Watch())
    assert beginning["before"] == "in.mp4"  # which browsers play as it is
    assert stills(clip, tmp_path, "top-down")["gammas"] == pytest.approx([index / 10 for index in range(11)])
    pictures = {(tmp_path / f"still-{number:02d}.jpg").read_bytes() for number in range(11)}
    assert len(pictures) == 11
