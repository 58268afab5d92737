"""What is kept in which file format: the one table that the tests check and that `docs/promises.md` shows.

`python -m tests.media.promises` writes the tables of the page anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

CONTAINERS = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".ts")
PAGE = Path(__file__).parents[2] / "docs" / "promises.md"
KEPT = "kept"
TEN_BIT_VP9 = "10-bit VP9"  # no encoder: the tests make it from 8 bits


@dataclass(frozen=True)
class Promise:
    """What becomes of a property in a file format.

    Attributes:
        words: for the page; `kept` is the property as it was.
        note: a regular expression that a note of the result must match; empty if the page is enough, since it is so for
            every file of that format.
    """

    words: str
    note: str = ""


def left_out(note: str) -> Promise:
    """A property that is not in the output, and is named."""
    return Promise("left out, named", note)


_ROUNDED = Promise("to a millisecond")
_NO_ROTATION = left_out("the rotation tag is left out")
_NO_COVER = left_out(r"left out: cover picture in track \d+ \(mjpeg\)")
_NO_SUBTITLES = left_out(r"left out: subtitle track \d+ \(mov_text\)")
_NO_SECOND = left_out(r"left out: video track \d+ \(h264\)")
_NO_CHAPTERS = left_out("left out: 2 of 2 chapters")

# A clip with everything, in MP4, written into each file format. What is not here is kept.
PARTS: dict[str, dict[str, Promise]] = {
    "frames": {},
    "timestamps": {
        ".mkv": _ROUNDED,
        ".webm": _ROUNDED,
        ".avi": Promise("a constant rate, from 0", "AVI holds a constant frame rate and no start time"),
    },
    "size of the frames": {},
    "colour tags and range": {},
    "pixel aspect ratio": {},
    "rotation and mirror tags": {".avi": _NO_ROTATION, ".ts": _NO_ROTATION},
    "sound (AAC)": {".webm": left_out(r"left out: audio track \d+ \(aac\)")},
    "languages": {
        ".webm": Promise("left out with the sound", r"left out: audio track \d+ \(aac\)"),
        ".avi": left_out("left out: languages eng, deu of audio tracks"),
    },
    "subtitles (MP4 text)": dict.fromkeys((".mkv", ".webm", ".avi", ".ts"), _NO_SUBTITLES),
    "second video (H.264)": dict.fromkeys((".webm", ".avi"), _NO_SECOND),
    "cover picture": dict.fromkeys((".mov", ".webm", ".avi", ".ts"), _NO_COVER),
    "chapters": {".avi": _NO_CHAPTERS, ".ts": _NO_CHAPTERS},
    "title, comment": {".ts": left_out("left out: metadata comment")},
    "creation time": {
        ".avi": left_out("left out: metadata .*creation_time"),
        ".ts": left_out("left out: metadata .*creation_time"),
    },
}


@dataclass(frozen=True)
class Track:
    """A kind of track beside the video, in a Matroska file.

    Attributes:
        title: for the page.
        kind: of the track.
        encoder: of sound, or the codec of subtitles.
        left_out: of files of these formats, and named.
    """

    title: str
    kind: str
    encoder: str
    left_out: tuple[str, ...]


TRACKS = (
    Track("AAC", "audio", "aac", (".webm",)),
    Track("MP3", "audio", "libmp3lame", (".webm",)),
    Track("MP2", "audio", "mp2", (".webm",)),
    Track("AC-3", "audio", "ac3", (".webm",)),
    Track("Opus", "audio", "libopus", (".mov", ".avi")),
    Track("FLAC", "audio", "flac", (".mov", ".webm", ".ts")),
    Track("ALAC", "audio", "alac", (".webm", ".avi", ".ts")),
    Track("uncompressed sound (PCM)", "audio", "pcm_s16le", (".webm", ".ts")),
    Track("SubRip", "subtitle", "subrip", (".mp4", ".mov", ".webm", ".avi", ".ts")),
    Track("SubStation Alpha", "subtitle", "ass", (".mp4", ".mov", ".webm", ".avi", ".ts")),
    Track("WebVTT", "subtitle", "webvtt", (".mp4", ".mov", ".avi", ".ts")),
    Track("attached files (fonts)", "attachment", "", (".mp4", ".mov", ".webm", ".avi", ".ts")),
)


@dataclass(frozen=True, eq=False)
class Source:
    """A kind of video.

    Attributes:
        title: for the page.
        encoder, pixel_format, suffix, options: how the tests write it.
        codec: FFmpeg's name of its codec.
        outputs: what it becomes in each file format: `kept`, or the new codec with what is lost behind it, such as
            `hevc, no alpha, 12 bits`.
        alpha, hdr: it has transparent pixels, or HDR light levels.
    """

    title: str
    encoder: str
    pixel_format: str
    suffix: str
    codec: str
    outputs: dict[str, str]
    options: tuple[tuple[str, str], ...] = ()
    alpha: bool = False
    hdr: bool = False


def _outputs(*cells: str) -> dict[str, str]:
    return dict(zip(CONTAINERS, cells, strict=True))


_X265 = (("x265-params", "log-level=none"),)
_LIGHT = "master-display=G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1):max-cll=1000,400"
_QUICK = (("cpu-used", "8"), ("b", "0"))
K = KEPT

# What each kind of video becomes in .mp4, .mov, .mkv, .webm, .avi and .ts. Frames, size, colours, pixel aspect and
# whatever the cell does not name are kept in every cell.
SOURCES = (
    Source("H.264", "libx264", "yuv420p", ".mp4", "h264", _outputs(K, K, K, "vp9", K, K)),
    Source("H.264 4:2:2 10 bits", "libx264", "yuv422p10le", ".mp4", "h264", _outputs(K, K, K, "av1, 4:2:0", K, K)),
    Source("H.264 RGB", "libx264rgb", "rgb24", ".mkv", "h264", _outputs(K, K, K, "vp9", K, K)),
    Source("HEVC 10 bits, HDR10", "libx265", "yuv420p10le", ".mp4", "hevc",
           _outputs(K, K, K, "av1", "ffv1, no HDR, no tags", K),
           (("x265-params", f"log-level=none:{_LIGHT}"),), hdr=True),
    Source("HEVC 4:4:4 12 bits", "libx265", "yuv444p12le", ".mkv", "hevc",
           _outputs(K, K, K, "vp9, 8 bits", "ffv1, no tags", K), _X265),
    Source("VP8", "libvpx", "yuv420p", ".webm", "vp8", _outputs("h264", "h264", "h264", "vp9", "h264", "h264")),
    Source("VP9", "libvpx-vp9", "yuv420p", ".webm", "vp9", _outputs(K, "h264", K, K, "h264", "h264"), _QUICK),
    Source("VP9 10 bits", TEN_BIT_VP9, "yuv420p", ".webm", "vp9",
           _outputs("hevc", "hevc", "hevc", "av1", "ffv1, no tags", "hevc"),
           (*_QUICK, ("g", "1"), ("lag-in-frames", "0"))),
    Source("VP9 with alpha", "libvpx-vp9", "yuva420p", ".webm", "vp9",
           _outputs("vp9, no alpha", "prores", K, K, "ffv1, no tags", "h264, no alpha"),
           (*_QUICK, ("auto-alt-ref", "0")), alpha=True),
    Source("AV1 10 bits", "libsvtav1", "yuv420p10le", ".mp4", "av1", _outputs(K, "hevc", K, K, "ffv1, no tags", "hevc"),
           (("preset", "11"),)),
    Source("ProRes 4:2:2", "prores_ks", "yuv422p10le", ".mov", "prores",
           _outputs("hevc", K, K, "av1, 4:2:0", "ffv1, no tags", "hevc")),
    Source("ProRes 4444 with alpha", "prores_ks", "yuva444p10le", ".mov", "prores",
           _outputs("hevc, no alpha", "kept, 10 bits", "kept, 10 bits", "vp9, 8 bits, 4:2:0", "ffv1, no tags",
                    "hevc, no alpha"), alpha=True),
    Source("FFV1 4:2:2 10 bits", "ffv1", "yuv422p10le", ".mkv", "ffv1",
           _outputs("hevc", "hevc", K, "av1, 4:2:0", "kept, no tags", "hevc")),
    Source("FFV1 grey 16 bits", "ffv1", "gray16le", ".mkv", "ffv1",
           _outputs("hevc, 12 bits", "hevc, 12 bits", K, "vp9, 8 bits", "kept, no tags", "hevc, 12 bits")),
    Source("PNG with alpha", "png", "rgba", ".mov", "png",
           _outputs("h264, no alpha", K, "ffv1", "vp9, 4:2:0", K, "h264, no alpha"), alpha=True),
    Source("PNG with alpha, 16 bits", "png", "rgba64be", ".mov", "png",
           _outputs("hevc, no alpha, 12 bits", K, "ffv1", "vp9, 8 bits, 4:2:0", K, "hevc, no alpha, 12 bits"),
           alpha=True),
    Source("QuickTime Animation with alpha", "qtrle", "argb", ".mov", "qtrle",
           _outputs("h264, no alpha", K, "ffv1", "vp9, 4:2:0", "ffv1", "h264, no alpha"), alpha=True),
    Source("GIF", "gif", "bgr8", ".gif", "gif",
           _outputs("h264, no alpha", "qtrle", "ffv1", "vp9, 4:2:0", "ffv1", "h264, no alpha")),
    Source("uncompressed 4:2:2 10 bits (v210)", "v210", "yuv422p10le", ".avi", "v210",
           _outputs("hevc", "hevc", "hevc", "av1, 4:2:0", "ffv1", "hevc")),
    Source("uncompressed RGB", "rawvideo", "bgr24", ".avi", "rawvideo",
           _outputs("h264", "h264", "h264", "vp9", "h264", "h264")),
    Source("Motion JPEG", "mjpeg", "yuvj420p", ".avi", "mjpeg",
           _outputs("h264", "h264", "h264", "vp9", "h264", "h264")),
    Source("MPEG-2", "mpeg2video", "yuv420p", ".vob", "mpeg2video",
           _outputs("h264", "h264", "h264", "vp9", "h264", "h264")),
)  # fmt: skip

_NAMES = {
    "h264": "H.264", "hevc": "HEVC", "vp9": "VP9", "av1": "AV1", "ffv1": "FFV1", "prores": "ProRes 4444",
    "qtrle": "Animation", KEPT: KEPT,
}  # fmt: skip


def tables() -> str:
    """The tables as they stand on the page."""
    head = f"| | {' | '.join(f'`{suffix}`' for suffix in CONTAINERS)} |\n|---|{'---|' * len(CONTAINERS)}\n"
    parts = "".join(
        f"| {part} | {' | '.join(changed[suffix].words if suffix in changed else KEPT for suffix in CONTAINERS)} |\n"
        for part, changed in PARTS.items()
    )
    videos = "".join(
        f"| {source.title} | {' | '.join(_told(source.outputs[suffix]) for suffix in CONTAINERS)} |\n"
        for source in SOURCES
    )
    others = "".join(
        f"| {track.title} | {' | '.join('left out, named' if s in track.left_out else KEPT for s in CONTAINERS)} |\n"
        for track in TRACKS
    )
    return f"### Parts of a clip\n\n{head}{parts}\n### Other tracks\n\n{head}{others}\n### Video\n\n{head}{videos}"


def _told(cell: str) -> str:
    codec, *lost = cell.split(", ")
    return ", ".join([_NAMES[codec], *lost])


def with_tables(page: str) -> str:
    """The page with the tables brought up to date."""
    marked = re.compile(r"(<!-- tables -->\n).*(<!-- end of tables -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{tables()}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
