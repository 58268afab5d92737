"""Odd formats: interlaced clips, alpha, pixel aspect, tracks and times that file formats leave out."""

from __future__ import annotations

import zlib
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from av.codec.context import Flags

import qrsc
from qrsc.calibrate.calibrate_video import calibrate_video
from qrsc.media.codecs import choose_encoding
from qrsc.media.ebml import Element, walk_elements
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import read_frame
from qrsc.media.pixel_aspect import set_pixel_aspects
from qrsc.media.planes import Colours, alpha_of, frame_of, layout_of, rgb_of
from qrsc.media.probe import probe

from ..videos import Recipe, facts, make_video, seen, texture, texture_frames

# --- interlaced ---


def interlaced(path: Path, flagged: list[bool], codec: str = "libx264", field_order: int = 0) -> Path:
    """A clip of which some frames are interlaced, joined from the streams of several encoders."""
    with av.open(str(path), "w") as container:
        stream: Any = None
        for number, (frame, fields) in enumerate(zip(texture_frames(len(flagged)), flagged, strict=True)):
            if stream is None or flagged[number - 1] != fields:
                encoder: Any = av.CodecContext.create(codec, "w")
                encoder.width, encoder.height, encoder.pix_fmt = 64, 48, "yuv420p"
                encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
                encoder.options = {"g": "1", "bf": "0", "tune": "zerolatency"} if codec == "libx264" else {}
                if fields:
                    encoder.flags |= Flags.interlaced_dct
            if stream is None:
                stream = container.add_stream(codec, rate=25, options={"g": "1"} if codec == "libx264" else {})
                stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
                stream.codec_context.time_base = Fraction(1, 25)
                stream.codec_context.field_order = field_order
            picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
            picture.pts, picture.time_base = number, Fraction(1, 25)
            for packet in encoder.encode(picture):
                packet.stream, packet.dts = stream, packet.pts
                container.mux(packet)
    return path


def test_interlaced_clips_are_refused_with_advice(tmp_path: Path) -> None:
    source = interlaced(tmp_path / "in.ts", [True] * 6)
    assert probe(source).interlaced
    with pytest.raises(ValueError, match=r"is interlaced: .*ffmpeg -i in\.ts -vf bwdif=.*--progressive"):
        qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    with pytest.raises(ValueError, match="is interlaced"):
        qrsc.slowmo_video(source, tmp_path / "out.mkv", factor=2, gamma=0.5, preset="fast")
    with pytest.raises(ValueError, match="is interlaced"):
        calibrate_video(source)
    assert [path.name for path in tmp_path.iterdir()] == ["in.ts"]


def test_fields_of_one_exposure_are_corrected_on_request(tmp_path: Path) -> None:
    source = interlaced(tmp_path / "in.ts", [True] * 6)
    result = qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast", progressive=True)
    assert result.frames == 6
    assert not probe(tmp_path / "out.mkv").interlaced
    assert not calibrate_video(source, progressive=True).calibration.determined


def test_a_clip_that_becomes_interlaced_is_refused_where_it_does(tmp_path: Path) -> None:
    source = interlaced(tmp_path / "in.ts", [False] * 12 + [True] * 4)
    assert not probe(source).interlaced
    with pytest.raises(ValueError, match="is interlaced from frame 12 on"):
        qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    assert [path.name for path in tmp_path.iterdir()] == ["in.ts"]


def test_fields_that_only_the_header_names_are_found(tmp_path: Path) -> None:
    assert probe(interlaced(tmp_path / "tff.mkv", [False] * 4, "ffv1", field_order=2)).interlaced
    assert not probe(interlaced(tmp_path / "p.mkv", [False] * 4, "ffv1", field_order=1)).interlaced


# --- alpha ---


