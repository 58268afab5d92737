"""`qrsc correct` on video files that are odd, broken or too large, and when it is stopped."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.media.planes import rgb_of
from qrsc.pipeline.presets import choose_scale
from qrsc.video.concurrent_io import waiting_frames

from ..videos import Recipe, facts, make_video, planes, texture_frames


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def fails(*arguments: object) -> str:
    code, said = invoke(*arguments)
    assert code == 2, said
    last: str = said.rstrip("\n").splitlines()[-1]
    assert last.startswith("error: ")
    return last


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- nothing is destroyed ---


def test_a_comparison_replaces_neither_input_nor_output_nor_anything_else(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4), sound=1))
    (tmp_path / "there.mp4").write_bytes(b"mine")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = ("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--fast", "--compare")
    assert "--compare is the input" in fails(*arguments, source)
    assert "--compare is the input" in fails(*arguments, source, "--overwrite")
    assert "are both" in fails(*arguments, tmp_path / "out.mp4")
    assert "add --overwrite" in fails(*arguments, tmp_path / "there.mp4")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_calibrating_never_draws_over_the_clip(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4)))
    content = source.read_bytes()
    for option in ("--plot", "--sweep"):
        assert f"{option} is the input" in fails("calibrate", source, option, source)
    assert source.read_bytes() == content


# --- odd input ---


@pytest.mark.parametrize("size", [(47, 63), (33, 64), (1, 1), (2, 300)])
@pytest.mark.parametrize("suffix", [".mkv", ".mp4"])
def test_odd_sizes_are_written_and_said(tmp_path: Path, size: tuple[int, int], suffix: str) -> None:
    frames = [torch.rand(3, *size, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    source = make_video(tmp_path / "in.mkv", Recipe(frames, "ffv1", "yuv420p", options={}))
    output = tmp_path / f"out{suffix}"
    code, said = invoke("correct", source, "-o", output, "--gamma", 0.5)
    assert code == 0, said
    after = facts(output)
    assert len(after.times) == 3
    even = (size[0] + size[0] % 2, size[1] + size[1] % 2)
    assert after.size == (size if suffix == ".mkv" else even)
    assert ("written twice" in said) == (after.size != size)


def test_one_frame_is_returned_with_a_warning(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(1), "ffv1", options={}))
    code, said = invoke("correct", source, "-o", tmp_path / "out.mkv", "--gamma", 0.5)
    assert code == 0
    assert "a clip of one frame shows no motion" in said
    np.testing.assert_array_equal(planes(tmp_path / "out.mkv")[0][0], planes(source)[0][0])


def test_what_is_no_video_is_refused(tmp_path: Path) -> None:
    output = tmp_path / "out.mp4"
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "text.mp4").write_text("no video at all\n" * 100)
    with av.open(str(tmp_path / "sound.m4a"), "w", format="mp4") as container:
        stream: Any = container.add_stream("aac", rate=48000, layout="stereo")
        frame: Any = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    whole = make_video(tmp_path / "whole.mp4", Recipe(texture_frames(4)))
    (tmp_path / "torn.mp4").write_bytes(whole.read_bytes()[:2000])  # the index lies at the end
    before = names(tmp_path)
    for name, message in [
        ("empty.mp4", "cannot be read as a video"),
        ("text.mp4", "cannot be read as a video"),
        ("torn.mp4", "cannot be read as a video"),
        ("sound.m4a", "has no video to correct; it holds audio"),
        ("nowhere.mp4", "no file or folder"),
    ]:
        assert message in fails("correct", tmp_path / name, "-o", output, "--gamma", 0.5)
    assert "no frame from 9 s to the end" in fails("correct", whole, "-o", output, "--gamma", 0.5, "--start", 9)
    assert names(tmp_path) == before


def test_a_video_that_ends_early_is_corrected_up_to_there(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", Recipe(texture_frames(12), "ffv1", options={}, sound=1))
    content = whole.read_bytes()
    source = tmp_path / "torn.mkv"
    source.write_bytes(content[: len(content) // 2])
    code, said = invoke("correct", source, "-o", tmp_path / "out.mkv", "--gamma", 0.5, "--fast")
    assert code == 4, said  # what is there was corrected, and the loss has a code of its own
    assert "torn.mkv is truncated" in said
    kept = len(facts(tmp_path / "out.mkv").times)
    assert 3 <= kept < 12
    assert facts(tmp_path / "out.mkv").times == facts(whole).times[:kept]


def test_a_hole_that_swallows_the_rest_is_said(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", Recipe(texture_frames(30), "ffv1", options={}))
    code, said = invoke("correct", whole, "-o", tmp_path / "all.mkv", "--gamma", 0.5, "--fast")
    assert code == 0, said
    content = bytearray(whole.read_bytes())
    third = len(content) // 3
    content[third:] = bytes(len(content) - third)  # of the same size, so that no byte is missing
    source = tmp_path / "holed.mkv"
    source.write_bytes(content)
    code, said = invoke("correct", source, "-o", tmp_path / "out.mkv", "--gamma", 0.5, "--fast")
    assert code == 4, said
    assert "before the end that it states" in said
    assert 3 <= len(facts(tmp_path / "out.mkv").times) < 30
    code, said = invoke("correct", source, "-o", tmp_path / "copy.mkv", "--gamma", 0)
    assert code == 4, said
    assert "before the end that it states" in said
    assert (tmp_path / "copy.mkv").read_bytes() == content


def test_damaged_packets_are_left_out_and_said(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mp4", Recipe(texture_frames(8), options={"crf": "8", "g": "1"}))
    with av.open(str(whole)) as container:
        places = [(packet.pos, packet.size) for packet in container.demux(container.streams.video[0]) if packet.size]
    content = bytearray(whole.read_bytes())
    position, size = places[4]
    assert position is not None
    content[position : position + size] = b"\xff" * size
    source = tmp_path / "damaged.mp4"
    source.write_bytes(content)
    code, said = invoke("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--fast")
    assert code == 0, said
    assert "1 packets of damaged.mp4 are damaged and were left out" in said
    assert len(facts(tmp_path / "out.mp4").times) == 7


def test_a_change_of_size_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.ts"
    with av.open(str(source), "w") as container:
        stream: Any = container.add_stream("mpeg2video", rate=25)
        stream.width, stream.height = 64, 48
        encoders = [stream.codec_context]
        other: Any = av.CodecContext.create("mpeg2video", "w")
        other.width, other.height, other.pix_fmt = 96, 64, "yuv420p"
        other.time_base, other.framerate = Fraction(1, 25), Fraction(25)
        encoders.append(other)
        for number, encoder in enumerate(encoders):
            for k in range(3):
                frame: Any = av.VideoFrame(encoder.width, encoder.height, "yuv420p")
                frame.pts, frame.time_base = 3 * number + k, Fraction(1, 25)
                for packet in encoder.encode(frame):
                    packet.stream = stream
                    container.mux(packet)
            for packet in encoder.encode(None):
                packet.stream = stream
                container.mux(packet)
    message = fails("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5)
    assert "changes its size from 64x48 to 96x64" in message
    assert names(tmp_path) == ["in.ts"]


def test_large_frames_wait_in_small_numbers_and_flow_is_found_at_a_reduced_size() -> None:
    assert [waiting_frames(size) for size in [(480, 640), (1080, 1920), (2160, 3840), (4320, 7680)]] == [4, 4, 1, 1]
    sizes = [(480, 640), (1080, 1920), (2160, 3840), (4320, 7680)]
    assert [choose_scale(None, size) for size in sizes] == [1.0, 1.0, 0.5, 0.25]
    assert choose_scale(0.7, (480, 640)) == 0.7


# --- nothing is touched, nothing is left half ---


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    content = source.read_bytes()
    os.link(source, tmp_path / "same.mp4")
    (tmp_path / "link.mp4").symlink_to(source)
    for name in ("in.mp4", "same.mp4", "link.mp4"):
        assert "the output is the input" in fails(
            "correct", source, "-o", tmp_path / name, "--gamma", 0.5, "--overwrite"
        )
    assert source.read_bytes() == content


def test_an_existing_file_needs_overwrite(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    output = tmp_path / "out.mp4"
    output.write_text("mine")
    assert "add --overwrite" in fails("correct", source, "-o", output, "--gamma", 0.5)
    assert output.read_text() == "mine"
    assert invoke("correct", source, "-o", output, "--gamma", 0.5, "--overwrite", "--fast")[0] == 0
    assert len(facts(output).times) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("-o out.mpg", "let it end in .mp4"),
        ("-o out.mp4 --codec vvc9", "no encoder 'vvc9' here; choose one of h264"),
        ("-o out.mp4 --codec aac", "encodes audio, not video"),
        ("-o out.mp4 --pix-fmt yuv999p", "cannot be used"),
        ("-o out.mp4 --pix-fmt gray16le", "libx264 cannot store gray16le; it takes"),
        ("-o out.mp4 --border transparent", "has no transparency"),
        ("-o out.mov --codec prores --crf 3", "no constant rate factor"),
        ("-o out.webm --codec h264", "does not support"),
    ],
)
def test_outputs_that_do_not_work_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, message: str
) -> None:
    make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    monkeypatch.chdir(tmp_path)
    assert message in fails("correct", "in.mp4", *options.split(), "--gamma", 0.5)
    assert names(tmp_path) == ["in.mp4"]


def test_outputs_that_do_not_work_are_explained_before_the_readout_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_for(*arguments: object, **options: object) -> None:
        raise AssertionError

    monkeypatch.setattr("qrsc.video.readout.readout_for_clip", looked_for)
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    for options, why in (
        ("--codec vvc9", "no encoder 'vvc9' here"),
        ("--start 99", "no frame from 99 s to the end: it lasts 0.1 s"),
        ("--start 0.05 --end 0.01", "--end must come after --start; got 0.01 s and 0.05 s"),
    ):
        assert why in fails("correct", source, "-o", tmp_path / "out.mp4", *options.split())


def test_a_gamma_out_of_range_recommends_options(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))
    said = fails("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 16)
    assert "--readout takes milliseconds" in said
    assert "from_milliseconds" not in said


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("qrsc.media.reader._require_size", "in.mp4 cannot be read on: Input/output error"),
        ("qrsc.media.writer.VideoWriter._mux", "Input/output error while writing the video"),
    ],
)
def test_a_failing_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str) -> None:
    def fail(*arguments: object) -> None:
        raise av.error.OSError(errno.EIO, "Input/output error")

    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(8)))
    monkeypatch.setattr(target, fail)
    assert message in fails("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--fast")
    assert names(tmp_path) == ["in.mp4"]


def test_no_memory_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise MemoryError

    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(8)))
    monkeypatch.setattr("qrsc.video.source.rgb_of", fail)
    said = fails("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--fast")
    assert said.startswith("error: there is not enough memory")
    assert names(tmp_path) == ["in.mp4"]


def test_an_input_removed_meanwhile_is_corrected_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def remove_and_convert(*arguments: Any) -> torch.Tensor:
        source.unlink(missing_ok=True)
        return rgb_of(*arguments)

    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(8)))
    monkeypatch.setattr("qrsc.video.source.rgb_of", remove_and_convert)
    code, said = invoke("correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--fast")
    assert code == 0, said
    assert len(facts(tmp_path / "out.mp4").times) == 8


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """A limit on file sizes stands in for it: writing fails in the middle in the same way."""
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(8), "ffv1", options={}))
    code = "import sys; from qrsc.cli import main; main()"
    arguments = ["correct", str(source), "-o", str(tmp_path / "new" / "out.mkv"), "--gamma", "0.5", "--fast"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, preexec_fn=limited)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert names(tmp_path) == ["in.mkv"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_the_middle_leaves_nothing(tmp_path: Path, end: signal.Signals) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(20), sound=1))
    code = f"""
