"""A dry run says what would be done, how long it would take and how large the output would be, and writes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import qrsc
from qrsc.cli.app import app
from qrsc.video.clip_plan import ClipPlan, in_bytes, in_words

from ..videos import Recipe, make_video, texture_frames


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_video(tmp_path / "in.mp4", Recipe(texture_frames(16), sound=1))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_nothing_is_written_and_everything_is_told(clip: Path, tmp_path: Path) -> None:
    said = run("correct", clip, "-o", tmp_path / "new" / "out.mp4", "--gamma", 0.5, "--fast", "--dry-run")
    assert "dry run: 16 frames would be written into" in said
    assert "preset fast, 64x48, libx264" in said
    assert re.search(r"time: about \d+ s; output: about \d+ kB", said)
    assert list(tmp_path.iterdir()) == [clip]


def test_the_size_is_that_of_the_output_by_and_large(clip: Path, tmp_path: Path) -> None:
    for name in ("out.mp4", "images"):
        planned = qrsc.correct_video(clip, tmp_path / name, gamma=0.5, preset="fast", dry_run=True)
        assert planned.plan is not None
        assert planned.plan.bytes is not None
        assert planned.frames == 0
        assert not (tmp_path / name).exists()
        result = qrsc.correct_video(clip, tmp_path / name, gamma=0.5, preset="fast")
        assert result.plan is None
        written = [result.output] if result.output.is_file() else list(result.output.iterdir())
        # As seen 0.8 and 1.0 of it: a short file consists of its header and its sound.
        assert planned.plan.bytes == pytest.approx(sum(path.stat().st_size for path in written), rel=0.4)


def test_a_clip_that_needs_nothing_would_be_copied(clip: Path, tmp_path: Path) -> None:
    said = run("correct", clip, "-o", tmp_path / "out.mp4", "--gamma", 0, "--dry-run", "--progress", "json")
    plan = json.loads(said.splitlines()[-1])["plan"]
    assert (plan["copied"], plan["frames"], plan["bytes"]) == (True, 16, clip.stat().st_size)
    assert "would be copied" in run("correct", clip, "-o", tmp_path / "out.mp4", "--gamma", 0, "--dry-run")


def test_a_part_and_slow_motion_have_other_numbers_of_frames(clip: Path, tmp_path: Path) -> None:
    part = run("correct", clip, "-o", tmp_path / "o.mp4", "--gamma", 0.5, "--fast", "--duration", 0.3, "--dry-run")
    assert "dry run: 9 frames" in part
    slow = run("slowmo", clip, "-o", tmp_path / "o.mp4", "--gamma", 0.5, "--fast", "--factor", 3, "--dry-run")
    assert "dry run: 46 frames" in slow


def test_bad_options_are_refused_as_in_a_run(clip: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["correct", str(clip), "-o", str(clip), "--gamma", "0.5", "--dry-run"])
    assert result.exit_code == 2


def test_long_runs_name_what_is_quicker() -> None:
    def told(seconds: float | None, preset: str = "default") -> str:
        return ClipPlan(False, 9, preset, None, (48, 64), seconds, 2_500_000).text(Path("o"))  # type: ignore[arg-type]

    assert "time: about 20 minutes; output: about 2.5 MB\n--fast is the quickest preset" in told(1200.0)
    assert "quickest" not in told(500.0)
    assert "quickest" not in told(1200.0, "fast")
    assert "time: unknown" in told(None)
    assert in_words(7200.0) == "about 2.0 hours"
    assert in_bytes(3_200_000_000) == "about 3.2 GB"
    assert in_bytes(None) == "of unknown size"