def test_alpha_moves_with_the_picture(tmp_path: Path) -> None:
    """Alpha that repeats the green channel still does after the correction."""
    frames = [seen(texture(0, width=320), float(time)) for time in range(7)]
    layout = layout_of("gbrap")
    source = tmp_path / "in.mkv"
    with av.open(str(source), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=30)
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[-2:], "bgra"
        for number, frame in enumerate(frames):
            green = (frame[1] * 255).round().to(torch.uint8).numpy()
            picture: Any = frame_of(frame, layout, Colours(), green).reformat(format="bgra")
            picture.pts, picture.time_base = number, Fraction(1, 30)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.8, preset="fast", fusion="none")
    with av.open(str(tmp_path / "out.mkv")) as container:
        middle: Any = list(container.decode(container.streams.video[0]))[3]
    green, alpha = rgb_of(middle, Colours())[1].numpy(), alpha_of(middle)
    assert alpha is not None
    off = np.abs(green - alpha / 255.0)[8:-8, 8:-8].mean()
    stays = np.abs(green - frames[3][1].numpy())[8:-8, 8:-8].mean()
    assert off < 0.05 * stays  # 0.0005 against 0.0612

    qrsc.correct_video(source, tmp_path / "frames", gamma=0.8, preset="fast")
    assert {read_frame(path).channels for path in (tmp_path / "frames").iterdir()} == {4}


def test_slow_motion_says_that_it_is_opaque(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(4), "ffv1", "bgra", options={}, alpha=True))
    result = qrsc.slowmo_video(source, tmp_path / "out.mkv", factor=2, gamma=0.5, preset="fast")
    assert "transparency is left out: the frames of slow motion are opaque" in result.notes


def test_alpha_without_libvpx_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"cpu-used": "8", "b": "0", "auto-alt-ref": "0"}
    source = make_video(
        tmp_path / "in.webm", Recipe(texture_frames(4), "libvpx-vp9", "yuva420p", options=options, alpha=True)
    )
    monkeypatch.setattr("qrsc.media.probe._WITH_ALPHA", {"vp9": "no such decoder"})
    result = qrsc.correct_video(source, tmp_path / "out.webm", gamma=0.5, preset="fast")
    assert any("FFmpeg was built without libvpx" in note for note in result.notes)
    assert not probe(tmp_path / "out.webm").layout.alpha


def test_dynamic_hdr_is_named(tmp_path: Path) -> None:
    from dataclasses import replace

    from qrsc.media.changes import encoding_changes

    info = replace(probe(make_video(tmp_path / "in.mp4", Recipe(texture_frames(3)))), dynamic=("DYNAMIC_HDR_PLUS",))
    encoding = choose_encoding(tmp_path / "out.mp4", info)
    assert encoding_changes(info, encoding, ".mp4", asked=False) == [
        "dynamic HDR metadata is left out: DYNAMIC_HDR_PLUS"
    ]


# --- pixel aspect ---


def elements(content: bytes, kind: int, start: int = 0, end: int | None = None) -> list[Element]:
    return [part for part in walk_elements(content, start, len(content) if end is None else end) if part.kind == kind]


@pytest.mark.parametrize("aspect", [Fraction(4, 3), Fraction(8, 9), Fraction(118, 81), Fraction(1)])
def test_a_matroska_file_stays_whole_with_a_pixel_aspect(tmp_path: Path, aspect: Fraction) -> None:
    chapter = {"id": 1, "start": 0, "end": 90, "time_base": Fraction(1, 1000), "metadata": {"title": "One"}}
    recipe = Recipe(texture_frames(4), "ffv1", options={}, sound=1, chapters=[chapter])
    path = make_video(tmp_path / "in.mkv", recipe)
    before, tracks = path.read_bytes(), facts(path).tracks
    assert facts(path).pixel_aspect is None
    assert set_pixel_aspects(path, "matroska", {0: Fraction(1180, 811)})
    assert set_pixel_aspects(path, "matroska", {0: aspect})  # in fewer bytes
    after = path.read_bytes()
    assert facts(path).pixel_aspect == aspect
    assert facts(path).tracks == tracks
    assert len(after) == len(before)
    [segment] = elements(after, 0x18538067)
    parts = list(walk_elements(after, segment.start, segment.end))
    assert parts[-1].end == segment.end
    for part in parts:  # every checksum is right
        if after[part.start] == 0xBF:
            stated = after[part.start + 2 : part.start + 6]
            assert zlib.crc32(after[part.start + 6 : part.end]).to_bytes(4, "little") == stated
    [seek_head] = elements(after, 0x114D9B74, segment.start, segment.end)
    entries = elements(after, 0x4DBB, seek_head.start, seek_head.end)
    assert len(entries) >= 4
    for entry in entries:  # every position leads to what it names
        kind, position = (after[part.start : part.end] for part in walk_elements(after, entry.start, entry.end))
        at = segment.start + int.from_bytes(position, "big")
        assert after[at : at + len(kind)] == kind


