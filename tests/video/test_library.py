"""`correct_video` and `slowmo_video` as Python callers use them: results, progress, cancelling, one reader for all."""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import qrsc
from qrsc.backend.progress import Progress
from qrsc.calibrate.calibrate_video import calibrate_video
from qrsc.cli.app import app
from qrsc.flow import DisFlow, FlowPair
from qrsc.media.probe import probe
from qrsc.media.reader import read_video
from qrsc.pipeline import Seconds
from qrsc.video.source import open_source

from ..videos import Recipe, facts, make_video, seen, texture, texture_frames


def command(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return str(result.output)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    frames = [seen(texture(0, width=320), float(time)) for time in range(8)]
    return make_video(tmp_path / "in.mp4", Recipe(frames, sound=1))


# --- the library and the command ---


def test_the_library_writes_the_bytes_of_the_command(clip: Path, tmp_path: Path) -> None:
    command("correct", clip, "-o", tmp_path / "command.mp4")
    result = qrsc.correct_video(clip, tmp_path / "library.mp4")
    assert (tmp_path / "library.mp4").read_bytes() == (tmp_path / "command.mp4").read_bytes()
    assert result.output == tmp_path / "library.mp4"
    assert result.frames == 8


def test_presets_and_options_mean_the_same(clip: Path, tmp_path: Path) -> None:
    options = ("--readout", 20, "--fast", "--at", "first", "--strength", 0.5, "--crf", 10)
    command("correct", clip, "-o", tmp_path / "command.mp4", *options)
    qrsc.correct_video(
        str(clip), str(tmp_path / "library.mp4"), readout_ms=20, preset="fast", at="first", strength=0.5, crf=10
    )
    assert (tmp_path / "library.mp4").read_bytes() == (tmp_path / "command.mp4").read_bytes()


def test_slow_motion_is_that_of_the_command(clip: Path, tmp_path: Path) -> None:
    command("slowmo", clip, "-o", tmp_path / "command.mp4", "--factor", 2, "--gamma", 0.8, "--fast")
    result = qrsc.slowmo_video(clip, tmp_path / "library.mp4", factor=2, gamma=0.8, preset="fast")
    assert result.frames == 15
    assert facts(tmp_path / "library.mp4") == facts(tmp_path / "command.mp4")
    # Pictures as they were handed over: on a busy machine the encoder itself has given other bytes for the same ones.
    command("slowmo", clip, "-o", tmp_path / "command", "--factor", 2, "--gamma", 0.8, "--fast")
    qrsc.slowmo_video(clip, tmp_path / "library", factor=2, gamma=0.8, preset="fast")
    assert len(names(tmp_path / "command")) == 15
    for name in names(tmp_path / "command"):
        assert (tmp_path / "library" / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    with pytest.raises(ValueError, match="from 1 to 64"):
        qrsc.slowmo_video(clip, tmp_path / "none.mp4", factor=0, gamma=0.8)


def test_a_result_says_what_was_found_counted_and_timed(clip: Path, tmp_path: Path) -> None:
    heard: list[str] = []
    result = qrsc.correct_video(clip, tmp_path / "out.webm", gamma=0.8, preset="fast", on_note=heard.append)
    assert result.readout == qrsc.Readout(0.8)
    assert result.readout_from == "given as a ratio"
    assert result.left_out == ("audio track 1 (aac)",)
    assert list(result.notes) == heard
    assert any("audio track 1" in note for note in heard)
    assert (result.frames, result.cuts, result.repeated, result.damaged) == (8, 0, 0, 0)
    assert 0 < result.mean_px < result.largest_px < 10
    assert {"decode", "flow", "motion", "warp", "fusion", "check", "encode"} == set(result.seconds_by_work)
    assert result.seconds > 0
    assert json.loads(json.dumps(result.figures()))["left_out"] == ["audio track 1 (aac)"]


def test_every_frame_is_passed_on_and_the_calibration_kept(clip: Path, tmp_path: Path) -> None:
    got: list[qrsc.Corrected] = []
    result = qrsc.correct_video(clip, tmp_path / "out.mkv", preset="fast", on_frame=got.append)
    assert len(got) == result.frames == 8
    assert sum(each.unsure for each in got) / 8 == pytest.approx(result.unsure)
    assert result.calibration is not None  # the clip was asked for its readout
    assert result.calibration.scan == result.scan
    slow = qrsc.slowmo_video(clip, tmp_path / "slow.mkv", factor=2, gamma=0.8, preset="fast", on_frame=got.append)
    assert len(got) == 8 + slow.frames == 8 + 15
    assert slow.calibration is None  # it was told


class UnsureSearch(DisFlow):
    """A search that admits something."""

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        found = super().__call__(first, second)
        self.fallback = "half of it was guessed"
        return found


def test_fallbacks_are_counted_with_their_reasons(clip: Path, tmp_path: Path) -> None:
    result = qrsc.correct_video(clip, tmp_path / "out.mp4", gamma=0.8, preset="fast", flow=UnsureSearch())
    assert "half of it was guessed (8 frames)" in result.fallbacks
    assert any("one neighbour" in reason and reason.endswith("(2 frames)") for reason in result.fallbacks)
    plain = qrsc.correct_video(clip, tmp_path / "plain.mp4", gamma=0.8, preset="fast")
    assert not any("guessed" in reason for reason in plain.fallbacks)


# --- progress and cancelling ---


def test_progress_tells_stage_frames_and_time_left(clip: Path, tmp_path: Path) -> None:
    seen_so_far: list[Progress] = []
    qrsc.correct_video(clip, tmp_path / "out.mp4", preset="fast", progress=seen_so_far.append)
    stages = list(dict.fromkeys(each.stage for each in seen_so_far))
    assert stages == ["calibrating", "correcting"]
    corrected = [each for each in seen_so_far if each.stage == "correcting"]
    assert [each.done for each in corrected] == list(range(1, 9))
    assert {each.total for each in corrected} == {8}
    assert corrected[-1].seconds_left == 0
    assert all(each.seconds_left is not None and each.seconds_left > 0 for each in corrected[:-1])


@pytest.mark.parametrize("stage", ["calibrating", "correcting"])
@pytest.mark.parametrize("slow", [False, True])
def test_a_cancelled_run_stops_at_once_and_leaves_no_file(clip: Path, tmp_path: Path, stage: str, slow: bool) -> None:
    cancel = threading.Event()
    counted: list[str] = []

    def progress(now: Progress) -> None:
        counted.append(now.stage)
        if now.stage in (stage, "slowing down" if stage == "correcting" else ""):
            cancel.set()

    out = tmp_path / "deep" / "out.mp4"
    run: Any = partial(qrsc.correct_video, compare=tmp_path / "both.mp4")
    if slow:
        run = partial(qrsc.slowmo_video, factor=2)
    with pytest.raises(qrsc.Cancelled, match="cancelled"):
        run(clip, out, preset="fast", progress=progress, cancel=cancel)
    assert counted.count(counted[-1]) == 1, "no frame more after the token was set"
    assert names(tmp_path) == ["in.mp4"]


def test_a_token_that_is_set_beforehand_stops_before_anything_is_written(clip: Path, tmp_path: Path) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(qrsc.Cancelled):
        qrsc.correct_video(clip, tmp_path / "out.mp4", gamma=0.5, cancel=cancel)
    assert names(tmp_path) == ["in.mp4"]


# --- one reader for calibration and correction ---


def damaged_clip(folder: Path) -> Path:
    whole = make_video(folder / "whole.mp4", Recipe(texture_frames(8), options={"crf": "8", "g": "1"}))
    with av.open(str(whole)) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(container.streams.video[0]) if packet.size]
    content = bytearray(whole.read_bytes())
    position, size = places[4]
    assert position is not None
    content[position : position + size] = b"\xff" * size
    (folder / "damaged.mp4").write_bytes(content)
    return folder / "damaged.mp4"


def test_a_damaged_packet_is_skipped_by_calibration_too(tmp_path: Path) -> None:
    source = damaged_clip(tmp_path)
    said = command("correct", source, "-o", tmp_path / "out.mp4", "--fast")
    assert said.count("1 packets of damaged.mp4 are damaged and were left out") == 1
    assert len(facts(tmp_path / "out.mp4").times) == 7
    with pytest.warns(UserWarning, match="damaged"):
        result = qrsc.correct_video(source, tmp_path / "again.mp4", preset="fast")
    assert result.damaged == 1
    assert "damaged" in result.notes[-1]
    with pytest.warns(UserWarning, match=r"damaged.mp4 has damaged packets, which were left out"):
        calibrate_video(source)


def test_metadata_that_is_not_utf8_is_no_reason_to_refuse(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mp4", Recipe(texture_frames(6), metadata={"title": "QQQQQQQQ"}))
    content = whole.read_bytes()
    assert content.count(b"QQQQQQQQ") == 1
    source = tmp_path / "in.mp4"
    source.write_bytes(content.replace(b"QQQQQQQQ", b"\xff\xfeQQQQ\xe9\x80"))
    command("correct", source, "-o", tmp_path / "out.mp4", "--fast")
    command("slowmo", source, "-o", tmp_path / "slow.mp4", "--factor", 2)
    assert facts(tmp_path / "out.mp4").times == facts(whole).times
    assert "QQQQ" in facts(tmp_path / "out.mp4").metadata["title"]


def with_cover(path: Path) -> Path:
    """A video whose first stream is a cover picture of another size."""
    frames = texture_frames(6)
    with av.open(str(path), "w") as container:
        cover: Any = container.add_stream("mjpeg", rate=1)
        cover.height, cover.width, cover.pix_fmt, cover.disposition = 32, 32, "yuvj420p", 1 << 10
        video: Any = container.add_stream("libx264", rate=30, options={"crf": "8"})
        video.height, video.width = frames[0].shape[-2:]
        picture: Any = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 200, np.uint8), format="rgb24")
        picture = picture.reformat(format="yuvj420p")
        picture.pts = 0
        container.mux(cover.encode(picture))
        container.mux(cover.encode(None))
        for number, frame in enumerate(frames):
            pixels = (frame.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)
            shown: Any = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            shown.pts = number
            container.mux(video.encode(shown))
        container.mux(video.encode(None))
    return path


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".webm"])
def test_a_cover_picture_is_kept_or_named(tmp_path: Path, suffix: str) -> None:
    source = with_cover(tmp_path / "in.mp4")
    [size] = {tuple(frame.shape) for frame in read_video(source)}
    assert size == (3, 48, 64)
    said = command("correct", source, "-o", tmp_path / f"out{suffix}", "--fast")
    with av.open(str(source)) as container:
        [before] = [bytes(packet) for packet in container.demux() if packet.size and is_cover(packet.stream)]
    with av.open(str(tmp_path / f"out{suffix}")) as container:
        after = [bytes(packet) for packet in container.demux() if packet.size and packet.stream.name == "mjpeg"]
    assert (after == [before]) != ("left out: cover picture in track" in said)
    assert suffix != ".mp4" or after == [before]


def is_cover(stream: Any) -> bool:
    return bool(int(stream.disposition) & 1 << 10)


def test_nothing_is_read_from_a_file_that_has_been_closed(tmp_path: Path) -> None:
    """After an error, a thread that reads ahead may be late; reading on would end the process."""
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(6)))
    with open_source(source, probe(source), device=torch.device("cpu"), seconds=Seconds()) as clip:
        items = clip.items()
        assert next(items) is not None
    assert list(items) == []
