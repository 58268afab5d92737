"""Whole files to be damaged: small videos of many formats, written on the fly, with everything that a file can hold."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from ..videos import Recipe, make_video, texture_frames

FRAMES = 8
CHAPTERS: list[dict[str, Any]] = [
    {"id": k, "start": 100 * k, "end": 100 * k + 100, "time_base": Fraction(1, 1000), "metadata": {"title": "part"}}
    for k in range(2)
]
_TAGS = {"title": "a clip", "creation_time": "2026-01-02T03:04:05.000000Z"}

# Suffix and recipe of each; the frames are added when the file is written.
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "mp4": (".mp4", {"sound": 1, "subtitles": "mov_text", "chapters": CHAPTERS, "rotation": 90, "metadata": _TAGS}),
    "mp4-uneven": (".mp4", {"stamps": [3000 * k + 1500 * (k > 3) + 9000 * (k > 5) for k in range(FRAMES)]}),
    "mp4-hevc": (".mp4", {"codec": "libx265", "options": {"x265-params": "log-level=none"}, "sound": 1}),
    "mp4-av1": (".mp4", {"codec": "libsvtav1", "options": {"preset": "12"}}),
    "mov": (".mov", {"sound": 2, "metadata": _TAGS, "pixel_aspect": Fraction(4, 3)}),
    "mov-prores": (".mov", {"codec": "prores_ks", "pixel_format": "yuv422p10le", "options": {}}),
    "mov-alpha": (".mov", {"codec": "qtrle", "pixel_format": "argb", "options": {}}),
    "mkv": (".mkv", {"sound": 1, "subtitles": "subrip", "chapters": CHAPTERS, "metadata": _TAGS}),
    "mkv-ffv1": (".mkv", {"codec": "ffv1", "options": {}, "stamps": [3000 * k + 4500 for k in range(FRAMES)]}),
    "webm": (".webm", {"codec": "libvpx-vp9", "options": {"deadline": "realtime", "cpu-used": "8"}}),
    "webm-vp8": (".webm", {"codec": "libvpx", "options": {"deadline": "realtime", "cpu-used": "8"}}),
    "avi-mjpeg": (".avi", {"codec": "mjpeg", "pixel_format": "yuvj420p", "options": {}}),
    "ts": (".ts", {"sound": 1}),
    "flv": (".flv", {"codec": "flv", "options": {}, "sound": 1}),
    "gif": (".gif", {"codec": "gif", "pixel_format": "rgb8", "options": {}}),
    "raw": (".h264", {}),
}


def write_base(folder: Path, name: str, size: tuple[int, int]) -> Path:
    """Write the file of a name with frames of a size `(H, W)`."""
    if name in _SPECIAL:
        suffix, write = _SPECIAL[name]
        path = folder / f"{name}{suffix}"
        write(path, size)
        return path
    suffix, recipe = RECIPES[name]
    return make_video(folder / f"{name}{suffix}", Recipe(texture_frames(FRAMES, *size), **recipe))


def _with_cover(path: Path, size: tuple[int, int]) -> None:
    """A cover picture beside the video, and an edit list that starts late."""
    plain = make_video(path.with_stem("plain"), Recipe(texture_frames(FRAMES, *size), stamps=_LATE, sound=1))
    encoder: Any = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = 16, 16, "yuvj420p", Fraction(1, 25)
    picture: Any = av.VideoFrame.from_ndarray(np.full((24, 16), 128, np.uint8), format="yuvj420p")
    picture.pts = 0
    content = bytes(encoder.encode(picture)[0])
    with av.open(str(plain)) as source, av.open(str(path), "w") as target:
        copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        cover: Any = target.add_stream("mjpeg", rate=25)
        cover.width, cover.height, cover.pix_fmt, cover.disposition = 16, 16, "yuvj420p", 1 << 10
        packet: Any = av.Packet(content)
        packet.stream, packet.pts, packet.dts, packet.time_base = cover, 0, 0, Fraction(1, 25)
        packet.is_keyframe = True
        target.mux(packet)
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = copies[packet.stream.index]
                target.mux(packet)
    plain.unlink()


def _fragmented(path: Path, size: tuple[int, int]) -> None:
    """Boxes as cameras write them that must not lose a recording: an empty index, then fragments."""
    plain = make_video(path.with_stem("whole"), Recipe(texture_frames(FRAMES, *size), sound=1))
    options = {"movflags": "frag_keyframe+empty_moov"}
    with av.open(str(plain)) as source, av.open(str(path), "w", options=options) as target:
        copies = {stream.index: target.add_stream_from_template(stream) for stream in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = copies[packet.stream.index]
                target.mux(packet)
    plain.unlink()


def _at_constant_rate(codec: str) -> Callable[[Path, tuple[int, int]], None]:
    """Old codecs take no time unit but the frame interval; with B-frames, and with sound where the format has it."""

    def write(path: Path, size: tuple[int, int]) -> None:
        with av.open(str(path), "w") as target:
            video: Any = target.add_stream(codec, rate=25, options={"bf": "2"})
            video.height, video.width, video.pix_fmt = *size, "yuv420p"
            sound: Any = target.add_stream("mp2", rate=48000, layout="stereo")
            for number, frame in enumerate(texture_frames(FRAMES, *size)):
                pixels = np.ascontiguousarray((frame * 255).byte().permute(1, 2, 0).numpy())
                picture: Any = av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format="yuv420p")
                picture.pts, picture.time_base = number, Fraction(1, 25)
                target.mux(video.encode(picture))
                wave: Any = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 1152), np.int16), format="s16", layout="stereo")
                wave.sample_rate, wave.pts, wave.time_base = 48000, 1152 * number, Fraction(1, 48000)
                target.mux(sound.encode(wave))
            target.mux(video.encode(None))
            target.mux(sound.encode(None))

    return write


_LATE = [3000 * k + 7500 for k in range(FRAMES)]
_SPECIAL: dict[str, tuple[str, Callable[[Path, tuple[int, int]], None]]] = {
    "mp4-cover": (".mp4", _with_cover),
    "mp4-fragments": (".mp4", _fragmented),
    "avi": (".avi", _at_constant_rate("mpeg4")),
    "ts-mpeg2": (".ts", _at_constant_rate("mpeg2video")),
    "mpg": (".mpg", _at_constant_rate("mpeg2video")),
}

BASES = (*RECIPES, *_SPECIAL)