def test_a_header_without_room_is_left_alone(tmp_path: Path) -> None:
    for suffix, container in ((".mkv", "matroska"), (".avi", "avi")):
        path = make_video(tmp_path / f"in{suffix}", Recipe(texture_frames(3), "ffv1", options={}, rate=25))
        content = path.read_bytes().replace(b"JUNK", b"JUNX").replace(b"\xec\x01\x00\x00\x00", b"\xea\x01\x00\x00\x00")
        path.write_bytes(content)
        assert not set_pixel_aspects(path, container, {0: Fraction(4, 3)})
        assert path.read_bytes() == content


def test_the_aspect_of_a_second_video_is_kept(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(4), "ffv1", options={}, second=True))
    assert set_pixel_aspects(source, "matroska", {0: Fraction(4, 3), 1: Fraction(16, 11)})
    qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    with av.open(str(tmp_path / "out.mkv")) as container:
        found = [stream.sample_aspect_ratio for stream in container.streams.video]
    assert found == [Fraction(4, 3), Fraction(16, 11)]


# --- tracks and times ---


@pytest.mark.parametrize("suffix", [".mkv", ".mp4", ".ts"])
def test_a_second_video_keeps_every_packet_and_its_time(tmp_path: Path, suffix: str) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(8), second=True))
    output = tmp_path / f"out{suffix}"
    result = qrsc.correct_video(source, output, gamma=0.5, preset="fast")
    [before], [after] = facts(source).tracks, facts(output).tracks
    shift = facts(output).times[0] - facts(source).times[0]
    assert [float(time - shift) for time, _ in after[3]] == pytest.approx([float(t) for t, _ in before[3]], abs=0.0011)
    assert not any("timestamps" in note for note in result.notes)
    with av.open(str(output)) as container:
        decoded = list(container.decode(container.streams.video[1]))
    assert len(decoded) == 8
    assert decoded[0].key_frame


def negative_start(path: Path, second: bool) -> Path:
    """A Matroska file whose first three frames lie before 0, which FFmpeg reads as frames without time."""
    with av.open(str(path), "w", options={"avoid_negative_ts": "disabled"}) as container:
        streams: list[Any] = [container.add_stream("libx264", rate=30, options={"bf": "2"}) for _ in range(1 + second)]
        for stream in streams:
            stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
            stream.codec_context.time_base = Fraction(1, 30)
        for number, frame in enumerate(texture_frames(8)):
            for stream in streams:
                picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
                picture.pts, picture.time_base = number - 3, Fraction(1, 30)
                container.mux(stream.encode(picture))
        for stream in streams:
            container.mux(stream.encode(None))
    return path


def packets(path: Path, index: int) -> list[bytes]:
    with av.open(str(path)) as container:
        return [bytes(packet) for packet in container.demux(container.streams[index]) if packet.size]


def test_times_before_zero_are_counted_back_and_named(tmp_path: Path) -> None:
    source = negative_start(tmp_path / "in.mkv", second=False)
    with pytest.warns(UserWarning, match="timestamps of in.mkv: 3 missing and made from the frame rate$"):
        result = qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    assert (result.frames, result.cuts) == (8, 0)
    assert ".mkv files have no times before 0: all tracks are moved by 0.100 s" in result.notes
    times = facts(tmp_path / "out.mkv").times
    assert [float(after - before) for before, after in pairwise(times)] == pytest.approx([1 / 30] * 7, abs=0.0011)


def test_packets_without_any_time_arrive_and_are_named(tmp_path: Path) -> None:
    source = negative_start(tmp_path / "in.mkv", second=True)
    others, own = "packets of the other tracks of in.mkv have no timestamps", "timestamps of in.mkv: 3 missing"
    with pytest.warns(UserWarning, match=others), pytest.warns(UserWarning, match=own):
        qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    before, after = (packets(path, 1) for path in (source, tmp_path / "out.mkv"))
    assert len(before) == 8
    assert after == before


