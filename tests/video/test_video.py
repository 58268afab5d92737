"""`qrsc correct` on video files: nothing lost, nothing touched."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from qrsc.calibrate.decision import ChosenReadout
from qrsc.cli.app import app
from qrsc.media.image_folder import read_frame
from qrsc.media.planes import Colours, frame_of, layout_of
from qrsc.media.reader import read_pixels, read_video
from qrsc.timing import Readout

from ..videos import READOUT, Recipe, facts, make_video, planes, seen, texture, texture_frames

UNEVEN = [72000, 75000, 78000, 84000, 87000, 90013]  # from 0.8 s on, with a gap and a little jitter


def invoke(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def corrected(source: Path, output: Path, *options: object) -> str:
    code, said = invoke("correct", source, "-o", output, *options)
    assert code == 0, said
    return said


def fails(*arguments: object) -> str:
    code, said = invoke(*arguments)
    assert code == 2, said
    last: str = said.rstrip("\n").splitlines()[-1]
    assert last.startswith("error: ")
    return last


# --- nothing lost ---


def test_everything_but_the_picture_is_kept(tmp_path: Path) -> None:
    recipe = Recipe(
        texture_frames(6),
        stamps=UNEVEN,
        colours=Colours(9, 9, 16, 1),
        rotation=90,
        pixel_aspect=Fraction(4, 3),
        sound=2,
        subtitles="mov_text",
        metadata={"creation_time": "2024-05-06T07:08:09.000000Z", "title": "A clip", "comment": "By hand"},
        chapters=[
            {"id": 1, "start": 0, "end": 900, "time_base": Fraction(1, 1000), "metadata": {"title": "One"}},
            {"id": 2, "start": 900, "end": 1030, "time_base": Fraction(1, 1000), "metadata": {"title": "Two"}},
        ],
    )
    source = make_video(tmp_path / "in.mp4", recipe)
    content = source.read_bytes()
    said = corrected(source, tmp_path / "out.mp4", "--gamma", 0.8)
    before, after = facts(source), facts(tmp_path / "out.mp4")
    assert before.times[0] == Fraction(4, 5)
    assert after.times == before.times
    kinds = [("audio", "aac"), ("audio", "aac"), ("subtitle", "mov_text"), ("data", "")]  # the last: chapter titles
    assert [track[:2] for track in before.tracks] == kinds
    assert after.tracks == before.tracks
    assert before.matrix is not None
    for name in ("size", "codec", "pixel_format", "colours", "matrix", "pixel_aspect", "chapters"):
        assert getattr(after, name) == getattr(before, name), name
    for key in ("creation_time", "title", "comment"):
        assert after.metadata[key] == before.metadata[key] == recipe.metadata[key]
    assert source.read_bytes() == content
    assert not np.array_equal(planes(source)[2][0], planes(tmp_path / "out.mp4")[2][0]), "nothing was corrected"
    assert "rotation tag" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.mp4", "out.mp4"]


@pytest.mark.parametrize(
    ("suffix", "codec", "pixel_format", "options"),
    [
        (".mp4", "libx264", "yuv420p", {}),
        (".mkv", "libx264", "yuv444p", {}),
        (".mp4", "libx265", "yuv420p10le", {"x265-params": "log-level=none"}),
        (".webm", "libvpx-vp9", "yuv420p", {"cpu-used": "8", "b": "0"}),
        (".mov", "prores_ks", "yuv422p10le", {}),
        (".mkv", "ffv1", "yuv422p10le", {}),
        (".mkv", "ffv1", "gray", {}),
        (".mkv", "ffv1", "bgr0", {}),
        (".mkv", "libx264rgb", "rgb24", {"crf": "8"}),
        (".mp4", "libsvtav1", "yuv420p", {"preset": "10"}),
    ],
)
def test_codec_and_depth_are_kept(
    tmp_path: Path, suffix: str, codec: str, pixel_format: str, options: dict[str, str]
) -> None:
    recipe = Recipe(texture_frames(4, 48, 64), codec, pixel_format, options=options)
    source = make_video(tmp_path / f"in{suffix}", recipe)
    corrected(source, tmp_path / f"out{suffix}", "--gamma", 0.8, "--fast")
    before, after = facts(source), facts(tmp_path / f"out{suffix}")
    for name in ("times", "size", "codec", "pixel_format", "colours"):
        assert getattr(after, name) == getattr(before, name), name


@pytest.mark.parametrize("full", [1, 2])
@pytest.mark.parametrize("matrix", [1, 5, 6, 9])
def test_colours_do_not_shift(tmp_path: Path, matrix: int, full: int) -> None:
    # Flat colours: whatever moves, they must come back as the very samples.
    bars = torch.tensor([[0.9, 0.1, 0.1], [0.1, 0.8, 0.2], [0.05, 0.1, 0.95], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    frames = [bars[k % 5].reshape(3, 1, 1).expand(3, 32, 32) * (1 - 0.001 * k) for k in range(5)]
    source = make_video(
        tmp_path / "in.mkv",
        Recipe(frames, "ffv1", "yuv420p", options={}, colours=Colours(matrix, matrix, matrix, full)),
    )
    # Coherent: rounding to a matrix and back leaves specks of one level, which the network would rather do without.
    corrected(source, tmp_path / "out.mkv", "--gamma", 0.5, "--codec", "ffv1", "--fusion", "coherent")
    assert facts(tmp_path / "out.mkv").colours == facts(source).colours == (matrix, matrix, matrix, full)
    for old, new in zip(planes(source), planes(tmp_path / "out.mkv"), strict=True):
        for a, b in zip(old, new, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("pixel_format", ["yuv420p", "yuv422p10le", "bgr0", "gbrp10le", "gray", "yuva420p"])
def test_nothing_to_correct_is_returned_to_the_bit(tmp_path: Path, pixel_format: str) -> None:
    rng = np.random.default_rng(0)
    frames = [torch.from_numpy(rng.random((3, 40, 56), dtype=np.float32)) for _ in range(5)]
    source = make_video(tmp_path / "in.mkv", Recipe(frames, "ffv1", pixel_format, options={}))
    said = corrected(source, tmp_path / "out.mkv", "--gamma", 0, "--codec", "ffv1")
    assert "5 frames corrected into" in said
    assert "none needed a correction" in said
    for old, new in zip(planes(source), planes(tmp_path / "out.mkv"), strict=True):
        for a, b in zip(old, new, strict=True):
            np.testing.assert_array_equal(a, b)


def test_hdr_light_levels_are_kept(tmp_path: Path) -> None:
    light = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400"
    options = {"x265-params": f"log-level=none:{light}"}
    recipe = Recipe(texture_frames(4), "libx265", "yuv420p10le", options=options, colours=Colours(9, 9, 16, 1))
    source = make_video(tmp_path / "in.mp4", recipe)
    corrected(source, tmp_path / "out.mp4", "--gamma", 0.8, "--fast")
    before, after = facts(source).side_data, facts(tmp_path / "out.mp4").side_data
    for name in ("MASTERING_DISPLAY_METADATA", "CONTENT_LIGHT_LEVEL"):
        assert name in before
        assert after[name] == before[name]


def test_tracks_that_cannot_be_held_are_named(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4), sound=1, subtitles="mov_text"))
    said = corrected(source, tmp_path / "out.webm", "--gamma", 0.8, "--fast")
    assert "left out: audio track 1 (aac), which .webm files cannot hold" in said
    assert "left out: subtitle track 2 (mov_text)" in said
    assert facts(tmp_path / "out.webm").tracks == []


# --- options ---


def test_the_phone_clip_is_straightened(tmp_path: Path) -> None:
    """Stereo sound, a rotation tag, uneven times from 0.8 s on: everything kept, and the picture near the truth."""
    times = [0.0, 1.0, 2.0, 4.0, 4.95, 6.0, 7.0, 8.0, 10.0, 11.0]
    frames = [seen(texture(0, width=320), time) for time in times]
    truth = [seen(texture(0, width=320), time + READOUT.instant("middle"), 0.0) for time in times]
    stamps = [72000 + round(3000 * time) for time in times]
    # Colour at full resolution: the texture's own detail would be lost in less, before and after alike.
    recipe = Recipe(frames, "libx264", "yuv444p", stamps, {"crf": "4"}, rotation=90, sound=1)
    source = make_video(tmp_path / "in.mp4", recipe)
    corrected(source, tmp_path / "out.mp4", "--gamma", READOUT.gamma, "--crf", 4)
    before, after = facts(source), facts(tmp_path / "out.mp4")
    assert after.times == before.times
    assert after.tracks == before.tracks
    assert after.matrix == before.matrix is not None
    gain = decibels(tmp_path / "out.mp4", truth) - decibels(source, truth)
    assert gain > 8.0


def decibels(path: Path, truth: list[torch.Tensor]) -> float:
    inner = (..., slice(8, -8), slice(8, -8))
    pairs = zip(read_video(path), truth, strict=True)
    return float(torch.stack([-10 * torch.log10((a - b)[inner].square().mean()) for a, b in pairs]).mean())


def test_a_part_in_time_keeps_sound_and_picture_together(tmp_path: Path) -> None:
    frames = texture_frames(30)
    source = make_video(tmp_path / "in.mp4", Recipe(frames, stamps=[9000 + 3000 * k for k in range(30)], sound=1))
    corrected(source, tmp_path / "out.mp4", "--gamma", 0.8, "--fast", "--start", 0.4, "--end", 0.7)
    before, after = facts(source), facts(tmp_path / "out.mp4")
    assert after.times == [time - Fraction(2, 5) for time in before.times[12:21]]
    moved = [(time + Fraction(2, 5), data) for time, data in after.tracks[0][3]]
    kept = [packet for packet in before.tracks[0][3] if packet[1] in {data for _, data in moved}]
    assert moved == kept
    assert 12 <= len(moved) <= 16  # 0.3 s are 14 packets


@pytest.mark.parametrize(("rotation", "size"), [(0, (48, 128)), (90, (96, 64))])
def test_before_and_after_lie_side_by_side_as_people_see_them(
    tmp_path: Path, rotation: int, size: tuple[int, int]
) -> None:
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(5), rotation=rotation, sound=1))
    corrected(source, tmp_path / "out.mp4", "--gamma", 0.8, "--compare", tmp_path / "both.mp4")
    both = facts(tmp_path / "both.mp4")
    assert both.size == size
    assert both.times == facts(source).times
    assert both.tracks == []
    axis = -1 if rotation == 0 else -2
    for pair, before, after in zip(
        *(read_video(tmp_path / name) for name in ("both.mp4", "in.mp4", "out.mp4")), strict=True
    ):
        left, right = pair.chunk(2, axis)
        assert float((left - before).abs().mean()) < 0.02
        assert float((right - after).abs().mean()) < 0.02


def read_pixel_means(path: Path) -> list[float]:
    return [float(pixels.mean()) for pixels in read_pixels(path)]


def test_a_duration_is_an_end(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(12), "ffv1", options={}))
    corrected(source, tmp_path / "a.mkv", "--gamma", 0.5, "--fast", "--start", 0.1, "--duration", 0.2)
    corrected(source, tmp_path / "b.mkv", "--gamma", 0.5, "--fast", "--start", 0.1, "--end", 0.3)
    assert facts(tmp_path / "a.mkv").times == facts(tmp_path / "b.mkv").times
    assert len(facts(tmp_path / "a.mkv").times) == 6
    both = ("--end", 0.3, "--duration", 0.2)
    assert "one of --end and --duration" in fails("correct", source, "-o", tmp_path / "c.mkv", "--gamma", 0.5, *both)
    assert "over 0" in fails("correct", source, "-o", tmp_path / "c.mkv", "--gamma", 0.5, "--duration", 0)


def test_a_long_run_is_announced_with_what_is_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(14), "ffv1", options={}))
    said = corrected(source, tmp_path / "a.mkv", "--gamma", 0.5, "--fast")
    assert "this will take" not in said
    monkeypatch.setattr("qrsc.video.announcement.ANNOUNCED", 1e-6)
    said = corrected(source, tmp_path / "b.mkv", "--gamma", 0.5, "--fast")
    assert re.search(r"this will take about \d+ s, at .* and the output be about", said)
    assert "quickest" not in said
    monkeypatch.setattr("qrsc.video.announcement.LONG_RUN", 1e-6)
    said = corrected(source, tmp_path / "c.mkv", "--gamma", 0.5, "--fusion", "none")
    guess, hint = said.index("at a guess"), said.index("--fast is the quickest preset")
    assert guess < hint < said.index("this will take about", hint)
    assert said.count("--fast") == 1


def test_borders_are_cropped_or_transparent(tmp_path: Path) -> None:
    through = ("--border", "transparent", "--fusion", "none", "--tau", 1.2)
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(5), "ffv1", options={}))
    cut = ("--gamma", 0.8, "--margin", 0.1, "--tau", 1.2, "--border")
    corrected(source, tmp_path / "crop-only.mkv", *cut, "crop-only")
    corrected(source, tmp_path / "crop.mkv", *cut, "crop")
    assert facts(tmp_path / "crop-only.mkv").size == (48 - 2 * 4, 64 - 2 * 6)
    assert facts(tmp_path / "crop.mkv").size == (48, 64)
    smaller, scaled = (read_pixel_means(tmp_path / f"{name}.mkv") for name in ("crop-only", "crop"))
    assert scaled == pytest.approx(smaller, abs=1.0)  # of 255: the same part of the picture
    corrected(source, tmp_path / "through.mov", "--codec", "prores", "--gamma", 0.8, *through)
    assert facts(tmp_path / "through.mov").pixel_format.startswith("yuva444p")
    alpha = planes(tmp_path / "through.mov")[2][3]
    assert 0.01 < float((alpha == 0).mean()) < 0.2
    corrected(source, tmp_path / "frames", "--gamma", 0.8, *through)
    stored = read_frame(tmp_path / "frames" / "000002.png")
    assert stored.channels == 4
    assert stored.alpha is not None
    assert 0.01 < float((stored.alpha == 0).float().mean()) < 0.2


def test_milliseconds_need_no_rate_for_a_video(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(4), "ffv1", options={}))
    corrected(source, tmp_path / "a.mkv", "--readout", 20)
    corrected(source, tmp_path / "b.mkv", "--gamma", 0.6)
    np.testing.assert_array_equal(planes(tmp_path / "a.mkv")[1][0], planes(tmp_path / "b.mkv")[1][0])
    code, said = invoke("correct", source, "-o", tmp_path / "c.mkv", "--readout", 40)
    assert code == 2
    assert "does not fit between two frames at 30 fps" in said


def test_without_loss_in_h264(tmp_path: Path) -> None:
    frames = [torch.rand(3, 32, 48, generator=torch.Generator().manual_seed(k)) for k in range(3)]
    source = make_video(tmp_path / "in.mp4", Recipe(frames))
    corrected(source, tmp_path / "out.mp4", "--gamma", 0, "--crf", 0)
    for old, new in zip(planes(source), planes(tmp_path / "out.mp4"), strict=True):
        for a, b in zip(old, new, strict=True):
            np.testing.assert_array_equal(a, b)


def test_global_shutter_footage_comes_back_to_the_bit(tmp_path: Path, real_data: Path) -> None:
    source = real_data / "clips" / "global_shutter.mp4"
    if not source.exists():
        pytest.skip("no such clip among the real samples")
    corrected(source, tmp_path / "out.mkv", "--gamma", 0, "--codec", "ffv1", "--end", 0.5)
    pairs = zip(planes(tmp_path / "out.mkv"), planes(source), strict=False)
    assert sum(1 for _ in planes(tmp_path / "out.mkv")) == 15
    for new, old in pairs:
        for a, b in zip(new, old, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_real_sequence_gains_what_its_flow_allows(tmp_path: Path, real_data: Path) -> None:
    folder = real_data / "Fastec-RS" / "test" / "seq_a"
    source = tmp_path / "in"
    source.mkdir()
    for path in folder.glob("*_rolling.png"):
        (source / path.name).symlink_to(path)
    corrected(source, tmp_path / "out", "--gamma", 1, "--fast")
    truth = read_frame(folder / "001_global_middle.png").frame
    before, after = (
        -10 * float(torch.log10((read_frame(place / "001_rolling.png").frame - truth).square().mean()))
        for place in (source, tmp_path / "out")
    )
    assert before == pytest.approx(23.34, abs=0.01)
    assert after > 28.6


# --- a readout that nobody gave ---


@pytest.mark.parametrize("nothing", [False, True])
def test_a_readout_is_looked_for_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nothing: bool
) -> None:
    asked: dict[str, object] = {}

    def readout_for_clip(source: Path, **options: object) -> ChosenReadout:
        asked.update(options, source=source)
        return ChosenReadout(Readout(0.8), "gamma 0.8, found", nothing_to_correct=nothing)

    monkeypatch.setattr("qrsc.video.readout.readout_for_clip", readout_for_clip)
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(4), "ffv1", options={}))
    said = corrected(source, tmp_path / "out.mkv", "--camera", "pinhole")
    assert "note: gamma 0.8, found" in said
    assert asked["source"] == source
    assert (asked["camera"], asked["scan"]) == ("pinhole", None)
    assert asked["fps"] == pytest.approx(30.0)
    same = np.array_equal(planes(source)[1][0], planes(tmp_path / "out.mkv")[1][0])
    assert same == nothing


def test_the_rotation_is_kept_by_older_versions_of_pyav(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qrsc.media.writer._writes_rotation", lambda stream: False)
    source = make_video(tmp_path / "in.mp4", Recipe(texture_frames(4), rotation=90, sound=1))
    corrected(source, tmp_path / "out.mp4", "--gamma", 0.8, "--fast")
    before, after = facts(source), facts(tmp_path / "out.mp4")
    assert after.matrix == before.matrix is not None
    assert after.times == before.times
    assert after.tracks == before.tracks
    assert "cannot hold the rotation tag" in fails("correct", source, "-o", tmp_path / "out.mkv", "--gamma", 0.8)
    assert not (tmp_path / "out.mkv").exists()


def test_tracks_and_rotation_are_kept_in_matroska(tmp_path: Path) -> None:
    source = make_video(tmp_path / "in.mkv", Recipe(texture_frames(5), sound=2, subtitles="subrip", rotation=180))
    corrected(source, tmp_path / "out.mkv", "--gamma", 0.8, "--fast")
    before, after = facts(source), facts(tmp_path / "out.mkv")
    assert [track[:2] for track in before.tracks] == [("audio", "aac"), ("audio", "aac"), ("subtitle", "srt")]
    assert after.tracks == before.tracks
    assert after.times == before.times
    assert after.matrix == before.matrix is not None


def test_data_tracks_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "in.ts"
    with av.open(str(source), "w") as container:
        video: Any = container.add_stream("libx264", rate=30)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        data: Any = container.add_data_stream("klv")
        for number, frame in enumerate(texture_frames(6)):
            picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
            picture.pts, picture.time_base = number, Fraction(1, 30)
            container.mux(video.encode(picture))
            packet: Any = av.Packet(bytes([number] * 20))
            packet.stream, packet.time_base = data, Fraction(1, 30)
            packet.pts = packet.dts = number
            container.mux(packet)
        container.mux(video.encode(None))
    corrected(source, tmp_path / "out.ts", "--gamma", 0.8, "--fast")
    before, after = facts(source), facts(tmp_path / "out.ts")
    assert [content[:1] for _, content in before.tracks[0][3]] == [bytes([number]) for number in range(6)]
    assert after.tracks == before.tracks
    assert after.times == before.times


def test_makers_keys_and_timecode_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "in.mov"
    made = {"com.apple.quicktime.make": "A maker", "com.apple.quicktime.location.ISO6709": "+52.5+13.4/"}
    with av.open(str(source), "w", options={"movflags": "use_metadata_tags"}) as container:
        video: Any = container.add_stream("libx264", rate=30)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        video.metadata["timecode"] = "01:02:03:04"
        container.metadata.update(made)
        for number, frame in enumerate(texture_frames(3)):
            picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
            picture.pts, picture.time_base = number, Fraction(1, 30)
            container.mux(video.encode(picture))
        container.mux(video.encode(None))
    corrected(source, tmp_path / "out.mov", "--gamma", 0.8, "--fast")
    assert made.items() <= facts(tmp_path / "out.mov").metadata.items()
    with av.open(str(tmp_path / "out.mov")) as container:
        assert [stream.metadata["timecode"] for stream in container.streams] == ["01:02:03:04"] * 2
