"""Timestamps that repeat, jump back or are missing: time for the container and time for the motion."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

import qrsc
from qrsc.media.clock import Clock, ClockReport
from qrsc.media.probe import ClipInfo, probe
from qrsc.media.track_clock import DecodingOrder, TrackClock
from qrsc.media.truncation import missing_bytes

from ..videos import Recipe, facts, make_video, seen, texture, texture_frames

TIME_BASE = Fraction(1, 90000)


def placed(stamps: list[int | None]) -> tuple[list[int], list[float], list[bool], ClockReport]:
    report = ClockReport()
    clock = Clock(0, TIME_BASE, 1 / 30, 0.001, report)
    each = [clock.place(stamp) for stamp in stamps]
    return [one.stamp for one in each], [one.time for one in each], [one.restarts for one in each], report


def test_even_timestamps_are_whole_frame_intervals() -> None:
    stamps, times, restarts, report = placed([3000 * k + (k % 2) for k in range(5)])
    assert stamps == [0, 3001, 6000, 9001, 12000]
    assert times == [0, 1, 2, 3, 4]
    assert not any(restarts)
    assert report.mended == 0


def test_a_gap_is_as_long_as_the_file_says() -> None:
    _, times, restarts, _ = placed([0, 3000, 12000, 15000, 16500])
    assert times == [0, 1, 4, 5, 5.5]
    assert not any(restarts)


def test_a_repeated_timestamp_starts_a_shot_and_leaves_room() -> None:
    for following in (6000, 9000):
        stamps, times, restarts, report = placed([0, 3000, 3000, following])
        assert stamps == [0, 3000, 4500, following]
        assert restarts == [False, False, True, False]
        assert times[1:3] == [1, 2]
        assert times[3] - times[2] == (following - 3000) / 3000
        assert report.repeated == 1


def test_a_jump_back_goes_on_after_the_last_frame() -> None:
    stamps, times, restarts, report = placed([9000, 12000, 15000, 0, 3000, 6000])
    assert stamps == [9000, 12000, 15000, 18000, 21000, 24000]
    assert times == [0, 1, 2, 3, 4, 5]
    assert restarts == [False, False, False, True, False, False]
    assert report.jumps == 1


def test_a_timestamp_more_than_a_day_ahead_is_damaged() -> None:
    stamps, times, restarts, report = placed([0, 3000, 2**62, 2**62 + 3000])
    assert stamps == [0, 3000, 6000, 9000]
    assert times == [0, 1, 2, 3]
    assert restarts == [False, False, True, False]
    assert (report.ahead, report.jumps, report.mended) == (1, 0, 1)
    assert "1 more than a day ahead" in report.message("clip.flv")


def test_missing_timestamps_follow_the_rate() -> None:
    stamps, times, _, report = placed([None, None, 6000, None])
    assert stamps == [0, 3000, 6000, 9000]
    assert times == [0, 1, 2, 3]
    assert report.missing == 3


def test_other_tracks_follow_the_first_that_jumps() -> None:
    clock = TrackClock()
    moved = [
        (track, dts + clock.offset(track, dts, 100, Fraction(1, 1000)))
        for track, dts in [(1, 0), (2, 0), (1, 100), (2, 90), (1, 0), (2, 0), (1, 100), (2, 90)]
    ]
    assert [dts for track, dts in moved if track == 1] == [0, 100, 200, 300]
    assert [dts for track, dts in moved if track == 2] == [0, 90, 200, 290]


# --- files ---


def transport_stream(source: Path, target: Path) -> Path:
    """The same packets in a transport stream."""
    with av.open(str(source)) as container, av.open(str(target), "w") as output:
        video = container.streams.video[0]
        streams: dict[int, Any] = {each.index: output.add_stream_from_template(each) for each in container.streams}
        to_annex_b: Any = av.bitstream.BitStreamFilterContext("h264_mp4toannexb", video)
        for packet in container.demux():
            if packet.dts is None:
                continue
            target_stream = streams[packet.stream.index]
            for part in to_annex_b.filter(packet) if packet.stream.type == "video" else [packet]:
                part.stream = target_stream
                output.mux(part)
    return target


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    frames = [seen(texture(0, width=320), float(time)) for time in range(10)]
    return make_video(tmp_path / "in.mp4", Recipe(frames, sound=1))


def test_two_recordings_joined_are_corrected_as_two_shots(clip: Path, tmp_path: Path) -> None:
    one = transport_stream(clip, tmp_path / "one.ts")
    both = tmp_path / "both.ts"
    both.write_bytes(one.read_bytes() * 2)
    with pytest.warns(UserWarning, match="1 jumping back; motion is not followed"):
        result = qrsc.correct_video(both, tmp_path / "out.mkv", gamma=0.8, preset="fast")
    assert (result.frames, result.mended_timestamps, result.cuts) == (20, 1, 1)
    alone = qrsc.correct_video(one, tmp_path / "alone.mkv", gamma=0.8, preset="fast")
    assert result.largest_px == pytest.approx(alone.largest_px, abs=0.01)
    times = facts(tmp_path / "out.mkv").times
    assert all(after - before == pytest.approx(1 / 30, abs=0.002) for before, after in pairwise(map(float, times)))
    sound = facts(tmp_path / "out.mkv").tracks[0][3]
    assert len(sound) == 2 * len(facts(one).tracks[0][3])
    assert all(after[0] > before[0] for before, after in pairwise(sound))


def test_an_elementary_stream_gets_times_from_its_rate(clip: Path, tmp_path: Path) -> None:
    source = tmp_path / "raw.h264"
    with av.open(str(clip)) as container, av.open(str(source), "w", format="h264") as output:
        video = container.streams.video[0]
        stream = output.add_stream_from_template(video)
        to_annex_b: Any = av.bitstream.BitStreamFilterContext("h264_mp4toannexb", video)
        for packet in container.demux(video):
            for part in to_annex_b.filter(packet):
                part.stream = stream
                output.mux(part)
    with pytest.warns(UserWarning, match="10 missing and made from the frame rate"):
        qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.8, preset="fast")
    assert [round(25 * float(time)) for time in facts(tmp_path / "out.mkv").times] == list(range(10))


def test_a_truncated_file_is_corrected_and_said_to_be(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mkv", Recipe(texture_frames(12), "ffv1", options={}))
    content = whole.read_bytes()
    (tmp_path / "torn.mkv").write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"torn\.mkv is truncated: at least \d+ bytes are missing"):
        result = qrsc.correct_video(tmp_path / "torn.mkv", tmp_path / "out.mkv", gamma=0.5, preset="fast")
    assert result.truncated
    assert 3 <= result.frames < 12
    assert not qrsc.correct_video(whole, tmp_path / "out2.mkv", gamma=0.5, preset="fast").truncated


# --- names ---


def test_names_are_names_of_files(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("12:30.mp4", "http:x.mp4", "a" * 250 + ".mp4"):
        clip.rename(name)
        qrsc.correct_video(name, name.replace(".mp4", ".mkv"), gamma=0.5, preset="fast")
        clip = Path(name)
    assert sum(path.suffix == ".mkv" for path in tmp_path.iterdir()) == 3


def test_lists_of_files_text_and_pipes_are_no_videos(clip: Path, tmp_path: Path) -> None:
    transport_stream(clip, tmp_path / "one.ts")
    (tmp_path / "list.m3u8").write_text(
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\none.ts\n#EXT-X-ENDLIST\n", encoding="utf-8"
    )
    (tmp_path / "list.ffconcat").write_text("ffconcat version 1.0\nfile in.mp4\n", encoding="utf-8")
    (tmp_path / "text.txt").write_text("no video\n" * 100, encoding="utf-8")
    for name in ("list.m3u8", "list.ffconcat", "text.txt"):
        with pytest.raises(ValueError, match=r"no video|cannot be read as a video"):
            qrsc.correct_video(tmp_path / name, tmp_path / "out.mp4", gamma=0.5)
    import os

    os.mkfifo(tmp_path / "pipe.mp4")
    with pytest.raises(ValueError, match="save it to a file first"):
        qrsc.correct_video(tmp_path / "pipe.mp4", tmp_path / "out.mp4", gamma=0.5)


def test_a_truncated_mp4_is_recognised_by_its_boxes(tmp_path: Path) -> None:
    whole = make_video(tmp_path / "whole.mp4", Recipe(texture_frames(6)))
    size = whole.stat().st_size
    assert missing_bytes(whole) == 0
    (tmp_path / "torn.mp4").write_bytes(whole.read_bytes()[: size - 100])
    assert missing_bytes(tmp_path / "torn.mp4") == 100


def test_a_clip_is_probed_once(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[Path] = []

    def counted(path: Path) -> ClipInfo:
        probed.append(path)
        return probe(path)

    qrsc.correct_video(clip, tmp_path / "first.mp4", preset="fast")  # imports all that it needs
    for name, module in list(sys.modules.items()):
        if name.startswith("qrsc.") and getattr(module, "probe", None) is probe:
            monkeypatch.setattr(module, "probe", counted)
    qrsc.correct_video(clip, tmp_path / "out.mp4", preset="fast")
    assert probed == [clip]


# --- decoding order of copied packets ---


@dataclass
class FakePacket:
    """A packet as far as its times go."""

    pts: int | None
    dts: int | None
    duration: int = 0
    kind: str = "video"

    @property
    def stream(self) -> Any:
        return SimpleNamespace(index=1, type=self.kind)


def ordered(packets: list[FakePacket]) -> tuple[list[tuple[int | None, int | None]], DecodingOrder]:
    order = DecodingOrder()
    ready: list[Any] = [each for packet in packets for each in order.take(packet)]  # type: ignore[arg-type]
    ready += order.rest()
    assert len(ready) == len(packets)
    dts = [packet.dts for packet in ready]
    assert all(after > before for before, after in pairwise(dts))
    assert all(packet.dts <= packet.pts for packet in ready)
    return [(packet.pts, packet.dts) for packet in ready], order


def test_first_decoding_times_are_counted_back() -> None:
    found, order = ordered([FakePacket(0, None), FakePacket(100, None), FakePacket(33, 0), FakePacket(67, 33)])
    assert [pts for pts, _ in found] == [0, 100, 33, 67]
    assert [dts for _, dts in found[2:]] == [0, 33]
    assert order.untimed == 0


def test_a_short_track_without_decoding_times_gets_all_of_them() -> None:
    found, order = ordered([FakePacket(0, None), FakePacket(90, None), FakePacket(30, None), FakePacket(60, None)])
    assert [pts for pts, _ in found] == [0, 90, 30, 60]
    assert order.untimed == 0


def test_packets_without_times_follow_each_other_and_are_counted() -> None:
    found, order = ordered([FakePacket(None, None, 20, "audio") for _ in range(4)])
    assert found == [(0, 0), (20, 20), (40, 40), (60, 60)]
    assert order.untimed == 4


def test_a_missing_time_in_the_middle_follows_the_packet_before() -> None:
    found, order = ordered([FakePacket(10, 0, 10), FakePacket(20, None, 10), FakePacket(30, 20, 10)])
    assert found == [(10, 0), (20, 10), (30, 20)]
    assert order.untimed == 0


def test_a_packet_without_duration_lasts_as_long_as_the_one_before() -> None:
    order = DecodingOrder()
    sound = [FakePacket(85 * number, 85 * number, 0, "audio") for number in range(3)]
    for packet in sound:
        order.take(packet)  # type: ignore[arg-type]
    assert [packet.duration for packet in sound] == [0, 85, 85]
    order = DecodingOrder()
    text = [FakePacket(85 * number, 85 * number, 0, "subtitle") for number in range(3)]
    for packet in text:
        order.take(packet)  # type: ignore[arg-type]
    assert [packet.duration for packet in text] == [0, 0, 0]