def test_sound_that_starts_before_zero_moves_the_picture_in_matroska(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(6), sound=1))
    result = qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    assert ".mkv files have no times before 0: all tracks are moved by 0.021 s" in result.notes
    assert float(facts(tmp_path / "out.mkv").times[0]) == pytest.approx(0.021, abs=0.0011)


def test_a_dvd_stream_keeps_times_and_sound(tmp_path: Path) -> None:
    source = tmp_path / "in.vob"
    with av.open(str(source), "w", format="vob") as container:
        video: Any = container.add_stream("mpeg2video", rate=25, options={"bf": "2"})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        sound: Any = container.add_stream("ac3", rate=48000)
        for number, frame in enumerate(texture_frames(12)):
            picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
            picture.pts, picture.time_base = number, Fraction(1, 25)
            container.mux(video.encode(picture))
            wave: Any = av.AudioFrame.from_ndarray(np.zeros((2, 1920), np.float32), format="fltp", layout="stereo")
            wave.sample_rate, wave.pts, wave.time_base = 48000, 1920 * number, Fraction(1, 48000)
            container.mux(sound.encode(wave))
        container.mux([*video.encode(None), *sound.encode(None)])
    result = qrsc.correct_video(source, tmp_path / "out.mkv", gamma=0.5, preset="fast")
    before, after = facts(source), facts(tmp_path / "out.mkv")
    assert [float(time) for time in after.times] == pytest.approx([float(time) for time in before.times], abs=0.0011)
    assert [packet for _, packet in after.tracks[0][3]] == [packet for _, packet in before.tracks[0][3]]
    assert result.mended_timestamps == 0
    assert "the video is encoded as h264; it was mpeg2video" in result.notes


def test_sound_and_picture_start_together_in_avi(tmp_path: Path) -> None:
    stamps = [72000 + 3000 * number for number in range(8)]  # from 0.8 s on
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(8), stamps=stamps, sound=1))
    qrsc.correct_video(source, tmp_path / "out.avi", gamma=0.5, preset="fast", codec="ffv1")
    found = facts(tmp_path / "out.avi")
    assert found.times == [Fraction(number, 30) for number in range(8)]
    assert found.tracks[0][3][0][0] == 0


def test_german_is_a_language_in_quicktime(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4), sound=2))
    result = qrsc.correct_video(source, tmp_path / "out.mov", gamma=0.5, preset="fast")
    assert [track[2].get("language") for track in facts(tmp_path / "out.mov").tracks] == ["eng", "ger"]
    assert not any("languages" in note for note in result.notes)


def test_old_figures_of_packets_and_alpha_are_not_copied(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(4), "ffv1", options={}))
    with av.open(str(source)) as container, av.open(str(tmp_path / "tagged.mkv"), "w") as output:
        stream = output.add_stream_from_template(container.streams.video[0], opaque=True)
        stream.metadata.update({"BPS": "1", "NUMBER_OF_BYTES": "1", "alpha_mode": "1", "title": "Mine"})
        for packet in container.demux(container.streams.video[0]):
            if packet.size:
                packet.stream = stream
                output.mux(packet)
    qrsc.correct_video(tmp_path / "tagged.mkv", tmp_path / "out.mkv", gamma=0.5, preset="fast")
    with av.open(str(tmp_path / "out.mkv")) as container:
        tags = container.streams.video[0].metadata
    assert tags["title"] == "Mine"
    assert not {"BPS", "NUMBER_OF_BYTES", "alpha_mode", "ALPHA_MODE"} & tags.keys()


def test_av1_says_nothing_of_itself(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4)))
    capfd.readouterr()
    qrsc.correct_video(source, tmp_path / "out.mp4", gamma=0.5, preset="fast", codec="av1")
    assert capfd.readouterr().err == ""


