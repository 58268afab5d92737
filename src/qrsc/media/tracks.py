"""Audio, subtitle and data tracks: which of them an output can hold. And a rotation tag for a finished file."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from qrsc.media.boxes import walk_boxes
from qrsc.media.errors import MediaError
from qrsc.media.orientation import Matrix
from qrsc.media.probe import is_cover, pyav, video_stream

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

# Decoders of the subtitles that a transport stream has names for; FFmpeg writes others as data of an unknown kind.
_BROADCAST_SUBTITLES = ("dvbsub", "dvb_subtitle", "dvb_teletext", "libzvbi_teletextdec", "pgssub", "hdmv_pgs_subtitle")


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
        if _holds(container, stream):
            copied.append(stream)
        else:
            kind = "cover picture in" if is_cover(stream) else stream.type
            left_out.append(f"{kind} track {stream.index} ({_codec(stream)})")
    return copied, left_out


def _holds(container: str, stream: Stream) -> bool:
    """Whether a header with that one track can be written: the only reliable test, but for data in AVI and for
    transport streams.

    There the bytes are written, and the track comes back without a kind or a name, so that nobody finds it.
    """
    if container == "avi" and stream.type == "data":
        return False
    if container == "mpegts" and stream.type == "subtitle" and _codec(stream) not in _BROADCAST_SUBTITLES:
        return False
    av = pyav()
    try:
        with av.open(io.BytesIO(), "w", format=container) as trial:
            trial.add_stream_from_template(stream, opaque=True)
            trial.start_encoding()
    except (av.FFmpegError, ValueError):
        return False
    return True


def _codec(stream: Stream) -> str:
    return getattr(stream.codec_context, "name", None) or "unknown format"


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
