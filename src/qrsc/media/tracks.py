"""Audio, subtitle and data tracks: which of them an output can hold. And a rotation tag for a finished file."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qrsc.media.boxes import walk_boxes
from qrsc.media.errors import MediaError
from qrsc.media.orientation import Matrix
from qrsc.media.probe import codec_name, is_cover, pyav, video_stream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

# What a transport stream names; anything else is in the file, and no reader knows what it is.
_IN_TRANSPORT_STREAMS = {
    "h264", "hevc", "mpeg1video", "mpeg2video", "mpeg4", "aac", "aac_latm", "ac3", "eac3", "mp1", "mp2", "mp3",
    "dts", "truehd", "opus", "s302m", "pcm_bluray", "dvb_subtitle", "dvb_teletext", "hdmv_pgs_subtitle", "klv",
    "scte_35", "timed_id3",
}  # fmt: skip
# QuickTime has numbers for languages. FFmpeg finds them by one of their codes in ISO 639, and leaves the language out
# if it is given the other.
_IN_QUICKTIME = {
    "deu": "ger", "fre": "fra", "nld": "dut", "ell": "gre", "isl": "ice", "zho": "chi", "cze": "ces", "slo": "slk",
    "rum": "ron", "fas": "per", "hye": "arm", "kat": "geo", "sqi": "alb", "mkd": "mac", "mya": "bur", "msa": "may",
    "bod": "tib", "cym": "wel", "eus": "baq", "swe": "sve",
}  # fmt: skip


def quicktime_language(code: str) -> str:
    """The code by which FFmpeg finds a language for a QuickTime file."""
    return _IN_QUICKTIME.get(code, code)


def tracks_to_copy(source: InputContainer, path: Path, container: str) -> tuple[list[Stream], list[str]]:
    """The tracks that a file format can hold unchanged, and a description of each that it cannot.

    Args:
        source: the open file.
        path: its name, for messages.
        container: FFmpeg's name of the file format to write.
    """
    own = video_stream(source, path)
    copied, left_out = [], []
    for stream in source.streams:
        if stream.index == own.index or _written_from_metadata(stream, bool(source.chapters())):
            continue
        if _holds(container, stream, source.format.name):
            copied.append(stream)
        else:
            name = getattr(stream.codec_context, "name", None) or stream.metadata.get("filename", "unknown format")
            kind = "cover picture in" if is_cover(stream) else stream.type
            left_out.append(f"{kind} track {stream.index} ({name})")
    return copied, left_out


def _holds(container: str, stream: Stream, source: str) -> bool:
    """Whether a file format can hold a track: as the format is known to, and as far as a header can be written."""
    if stream.type == "attachment":
        return container == "matroska"  # WebM leaves it out without a word
    if container == "mp4" and codec_name(stream).startswith("pcm_") and not known_layout(stream):
        return False
    if is_cover(stream) and container in ("mov", "avi", "mpegts"):
        return False  # FFmpeg drops it, or makes a video of it
    if container == "avi" and stream.type == "data":
        return False  # the bytes are written, and the track comes back without a kind or a name: nobody finds it
    if container == "avi" and stream.type == "video" and source != "avi":
        return False  # it has no timestamps for frames that are not in the order in which they are shown
    if container == "mpegts" and stream.type != "data" and codec_name(stream) not in _IN_TRANSPORT_STREAMS:
        return False
    av = pyav()
    try:
        with av.open(io.BytesIO(), "w", format=container) as trial:
            trial.add_stream_from_template(stream, opaque=True)
            trial.start_encoding()
    except (av.FFmpegError, ValueError):
        return False
    return True


def known_layout(stream: Stream) -> str:
    """What the channels of a sound are, in FFmpeg's words; empty where only their number is known, and it is over two.

    Matroska stores no more than the number.
    """
    context: Any = stream.codec_context
    layout = str(context.layout.name)
    return {"1 channels": "mono", "2 channels": "stereo"}.get(layout, "" if layout.endswith(" channels") else layout)


def _written_from_metadata(stream: Stream, chapters: bool) -> bool:
    """Whether FFmpeg writes a track itself: timecodes from the metadata, chapter titles from the chapters."""
    if stream.type != "data":
        return False
    titles = chapters and stream.metadata.get("handler_name", "") == "SubtitleHandler"
    return titles or "timecode" in stream.metadata


def set_rotation_in_file(path: Path, matrix: Matrix) -> None:
    """Write a display matrix into the header of a finished MP4 or QuickTime file.

    For versions of PyAV that cannot set it while the file is written.

    Raises:
        MediaError: the file has no such header.
    """
    with path.open("r+b") as file:
        for start, end in _boxes(file, 0, path.stat().st_size, b"moov"):
            for track, track_end in _boxes(file, start, end, b"trak"):
                if not _is_video(file, track, track_end):
                    continue
                for header, _ in _boxes(file, track, track_end, b"tkhd"):
                    file.seek(header)
                    version = file.read(1)[0]
                    file.seek(header + (52 if version else 40))
                    file.write(struct.pack(">9i", *matrix))
                    return
    raise MediaError(f"{path.suffix} cannot hold the rotation tag with this version of PyAV; write an .mp4 or a .mov.")


def _boxes(file: io.BufferedRandom, start: int, end: int, kind: bytes) -> list[tuple[int, int]]:
    """Start and end of the content of every box of a kind, among the boxes from start to end."""
    return [(box.start, box.end) for box in walk_boxes(file, start, end) if box.kind == kind]


def _is_video(file: io.BufferedRandom, start: int, end: int) -> bool:
    for media, media_end in _boxes(file, start, end, b"mdia"):
        for handler, _ in _boxes(file, media, media_end, b"hdlr"):
            file.seek(handler + 8)
            return file.read(4) == b"vide"
    return False
