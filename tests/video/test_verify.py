"""A finished video is read again before it gets its name."""

from __future__ import annotations

import itertools
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import qrsc
from qrsc.cli.app import app
from qrsc.media.errors import VerificationError
from qrsc.media.verify import verify_video
from qrsc.media.write_record import WriteRecord
from qrsc.media.writer import VideoWriter
from qrsc.video import verifier
from qrsc.video.result import VideoResult

from ..videos import Recipe, make_video, texture_frames

FRAMES = 6


@dataclass
class Finished:
    """A file as it was before its verification."""

    path: Path
    record: WriteRecord
    container: str


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return make_video(tmp_path / "in.mp4", Recipe(texture_frames(FRAMES), sound=2))


def correct(clip: Path, output: Path, **options: Any) -> VideoResult:
    return qrsc.correct_video(clip, output, gamma=0.5, preset="fast", **options)


@pytest.fixture
def finished(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Finished:
    kept: list[Finished] = []

    def keep(self: object, work: Path, target: Path, record: WriteRecord, container: str) -> None:
        kept.append(Finished(Path(shutil.copy(work, tmp_path / "kept.mp4")), record, container))

    with monkeypatch.context() as patch:
        patch.setattr(verifier.Verifier, "check", keep)
        correct(clip, tmp_path / "first.mp4")
    return kept[0]


@pytest.mark.parametrize("suffix", [".mp4", ".mov", ".mkv", ".avi", ".ts"])
def test_everything_is_confirmed(clip: Path, tmp_path: Path, suffix: str) -> None:
    verified = correct(clip, tmp_path / f"out{suffix}", verify=True).verified
    assert verified.startswith(f"{FRAMES} frames" if suffix == ".avi" else f"{FRAMES} frames and their timestamps")
    assert "packets of 2 other tracks" in verified
    assert verified.endswith("every picture can be decoded")


def test_a_part_of_a_clip_and_a_folder_of_images_are_confirmed(clip: Path, tmp_path: Path) -> None:
    assert "packets of 2 other tracks" in correct(clip, tmp_path / "part.mp4", start=0.05, verify=True).verified
    correct(clip, tmp_path / "images")
    again = correct(tmp_path / "images", tmp_path / "again.mp4", fps=30.0, verify=True)
    assert again.verified == f"{FRAMES} frames and their timestamps, every picture can be decoded"


def test_without_time_checks_are_left_out_and_said_to_be(finished: Finished, clip: Path, tmp_path: Path) -> None:
    found = verify_video(finished.path, finished.record, finished.container, clip, seconds=0.0)
    assert found.confirmed == ()
    assert found.left_out == ("frames and timestamps", "other tracks", "pictures")


def test_verification_stays_within_its_share_of_the_time(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []
    monkeypatch.setattr(verifier, "verify_video", lambda *_, seconds, **__: limits.append(seconds))
    for wanted in (None, True, False):
        started = time.perf_counter() - 20.0  # seconds of work
        verifier.Verifier(wanted, clip, True, None, started).check(clip, clip, WriteRecord(), "mp4")
    assert limits == [pytest.approx(1.0, rel=0.2), None]


def test_it_can_be_switched_off(clip: Path, tmp_path: Path) -> None:
    assert correct(clip, tmp_path / "out.mp4", verify=False).verified == ""


# --- what goes wrong is found ---


def fails(finished: Finished, source: Path) -> str:
    with pytest.raises(VerificationError) as caught:
        verify_video(finished.path, finished.record, finished.container, source)
    return str(caught.value)


def test_a_missing_frame_is_found(finished: Finished, clip: Path) -> None:
    finished.record.stamps.append(finished.record.stamps[-1] + 3000)
    assert f"{FRAMES + 1} frames were written, and the file holds {FRAMES}" in fails(finished, clip)


def test_a_wrong_timestamp_is_found(finished: Finished, clip: Path) -> None:
    finished.record.stamps[2] += 500
    assert "frame 2 is -0.0056 s off its timestamp" in fails(finished, clip)


def test_a_wrong_start_is_found(finished: Finished, clip: Path) -> None:
    finished.record.stamps = [stamp + 9000 for stamp in finished.record.stamps]
    for track in finished.record.tracks.values():
        assert track.first is not None
        track.first = max(track.first, type(track.first)(0))
    assert "it begins -0.1000 s off" in fails(finished, clip)


def test_sound_that_is_off_the_picture_is_found(finished: Finished, clip: Path) -> None:
    track = finished.record.tracks[1]
    assert track.last is not None
    track.last += 1
    assert "audio track (aac) is -1.0000 s off the picture" in fails(finished, clip)


def test_a_changed_byte_of_sound_is_found(finished: Finished, clip: Path) -> None:
    import av

    with av.open(str(finished.path)) as file:
        payload = [bytes(packet) for packet in file.demux(audio=0) if packet.size][3]
    content = bytearray(finished.path.read_bytes())
    content[content.index(payload) + len(payload) // 2] ^= 0x10
    finished.path.write_bytes(content)
    assert "audio track (aac): its content differs" in fails(finished, clip)


def test_a_picture_that_cannot_be_decoded_is_found(finished: Finished, clip: Path) -> None:
    import av

    with av.open(str(finished.path)) as file:
        payload = bytes(next(packet for packet in file.demux(video=0) if packet.size))
    content = bytearray(finished.path.read_bytes())
    start = content.index(payload)
    content[start : start + len(payload)] = bytes(len(payload))
    finished.path.write_bytes(content)
    assert "decoded" in fails(finished, clip)


def test_a_track_that_is_not_there_is_found(finished: Finished, clip: Path) -> None:
    finished.record.tracks[1].codec = "opus"
    assert "audio track (opus) is not in the file" in fails(finished, clip)


def test_a_packet_that_is_lost_before_it_is_written_is_found(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, count = VideoWriter.copy, itertools.count()

    def lose_the_third(self: VideoWriter, packet: Any) -> None:
        if next(count) != 2:
            copy(self, packet)

    monkeypatch.setattr(VideoWriter, "copy", lose_the_third)
    with pytest.raises(VerificationError, match=r"audio track \(aac\): \d+ packets became \d+"):
        correct(clip, tmp_path / "out.mp4", verify=True)


def test_a_failed_verification_keeps_the_result_and_what_was_there(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.mp4"
    output.write_bytes(b"from last year")
    monkeypatch.setattr(VideoWriter, "copy", lambda self, packet: None)
    arguments = ["correct", str(clip), "-o", str(output), "--gamma", "0.5", "--fast", "--overwrite", "--verify"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 5, result.output
    assert "became 0" in result.output
    assert "out.unverified-1.mp4" in result.output
    assert output.read_bytes() == b"from last year"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4", "out.mp4", "out.unverified-1.mp4"]
