from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import qrsc.video.correction_options
from qrsc import Corrected, Corrector, Readout
from qrsc.cli import options as commands
from qrsc.cli.app import app
from qrsc.media.image_folder import list_frames, read_frame, read_frames, write_frame
from qrsc.pipeline import BORDERS, UNSURE, MotionName, Seconds
from qrsc.pipeline.presets import get_preset
from qrsc.timing import Instant, Scan
from qrsc.warp import WarpMethod

NAMES = ["shot_2.png", "shot_10.png", "shot_11.png", "shot_12.png"]


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A folder `in` of four frames, 80x72: a smooth texture that runs to the right."""
    folder = tmp_path / "in"
    folder.mkdir()
    coarse = torch.rand(1, 3, 18, 28, generator=torch.Generator().manual_seed(0))
    texture = torch.nn.functional.interpolate(coarse, (72, 112), mode="bicubic")[0]  # [3, 72, 112]
    for index, name in enumerate(NAMES):
        left = 20 - 5 * index
        write_frame(folder / name, texture[:, :, left : left + 80])
    return folder


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def fails(*arguments: object) -> str:
    """The one line that a command with bad input prints."""
    code, output = invoke(*arguments)
    assert code == 2, output
    assert output.startswith("error: ")
    assert output.count("\n") == 1
    return output


def inventory(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- what it does ---


def test_frames_are_those_of_the_corrector(clip: Path, tmp_path: Path) -> None:
    code, output = invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0.8)
    assert code == 0, output
    assert [path.name for path in list_frames(tmp_path / "out")] == NAMES
    frames = [stored.frame for stored in read_frames(list_frames(clip))]
    expected = list(Corrector(Readout(0.8), field_scale=0.5).stream(frames))
    for name, corrected, frame in zip(NAMES, expected, frames, strict=True):
        written = read_frame(tmp_path / "out" / name).frame
        assert (written - corrected.frame).abs().max() <= 0.5 / 255 + 1e-6
        assert (written - frame).abs().max() > 0.1, "nothing was corrected"


def test_summary_says_what_was_done(clip: Path, tmp_path: Path) -> None:
    _, output = invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0.8)
    done, pixels, checked, times = output.rstrip("\n").splitlines()
    # 5 px a frame: at most gamma / 2 of it, half of that on average.
    assert "4 frames corrected into" in done
    mean, largest = (float(part.split(" px")[0].split()[-1]) for part in done.split(", ")[:2])
    assert mean == pytest.approx(1.0, abs=0.1)
    assert largest == pytest.approx(2.0, abs=0.5)
    assert done.endswith("s per frame")
    assert "0 scene cuts, 0 repeated frames, 0 frames left as they came" in pixels
    assert "too few points could be followed" in checked  # in four frames
    for work in ("decode", "flow", "motion", "warp", "fusion", "check", "encode"):
        assert f"{work} " in times


def test_progress_and_summary_as_json_lines(clip: Path, tmp_path: Path) -> None:
    _, output = invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0.8, "--progress", "json")
    *steps, done = (json.loads(line) for line in output.splitlines())
    assert [step["event"] for step in steps] == ["progress"] * len(steps)
    assert (steps[-1]["frame"], steps[-1]["frames"]) == (4, 4)
    assert (done["event"], done["frames"], done["output"]) == ("done", 4, str(tmp_path / "out"))
    assert done["mean_px"] == pytest.approx(1.0, abs=0.1)
    assert set(done["seconds_by_work"]) == {"decode", "flow", "motion", "warp", "fusion", "check", "encode"}


def test_quiet_prints_nothing(clip: Path, tmp_path: Path) -> None:
    assert invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0.8, "--quiet") == (0, "")


def test_depth_channels_and_input_are_kept(tmp_path: Path) -> None:
    clip = tmp_path / "in"
    clip.mkdir()
    rng = np.random.default_rng(0)
    for name, channels, largest in [("1.png", 4, 65535), ("2.tif", 1, 65535), ("3.bmp", 3, 255)]:
        pixels = rng.integers(0, largest, (64, 64, channels), endpoint=True)
        cv2.imwrite(str(clip / name), pixels.astype(np.uint16 if largest > 255 else np.uint8))
    before = inventory(clip)
    # A global shutter at the instant of its exposure: nothing moves, so every bit must come back.
    code, output = invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0, "--tau", 0)
    assert code == 0, output
    assert inventory(clip) == before
    for name in before:
        source, target = (cv2.imread(str(folder / name), cv2.IMREAD_UNCHANGED) for folder in (clip, tmp_path / "out"))
        assert source is not None
        assert target is not None
        np.testing.assert_array_equal(target, source)
        assert target.dtype == source.dtype


def test_single_frame_warns_in_one_line(clip: Path, tmp_path: Path) -> None:
    for name in NAMES[1:]:
        (clip / name).unlink()
    code, output = invoke("correct", clip, "-o", tmp_path / "out", "--gamma", 0.8, "-q")
    assert code == 0
    assert output == "warning: a clip of one frame shows no motion: it is returned as it is.\n"
    assert torch.equal(read_frame(tmp_path / "out" / NAMES[0]).frame, read_frame(clip / NAMES[0]).frame)


# --- options ---


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command asks of the corrector, which here returns its input."""
    asked: dict[str, Any] = {}

    class Recorder:
        changes_nothing = False
        preset = "default"

        def __init__(self, readout: Readout, **options: Any) -> None:
            basis = get_preset(options["preset"])  # what the real one takes where nothing is given
            suggested = {"fusion": basis.fusion, "flow": basis.flow, "field_scale": basis.field_scale}
            asked.update(options, readout=readout)
            asked.update({name: value for name, value in suggested.items() if options.get(name) is None})
            self.seconds = Seconds()

        def stream(self, frames: Iterable[Any]) -> Iterator[Corrected]:
            for frame, *_ in frames:
                asked["device"] = frame.device.type
                asked["threads"] = torch.get_num_threads()
                yield Corrected(frame, frame[:1] >= 0, frame[:2])

    monkeypatch.setattr(qrsc.video.correction_options, "Corrector", Recorder)
    return asked


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--gamma 0.5", {"readout": Readout(0.5), "tau": None}),
        ("--percent 40", {"readout": Readout(0.4)}),
        ("--readout 10 --fps 50", {"readout": Readout(0.5)}),
        ("--gamma 1 --scan right-left", {"readout": Readout(1.0, "right-left")}),
        ("--gamma 0.5 --tau -0.25", {"tau": -0.25}),
        ("--gamma 0.5 --at first", {"tau": 0.0}),
        ("--gamma 0.5 --at middle", {"tau": 0.25}),
        ("--gamma 0.5 --at last", {"tau": 0.5}),
        ("--gamma 0.5", {"motion": "path", "fusion": None, "warp": "invert", "frames": 5, "flow": None}),
        ("--gamma 0.5 --motion cubic --fusion none", {"motion": "cubic", "fusion": "none"}),
        ("--gamma 0.5 --warp splat --frames 3 --flow dis-fast", {"warp": "splat", "frames": 3, "flow": "dis-fast"}),
        ("--gamma 0.5 --device cpu", {"device": "cpu"}),
        ("--gamma 0.5", {"strength": 1.0, "border": "fill", "unsure": "linear", "scale": 1.0, "field_scale": 0.5}),
        ("--gamma 0.5 --fast", {"fusion": "mean", "flow": "dis", "field_scale": 0.25}),
        ("--gamma 0.5 --fast --fusion none", {"fusion": "none", "flow": "dis", "field_scale": 0.25}),
        ("--gamma 0.5 --best", {"fusion": None, "flow": "raft-rs-full+dis", "field_scale": 1.0}),
        ("--gamma 0.5 --strength 0.5 --scale 0.5", {"strength": 0.5, "scale": 0.5}),
        ("--gamma 0.5 --border repeat --unsure input", {"border": "repeat", "unsure": "input"}),
        ("--gamma 0.5 --border crop", {"border": "fill"}),
        ("--gamma 0.5 --fps 50", {"readout": Readout(0.5)}),
    ],
)
def test_options_reach_the_corrector(
    clip: Path, tmp_path: Path, asked: dict[str, Any], options: str, expected: dict[str, Any]
) -> None:
    code, output = invoke("correct", clip, "-o", tmp_path / "out", *options.split())
    assert code == 0, output
    assert {name: asked[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "threads"), [("--fast", 2), ("--fast --fusion rsa2-lite", 4), ("--fast --flow raft-rs", 4), ("", 4)]
)
def test_a_search_leaves_half_of_the_threads_to_the_correction(
    clip: Path, tmp_path: Path, asked: dict[str, Any], options: str, threads: int
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        code, output = invoke(
            "correct", clip, "-o", tmp_path / "out", "--gamma", 0.5, "--device", "cpu", *options.split()
        )
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    assert code == 0, output
    assert (asked["threads"], after) == (threads, 4)


def test_choices_are_those_of_the_library() -> None:
    assert get_args(commands.ScanOption) == get_args(Scan)
    assert get_args(commands.InstantOption) == get_args(Instant)
    assert get_args(commands.MotionOption) == get_args(MotionName)
    assert get_args(commands.WarpOption) == get_args(WarpMethod)
    assert get_args(commands.UnsureOption) == UNSURE
    assert set(get_args(commands.BorderOption)) == {*BORDERS, "crop", "crop-only", "transparent"}


# --- what it refuses ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--gamma 0.5 --percent 50", "got --gamma and --percent"),
        ("--gamma 0.5 --readout 10 --fps 50", "got --gamma and --readout"),
        ("--gamma 0.5 --camera pinhole", "got --gamma and --camera"),
        ("--readout 10", "needs --fps"),
        ("--gamma 0.5 --fast --best", "one of --fast and --best"),
        ("--gamma 0.5 --scale 2", "scale must be over 0 and at most 1"),
        ("--gamma 0.5 --border crop --margin 0.6", "over 0 and under 0.5"),
        ("--gamma 0.5 --start 1", "seconds of a video"),
        ("--gamma 0.5 --compare both.png", "--compare writes a video"),
        ("--gamma 33", "readout time as a fraction of the frame interval"),
        ("--percent 200", "from 0 to 100"),
        ("--readout 40 --fps 50", "does not fit between two frames"),
        ("--gamma nan", "from 0 to 1; got nan"),
        ("--gamma 0.5 --tau 0.1 --at first", "--tau (a time) or --at (a row)"),
        ("--gamma 0.5 --flow raft9", "unknown flow 'raft9'; choose one of dis"),
        (
            "--gamma 0.5 --fusion median",
            "unknown fusion 'median'; choose one of none, mean, coherent, rsa2, rsa2-lite, or a file",
        ),
        ("--gamma 0.5 --fusion absent.safetensors", "there is no weights file absent.safetensors"),
    ],
)
def test_options_that_do_not_fit(clip: Path, tmp_path: Path, options: str, message: str) -> None:
    assert message in fails("correct", clip, "-o", tmp_path / "out", *options.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [
        "--gama 0.5",
        "--gamma half",
        "--gamma 0.5 --scan sideways",
        "--gamma 0.5 --frames 7",
        "--gamma 0.5 --warp x",
        "more",
    ],
)
def test_unknown_options_and_words_fail(clip: Path, tmp_path: Path, options: str) -> None:
    code, output = invoke("correct", clip, "-o", tmp_path / "out", *options.split())
    assert code == 2
    assert "Traceback" not in output
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_device_that_is_not_there(clip: Path, tmp_path: Path) -> None:
    message = fails("correct", clip, "-o", tmp_path / "out", "--gamma", 1, "--device", "cuda")
    assert "torch sees no cuda device" in message