def test_chapters_of_a_part_or_of_slow_motion_are_named(tmp_path: Path) -> None:
    chapter = {"id": 1, "start": 0, "end": 90, "time_base": Fraction(1, 1000), "metadata": {"title": "One"}}
    stamps = [72000 + 3000 * number for number in range(6)]
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(6), stamps=stamps, chapters=[chapter]))
    expected = "left out: chapters, whose times belong to the whole clip at its own speed"
    part = qrsc.correct_video(source, tmp_path / "part.mp4", gamma=0.5, preset="fast", end=0.1)
    slow = qrsc.slowmo_video(source, tmp_path / "slow.avi", factor=2, gamma=0.5, preset="fast", codec="ffv1")
    assert expected in part.notes
    assert expected in slow.notes
    assert facts(tmp_path / "slow.avi").times == [Fraction(number, 30) for number in range(11)]
    kept = qrsc.slowmo_video(source, tmp_path / "kept.mp4", factor=2, gamma=0.5, preset="fast", keep="duration")
    assert not any("chapters" in note for note in kept.notes)
    assert facts(tmp_path / "kept.mp4").chapters == facts(source).chapters


def test_an_encoder_that_is_not_there_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from qrsc.media import encoders

    there = encoders._formats
    monkeypatch.setattr(
        encoders, "_formats", lambda name, container: None if name == "libx265" else there(name, container)
    )
    deep = layout_of("yuv422p10le")
    assert encoders.suggest_encoder("mp4", "v210", deep, None, alpha=False) == "libx264"
    assert encoders.suggest_encoder("matroska", "v210", deep, None, alpha=False) == "ffv1"


def test_of_other_encoders_those_that_are_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from qrsc.media import encoders

    known = {"h264": "libx264", "vvc": "libvvc9", "ffv1": "ffv1"}
    for name, why in (("libx266", "no encoder 'libx266' here"), ("aac", "aac encodes audio, not video")):
        with pytest.raises(MediaError, match=f"{why}; choose one of h264, ffv1[.,]"):
            encoders.require_encoder(name, known)
    monkeypatch.setattr(encoders, "_formats", lambda name, container: None)
    with pytest.raises(MediaError, match=r"none of the encoders .* \(libvpx-vp9, libsvtav1\); give the output another"):
        encoders.suggest_encoder("webm", "vp9", layout_of("yuv420p"), None, alpha=False)


def test_an_encoder_whose_hardware_is_missing_is_named() -> None:
    from qrsc.media import encoders

    candidates = ("h264_amf", "h264_nvenc", "hevc_qsv", "h264_v4l2m2m")
    missing = [name for name in candidates if encoders._kind(name) == "video" and not encoders._starts(name)]
    if not missing:
        pytest.skip("all hardware encoders of this FFmpeg work here")
    with pytest.raises(MediaError, match=f"{missing[0]}.* needs hardware.*; choose one of h264[.,]"):
        encoders.require_encoder(missing[0], {"h264": "libx264"})
    assert encoders._starts("libx264")


def test_tags_of_a_video_with_alpha_are_kept(tmp_path: Path) -> None:
    options = {"cpu-used": "8", "b": "0", "auto-alt-ref": "0"}
    recipe = Recipe(texture_frames(4), "libvpx-vp9", "yuva420p", options=options, alpha=True)
    recipe.colours, recipe.rotation = Colours(9, 9, 16, 1), 90
    source = make_video(tmp_path / "in.webm", recipe)
    qrsc.correct_video(source, tmp_path / "out.webm", gamma=0.5, preset="fast")
    before, after = facts(source), facts(tmp_path / "out.webm")
    assert after.colours == before.colours == (9, 9, 16, 1)
    assert after.matrix == before.matrix is not None
    assert probe(tmp_path / "out.webm").layout.alpha


@pytest.mark.parametrize("matrix", [1, 6, 9])
def test_samples_that_stand_for_no_rgb_colour_are_corrected(tmp_path: Path, matrix: int) -> None:
    """The corners of the YUV cube lie far outside RGB, and are valid samples."""
    with av.open(str(tmp_path / "in.mkv"), "w") as container:
        stream: Any = container.add_stream("ffv1", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv444p"
        stream.codec_context.colorspace, stream.codec_context.color_range = matrix, 1
        for number in range(5):
            frame: Any = av.VideoFrame(64, 48, "yuv444p")
            for index, plane in enumerate(frame.planes):
                corners = 255 * ((np.arange(plane.buffer_size) // 8 + number >> index) & 1)
                plane.update(corners.astype(np.uint8).tobytes())
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert qrsc.correct_video(tmp_path / "in.mkv", tmp_path / "out.mkv", gamma=0.5, preset="fast").frames == 5
