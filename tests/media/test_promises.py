"""The table of promises, cell by cell: every property of every clip is kept, or changed as the table says and named."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import qrsc
from qrsc.media.pixel_aspect import set_pixel_aspects
from qrsc.media.planes import Colours, Layout, alpha_of, frame_of, layout_of
from qrsc.media.probe import codec_name, colours_of, decoder_of

from ..videos import Facts, Recipe, facts, make_video, texture_frames
from .promises import CONTAINERS, KEPT, PAGE, PARTS, SOURCES, TEN_BIT_VP9, TRACKS, Source, Track, with_tables
from .ten_bit_vp9 import ten_bit_vp9

FRAMES = 5
LIMITED_RANGE = 1  # as is a clip that does not say
ASPECT = Fraction(4, 3)
START_CODES = (b"\x00\x00\x01", b"\x00\x00\x00\x01")
UNEVEN = [72000, 75000, 78000, 84000, 87000]  # from 0.8 s on, with a gap
FORMATS = {".mkv": "matroska", ".webm": "webm", ".avi": "avi"}
CHAPTERS = [
    {"id": 1, "start": 0, "end": 900, "time_base": Fraction(1, 1000), "metadata": {"title": "One"}},
    {"id": 2, "start": 900, "end": 1000, "time_base": Fraction(1, 1000), "metadata": {"title": "Two"}},
]
TEXTS = {"creation_time": "2024-05-06T07:08:09.000000Z", "title": "A clip", "comment": "By hand"}


def corrected(source: Path, output: Path) -> str:
    """Correct a clip; all notes in one text."""
    return "\n".join(qrsc.correct_video(source, output, gamma=0.5, preset="fast").notes)


def intervals(times: list[Fraction]) -> list[float]:
    return [float(after - before) for before, after in pairwise(times)]


# --- parts of a clip ---


@dataclass(frozen=True)
class Outcome:
    """A clip before and after, and what was said."""

    before: Facts
    after: Facts
    notes: str

    def tracks(self, kind: str, codec: str) -> tuple[list[Any], list[Any]]:
        """The packets of all tracks of a kind, before and after, without the headers that a format adds to each."""
        before, after = (
            [[packet for _, packet in track[3]] for track in each.tracks if track[:2] == (kind, codec)]
            for each in (self.before, self.after)
        )
        return before, after


@pytest.fixture(scope="module", params=CONTAINERS)
def whole_clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Outcome]:
    """A clip with everything, in each file format."""
    folder = tmp_path_factory.mktemp("parts")
    recipe = Recipe(
        texture_frames(FRAMES),
        stamps=UNEVEN,
        colours=Colours(9, 9, 16, 1),
        rotation=90,
        pixel_aspect=ASPECT,
        sound=2,
        subtitles="mov_text",
        second=True,
        cover=True,
        metadata=TEXTS,
        chapters=CHAPTERS,
    )
    source, output = make_video(folder / "in.mp4", recipe), folder / f"out{request.param}"
    notes = corrected(source, output)
    return request.param, Outcome(facts(source), facts(output), notes)


def same_packets(outcome: Outcome, kind: str, codec: str) -> bool:
    """Whether the content of all tracks of a kind is the same, framed as the file format does it."""
    before, after = outcome.tracks(kind, codec)
    assert before, "the source has none"
    return [[content(packet, codec) for packet in track] for track in before] == [
        [content(packet, codec) for packet in track] for track in after
    ]


def content(packet: bytes, codec: str) -> bytes:
    """A packet as MP4 has it: transport streams put a header before AAC, and start codes and parameters into H.264."""
    if codec == "aac" and packet[:2] in (b"\xff\xf1", b"\xff\xf9"):
        return packet[7:]
    if codec == "h264":
        units = re.split(rb"\x00\x00\x00?\x01", packet) if packet.startswith(START_CODES) else prefixed(packet)
        return b"|".join(unit for unit in units if unit and unit[0] & 31 in (1, 5)).rstrip(b"\x00")
    return packet


def prefixed(packet: bytes) -> list[bytes]:
    units, at = [], 0
    while at < len(packet):
        size = int.from_bytes(packet[at : at + 4], "big")
        units.append(packet[at + 4 : at + 4 + size])
        at += 4 + size
    return units


def part_is_kept(part: str, outcome: Outcome) -> bool:
    before, after = outcome.before, outcome.after
    if part in ("sound (AAC)", "subtitles (MP4 text)", "second video (H.264)", "cover picture"):
        kind = {
            "sound (AAC)": ("audio", "aac"),
            "subtitles (MP4 text)": ("subtitle", "mov_text"),
            "second video (H.264)": ("video", "h264"),
            "cover picture": ("video", "mjpeg"),
        }[part]
        return same_packets(outcome, *kind)
    if part == "languages":
        spoken = [
            [track[2].get("language") for track in each.tracks if track[0] == "audio"] for each in (before, after)
        ]
        # QuickTime reads German as `ger`.
        return spoken[1] in (spoken[0], ["eng", "ger"])
    texts = {key.lower(): value for key, value in after.metadata.items()}
    checks = {
        "frames": len(after.times) == len(before.times) == FRAMES,
        "timestamps": after.times == before.times,
        "size of the frames": after.size == before.size,
        "colour tags and range": after.colours == before.colours == (9, 9, 16, 1),
        "pixel aspect ratio": after.pixel_aspect == before.pixel_aspect == ASPECT,
        "rotation and mirror tags": after.matrix == before.matrix is not None,
        "chapters": after.chapters == before.chapters and len(before.chapters) == 2,
        "title, comment": all(texts.get(key) == TEXTS[key] for key in ("title", "comment")),
        "creation time": texts.get("creation_time") == TEXTS["creation_time"],
    }
    return checks[part]


@pytest.mark.parametrize("part", PARTS)
def test_parts_are_kept_or_named(whole_clip: tuple[str, Outcome], part: str) -> None:
    suffix, outcome = whole_clip
    promise = PARTS[part].get(suffix)
    kept = part_is_kept(part, outcome)
    if promise is None:
        assert kept
        return
    assert not kept, "the table promises less than is kept"
    assert re.search(promise.note, outcome.notes)
    if part == "timestamps":
        shifts = [
            abs(a - b) for a, b in zip(intervals(outcome.after.times), intervals(outcome.before.times), strict=True)
        ]
        assert max(shifts) <= (0.0011 if suffix != ".avi" else 0.034)


# --- other tracks ---


@cache
def track_clip(kind: Track, folder: Path) -> Path:
    """A clip with one track of a kind."""
    path = folder / f"{kind.kind}-{kind.encoder}.mkv"
    rng = np.random.default_rng(0)
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream("libx264", rate=25, options={"bf": "0"})
        video.width, video.height, video.pix_fmt = 64, 48, "yuv420p"
        track: Any = None
        if kind.kind == "audio":
            track = container.add_stream(kind.encoder, rate=48000, layout="stereo")
        elif kind.kind == "subtitle":
            track = container.add_mux_stream(kind.encoder)
        else:
            container.add_attachment("font.ttf", "application/x-truetype-font", b"FONT" * 50)
        for number, frame in enumerate(texture_frames(FRAMES)):
            picture: Any = frame_of(frame, layout_of("yuv420p"), Colours())
            picture.pts, picture.time_base = number, Fraction(1, 25)
            container.mux(video.encode(picture))
            if kind.kind == "audio":
                noise = (0.1 * rng.standard_normal((2, 1920))).astype(np.float32)
                wave: Any = av.AudioFrame.from_ndarray(noise, format="fltp", layout="stereo")
                wave.sample_rate, wave.pts, wave.time_base = 48000, 1920 * number, Fraction(1, 48000)
                container.mux(track.encode(wave))
            elif kind.kind == "subtitle" and number % 2 == 0:
                text = av.Packet(f"Text {number}".encode())
                text.stream, text.time_base = track, Fraction(1, 1000)
                text.pts = text.dts = 40 * number
                text.duration = 40
                container.mux(text)
        container.mux([*video.encode(None), *(track.encode(None) if kind.kind == "audio" else [])])
    return path


def track_content(path: Path, kind: Track) -> list[bytes]:
    """Everything in the track beside the video; uncompressed sound may be cut into other packets."""
    with av.open(str(path)) as container:
        others: list[Any] = [stream for stream in container.streams if stream.type != "video"]
        if kind.kind == "attachment":
            return [bytes(stream.data) for stream in others if stream.type == "attachment"]
        assert [stream.type for stream in others] == [kind.kind] * len(others)
        packets = [bytes(packet) for packet in container.demux(others) if packet.size] if others else []
    packets = [content(packet, kind.encoder) for packet in packets]
    return [b"".join(packets)] if kind.encoder.startswith("pcm_") and packets else packets


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("kind", TRACKS, ids=lambda kind: kind.title)
def test_other_tracks_are_kept_to_the_byte_or_named(kind: Track, suffix: str, sources: Path, tmp_path: Path) -> None:
    source, output = track_clip(kind, sources), tmp_path / f"out{suffix}"
    notes = corrected(source, output)
    before, after = track_content(source, kind), track_content(output, kind)
    assert before
    left_out = suffix in kind.left_out
    assert after == ([] if left_out else before)
    assert (f"left out: {kind.kind} track 1" in notes) == left_out


# --- video ---


@dataclass(frozen=True)
class Shown:
    """What a video says about itself when its frames are decoded."""

    codec: str
    layout: Layout
    times: list[Fraction]
    size: tuple[int, int]
    colours: tuple[int, int, int, int]
    aspect: Fraction | None
    alpha: Any  # of the middle frame, in [0, 1]
    light: list[float]  # chromaticities, luminances, and brightest and average light level


def shown(path: Path) -> Shown:
    with av.open(str(path)) as container:  # FFmpeg's own decoder of VP9 gives the tags, libvpx's alpha
        tags = colours_of(next(iter(container.decode(container.streams.video[0]))))
    with av.open(str(path)) as container:
        stream: Any = container.streams.video[0]
        decoder = decoder_of(stream)
        frames: list[Any] = [frame for packet in container.demux(stream) for frame in decoder.decode(packet)]
        first, middle = frames[0], frames[len(frames) // 2]
        layout, alpha = layout_of(first.format.name), alpha_of(middle)
        return Shown(
            codec_name(stream),
            layout,
            [frame.pts * stream.time_base for frame in frames],
            (first.height, first.width),
            (tags.matrix, tags.primaries, tags.transfer, tags.range),
            stream.sample_aspect_ratio,
            None if alpha is None else alpha.astype(np.float32) / (2**layout.bits - 1),
            light_levels({part.type.name: bytes(part) for part in first.side_data}),
        )


def light_levels(side_data: dict[str, bytes]) -> list[float]:
    """HDR light levels as numbers: AV1 stores them in other units than HEVC."""
    mastering = struct.unpack("=20i", side_data.get("MASTERING_DISPLAY_METADATA", b"")[:80].ljust(80, b"\0"))
    light = struct.unpack("=2I", side_data.get("CONTENT_LIGHT_LEVEL", b"")[:8].ljust(8, b"\0"))
    rationals = [top / bottom for top, bottom in zip(mastering[::2], mastering[1::2], strict=True) if bottom]
    return [*rationals, *(float(level) for level in light if level)]


@cache
def source_of(kind: Source, folder: Path) -> Path:
    path = folder / f"{kind.encoder}-{kind.pixel_format}{kind.suffix}"
    recipe = Recipe(
        texture_frames(FRAMES),
        kind.encoder,
        kind.pixel_format,
        stamps=[0, 3600, 7200, 10800, 14400],
        options=dict(kind.options),
        colours=Colours(9, 9, 16, 1) if kind.hdr else Colours() if is_rgb(kind) else Colours(1, 1, 1, 1),
        pixel_aspect=None if kind.suffix == ".gif" else ASPECT,
        alpha=kind.alpha,
        rate=25,
    )
    if kind.encoder == TEN_BIT_VP9:
        recipe.codec = "libvpx-vp9"
        ten_bit_vp9(make_video(folder / "8-bit.webm", recipe), path)
    else:
        make_video(path, recipe)
    if kind.suffix in FORMATS:
        assert set_pixel_aspects(path, FORMATS[kind.suffix], {0: ASPECT})
    return path


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources")


@pytest.mark.parametrize("suffix", CONTAINERS)
@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.title)
def test_videos_are_kept_or_changed_as_promised(
    kind: Source, suffix: str, sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A clip of which no frame changes is copied, as the one of 10 bits would be.
    monkeypatch.setattr("qrsc.video.correct.can_pass_through", lambda job: False)
    if kind.encoder == TEN_BIT_VP9 and "yuv420p10le" in {
        each.name for each in av.Codec("libvpx-vp9", "w").video_formats or ()
    }:
        pytest.skip("this libvpx encodes 10 bits, and the codec is kept")
    source, output = source_of(kind, sources), tmp_path / f"out{suffix}"
    notes = corrected(source, output)
    before, after = shown(source), shown(output)
    codec, *lost = kind.outputs[suffix].split(", ")
    assert before.codec == kind.codec
    assert after.codec == (kind.codec if codec == KEPT else codec)
    assert ("the video is encoded as" in notes) == (after.codec != before.codec)
    expect_layout(before.layout, after, lost, notes)
    assert len(after.times) == FRAMES
    # Matroska rounds to milliseconds.
    assert intervals(after.times) == pytest.approx(intervals(before.times), abs=0.0011)
    assert after.size == before.size
    assert (after.aspect or 1) == (before.aspect or 1)
    expect_colours(before, after, lost, notes)
    assert after.light == (pytest.approx(before.light, rel=1e-3, abs=1e-4) if "no HDR" not in lost else [])
    assert ("HDR light levels are left out" in notes) == ("no HDR" in lost)
    assert len(before.light) == (12 if kind.hdr else 0)


def is_rgb(kind: Source) -> bool:
    return layout_of(kind.pixel_format).kind == "rgb"


def expect_colours(before: Shown, after: Shown, lost: list[str], notes: str) -> None:
    """Colour tags are as before, as far as both can have the same: RGB has no matrix and always the full range."""
    both = [
        each.colours if each.layout.kind == "yuv" == before.layout.kind else (0, *each.colours[1:3], 0)
        for each in (before, after)
    ]
    told, kept = [(*tags[:3], tags[3] or LIMITED_RANGE) for tags in both]
    assert (told == kept) == ("no tags" not in lost)
    assert ("colour tags are left out" in notes) == ("no tags" in lost)


def expect_layout(source: Layout, after: Shown, lost: list[str], notes: str) -> None:
    """Alpha, depth, chroma and RGB are as before, or lost as the table says, with a note."""
    assert (source.alpha and not after.layout.alpha) == ("no alpha" in lost)
    assert ("transparency is left out" in notes) == ("no alpha" in lost)
    bits = [int(each.split()[0]) for each in lost if each.endswith("bits")]
    if bits:
        assert f"{source.bits} bits per sample become {bits[0]}" in notes
        # The decoder of ProRes gives 12 bits for what was encoded from 10.
        assert after.layout.bits == (12 if after.codec == "prores" else bits[0])
    else:
        assert after.layout.bits >= source.bits
        assert "bits per sample become" not in notes
    finer = after.layout.across <= source.across and after.layout.down <= source.down
    assert (finer or source.kind == "grey") == ("4:2:0" not in lost)
    assert bool(re.search("becomes (YUV )?4:2:0", notes)) == ("4:2:0" in lost)
    assert ("RGB becomes YUV" in notes) == (source.kind == "rgb" != after.layout.kind)
    if after.alpha is not None and source.alpha:
        half = after.alpha.shape[0] // 2
        if float(after.alpha[:half].mean()) < 0.99:  # a GIF is opaque
            assert float(after.alpha[: half - 8].mean()) == pytest.approx(0.5, abs=0.02)
            assert float(after.alpha[half + 8 :].mean()) == pytest.approx(1.0, abs=0.02)


def test_the_page_shows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_tables(page) == page, "write it anew: python -m tests.media.promises"
    assert "| GIF | H.264, no alpha |" in page