import os
from qrsc.cli import main
from qrsc.media.writer import VideoWriter
write = VideoWriter.write
def stop_at_the_tenth(self, *arguments):
    write(self, *arguments)
    self.count = getattr(self, "count", 0) + 1
    if self.count == 10:
        os.kill(os.getpid(), {int(end)})
VideoWriter.write = stop_at_the_tenth
main()
"""
    arguments = ["correct", str(source), "-o", str(tmp_path / "out.mp4"), "--gamma", "0.5", "--fast"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True)
    assert done.returncode not in (0, 2), done.stderr
    assert names(tmp_path) == ["in.mp4"]


def test_frames_without_a_rate_need_one(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(3), "ffv1", options={}))
    assert invoke("correct", source, "-o", tmp_path / "frames", "--gamma", 0.5, "--fast")[0] == 0
    assert names(tmp_path / "frames") == ["000000.png", "000001.png", "000002.png"]
    output = tmp_path / "out.mp4"
    assert "give that of the video as --fps" in fails("correct", tmp_path / "frames", "-o", output, "--gamma", 0.5)
    assert invoke("correct", tmp_path / "frames", "-o", output, "--gamma", 0.5, "--fast", "--fps", 25)[0] == 0
    assert facts(output).times == [Fraction(k, 25) for k in range(3)]


def test_a_margin_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4)))
    for margin in (0.4999, 0.6):
        said = fails(
            "correct", source, "-o", tmp_path / "out.mp4", "--gamma", 0.5, "--border", "crop", "--margin", margin
        )
        assert "--margin" in said
    assert names(tmp_path) == ["in.mp4"]