def test_input_that_cannot_be_read(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "no file or folder" in fails("correct", tmp_path / "nowhere", "-o", out, "--gamma", 1)
    (tmp_path / "empty").mkdir()
    assert "no images in" in fails("correct", tmp_path / "empty", "-o", out, "--gamma", 1)
    (tmp_path / "clip.mp4").touch()
    message = fails("correct", tmp_path / "clip.mp4", "-o", out, "--gamma", 1)
    assert "clip.mp4 cannot be read as a video" in message
    (clip / NAMES[2]).write_bytes(b"torn")
    assert f"{NAMES[2]} cannot be read" in fails("correct", clip, "-o", out, "--gamma", 1)
    write_frame(clip / NAMES[2], torch.zeros(3, 70, 80))
    assert f"{NAMES[2]} is 80x70 and {NAMES[0]} is 80x72" in fails("correct", clip, "-o", out, "--gamma", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clip.mp4", "empty", "in"]


def test_input_is_never_the_output(clip: Path, tmp_path: Path) -> None:
    before = inventory(tmp_path)
    (tmp_path / "link").symlink_to(clip, target_is_directory=True)
    for output in (clip, clip / ".." / "in", tmp_path / "link"):
        assert "the output is the input" in fails("correct", clip, "-o", output, "--gamma", 1, "--overwrite")
    for output in (clip / "out", tmp_path):
        assert "inside the other" in fails("correct", clip, "-o", output, "--gamma", 1, "--overwrite")
    (tmp_path / "link").unlink()
    assert inventory(tmp_path) == before


def test_existing_output_needs_overwrite(clip: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "diary.txt").write_text("mine")
    (out / NAMES[0]).write_text("old")
    before = inventory(out)
    assert "is not empty" in fails("correct", clip, "-o", out, "--gamma", 1)
    assert inventory(out) == before
    assert invoke("correct", clip, "-o", out, "--gamma", 1, "--overwrite")[0] == 0
    after = inventory(out)
    assert set(after) == {*NAMES, "diary.txt"}
    assert after["diary.txt"] == b"mine"
    assert after[NAMES[0]] != b"old"


# --- when it is stopped ---


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_stopped_in_the_middle_leaves_nothing(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stream(self: Corrector, frames: Iterable[Any]) -> Iterator[Corrected]:
        for index, (frame, *_) in enumerate(frames):
            if index == 2:
                raise error
            yield Corrected(frame, frame[:1] >= 0, frame[:2])

    monkeypatch.setattr(Corrector, "stream", stream)
    result = CliRunner().invoke(app, ["correct", str(clip), "-o", str(tmp_path / "new" / "out"), "--gamma", "1"])
    assert result.exit_code not in (0, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert sorted(path.name for path in clip.iterdir()) == sorted(NAMES)


def test_terminated_in_the_middle_leaves_nothing(clip: Path, tmp_path: Path) -> None:
    """A scheduler or `kill` sends SIGTERM, which would end Python without any clearing up."""
    code = f"""
import os, signal, sys
from qrsc.cli import main
from qrsc.pipeline import Corrected, Corrector
def stream(self, frames):
    for index, (frame, *_) in enumerate(frames):
        if index == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        yield Corrected(frame, frame[:1] >= 0, frame[:2])
Corrector.stream = stream
sys.argv = ["qrsc", "correct", {str(clip)!r}, "-o", {str(tmp_path / "out")!r}, "--gamma", "1"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 143, done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
