"""What is wrong with a run is seen: a check that overlooks everything would pass every file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ..videos import Recipe, make_video, texture_frames
from .damaged import file_trial
from .forked import Ended
from .trial import NO_THREAD, Trial, decoded_frames

DONE = json.dumps({"event": "done", "frames": 3}) + "\n" + json.dumps({"event": "decoded", "frames": 3}) + "\n"
GOOD = Ended(code=0, hung=False, seconds=1.0, peak_bytes=300 << 20, output=DONE, errors="note: something\n")


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    made = file_trial("a trial", b"content", ".mp4", tmp_path / "trial")
    (made.folder / "out.mp4").touch()
    return made


def test_a_good_end_is_no_complaint(trial: Trial) -> None:
    assert trial.complaints(GOOD) == []
    (trial.folder / "out.mp4").unlink()
    assert trial.complaints(replace(GOOD, code=2, output="", errors="error: it is no video.\n")) == []
    of_x264 = "x264 [error]: malloc of size 2050 failed\nerror: .mp4 cannot be written.\n"
    assert trial.complaints(replace(GOOD, code=2, output="", errors=of_x264)) == []


@pytest.mark.parametrize(
    ("end", "complaint"),
    [
        ({"hung": True, "code": -9}, "hang"),
        ({"code": -11}, "crash: ended by signal 11"),
        ({"code": 1}, "exit code 1"),
        ({"errors": "Traceback (most recent call last):\n  File ...\nKeyError: 'x'\n"}, "traceback: KeyError: 'x'"),
        ({"errors": "[libx265] encoded 8 frames\n"}, "stderr: '[libx265] encoded 8 frames'"),
        ({"errors": "x264 [error]: malloc of size 9 failed\n"}, "stderr: 'x264 [error]: malloc of size 9 failed'"),
        ({"errors": "error: a word of failure\n"}, "1 lines of error with exit code 0"),
        ({"code": 2, "errors": "note: no reason\n"}, "0 lines of error with exit code 2"),
        ({"code": 2, "errors": "error: bad input\n"}, "leftover: out.mp4"),
        ({"peak_bytes": (1 << 30) + (1 << 20)}, "memory: 1025 MB"),
        ({"output": DONE.replace("3}\n", "2}\n", 1)}, "not whole: [2] frames written, [3] found"),
        ({"output": ""}, "not whole: [] frames written, [] found"),
    ],
)
def test_a_bad_end_is_a_complaint(trial: Trial, end: dict[str, object], complaint: str) -> None:
    found = trial.complaints(replace(GOOD, **end))  # type: ignore[arg-type]  # fields by name
    assert any(each.startswith(complaint) for each in found), found


def test_files_that_should_not_be_there_are_complaints(trial: Trial) -> None:
    (trial.folder / ".out.mp4.1-12345678.partial.mp4").touch()
    assert trial.complaints(GOOD) == ["leftover: .out.mp4.1-12345678.partial.mp4"]


@pytest.mark.parametrize(
    "end",
    [
        {"code": 127, "errors": f"note: something\n{NO_THREAD}"},
        {"code": -6, "errors": "free(): invalid pointer\n"},
        {"code": -9, "hung": True, "errors": "Exception ignored in thread started by: <object repr() failed>\n"},
    ],
)
def test_a_starved_run_may_end_like_a_kill(trial: Trial, end: dict[str, object]) -> None:
    starved = replace(trial, starved=True)
    ended = replace(GOOD, output="", **end)  # type: ignore[arg-type]  # fields by name
    (trial.folder / "out.mp4").unlink()
    (trial.folder / ".out.mp4.1-12345678.partial.mp4").touch()
    assert starved.complaints(ended) == []
    assert trial.complaints(ended)
    assert starved.complaints(replace(ended, code=1, hung=False, errors="Traceback: no memory\n"))
    (trial.folder / "out.mp4").touch()
    assert starved.complaints(ended) == ["leftover: out.mp4"]


def test_an_input_that_changes_is_a_complaint(trial: Trial) -> None:
    trial.source.write_bytes(b"Content")
    assert trial.complaints(GOOD) == ["input changed"]
    trial.source.unlink()
    assert trial.complaints(GOOD) == ["input changed"]


def test_frames_of_an_output_are_decoded(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", Recipe(texture_frames(5), "ffv1", options={}))
    assert decoded_frames(whole) == 5
    torn = tmp_path / "torn.mkv"
    torn.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    assert decoded_frames(torn) < 5
    assert decoded_frames(tmp_path / "nowhere.mkv") == -1


FORKED = """
import os, sys, time
from pathlib import Path
from tests.fuzz.forked import run_forked

def greedy():
    kept = bytearray(300 << 20)
    kept[::4096] = b"x" * len(kept[::4096])
    return 0

def failing():
    raise KeyError("x")

works = {"good": lambda: 3, "hang": lambda: time.sleep(60), "crash": os.abort, "greedy": greedy, "failing": failing}
for name, ended in run_forked(works.items(), Path(sys.argv[1]), longest=1.0):
    print(name, ended.code, ended.hung, ended.peak_bytes > 300 << 20, "KeyError" in ended.errors)
"""


def test_processes_end_as_they_do(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", FORKED, str(tmp_path)], capture_output=True, text=True, cwd=root)
    assert sorted(done.stdout.splitlines()) == [
        "crash -6 False False False",
        "failing 1 False False True",
        "good 3 False False False",
        "greedy 0 False True False",
        "hang -9 True False False",
    ], done.stderr
    assert list(tmp_path.iterdir()) == []
