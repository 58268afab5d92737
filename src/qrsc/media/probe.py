"""What a video file is, before anything is done with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from qrsc.media.clock import LONGEST_STEP
from qrsc.media.errors import MediaError
from qrsc.media.orientation import IDENTITY, Matrix, matrix_from_bytes
from qrsc.media.planes import FULL_RANGE, Colours, Layout, layout_of

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.stream import Stream
    from av.video.stream import VideoStream

# So many packets are looked at for the frame interval; a file that ends before is counted exactly.
_LOOKED_AT = 2000
# Formats that FFmpeg reads without a video in the file itself.
_NO_VIDEO = frozenset({"hls", "applehttp", "concat", "concatf", "dash", "imf", "sdp", "rtsp", "tty", "lavfi", "image2"})
# So many frames are decoded for what only frames tell: whether they are interlaced, and the first timestamp if the very
# first frames have none.
_FRAMES_LOOKED_AT = 8
_PACKETS_LOOKED_AT = 64  # of all tracks, for the first timestamp of each
_FIELD_ORDERS = range(2, 6)  # FFmpeg's codes for interlaced video: which field comes first, stored and shown
_WITH_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}  # FFmpeg's own decoders leave the alpha of these out
_DYNAMIC_HDR = ("DYNAMIC_HDR_PLUS", "DYNAMIC_HDR_VIVID", "DOVI_RPU_BUFFER", "DOVI_METADATA")
_COVER = 1 << 10  # FFmpeg's mark of a picture that is no video: the cover of a recording


@dataclass(frozen=True)
class ClipInfo:
    """A video file's first video stream.

    Attributes:
        path: the file.
        size: `(height, width)` as stored.
        codec: FFmpeg's name of the codec that it is compressed with.
        layout: how its pictures are stored, as a planar format.
        colours: its colour tags.
        time_base: the unit of its timestamps, in seconds.
        start: the first timestamp.
        interval: seconds from one frame to the next where none is missing.
        even: whether all frames are that far apart (to the precision of timestamps).
        frames: how many there are, or an estimate; None where even that is not known.
        counted: whether `frames` is exact.
        matrix: how the pictures are turned for display.
        pixel_aspect: width over height of a pixel; None where it is not said.
        mastering, light: side data of HDR video, as FFmpeg's structures, or None.
        dynamic: FFmpeg's names of light levels that change from frame to frame (Dolby Vision, HDR10+).
        interlaced: its frames hold two fields, as far as the header and the first frames tell.
        progressive: the fields belong to one exposure; set by the caller, who knows.
        unread_alpha: it has transparency that no decoder here reads.
        earliest: when the first of its tracks starts, in seconds; 0 if none starts before.
    """

    path: Path
    size: tuple[int, int]
    codec: str
    layout: Layout
    colours: Colours
    time_base: Fraction
    start: int
    interval: float
    even: bool
    frames: int | None
    counted: bool
    matrix: Matrix
    pixel_aspect: Fraction | None
    mastering: bytes | None
    light: bytes | None
    dynamic: tuple[str, ...] = ()
    interlaced: bool = False
    progressive: bool = False
    unread_alpha: bool = False
    earliest: float = 0.0

    @property
    def fps(self) -> float:
        """Frames per second where none is missing."""
        return 1.0 / self.interval


def probe(path: Path) -> ClipInfo:
    """Looks at a video file: its header, its first frame and its timestamps.

    Raises:
        FileNotFoundError: there is no such file.
        MediaError: it cannot be read as a video, or has no frames.
    """
    with opened(path) as container:
        stream = video_stream(container, path)
        beginning = _beginning(container, stream, stream.codec_context, path)
        first = beginning.first
        parts: Any = first.side_data  # PyAV's stubs take it for a dictionary
        side_data = {part.type.name: bytes(part) for part in parts}
        matrix = side_data.get("DISPLAYMATRIX")
        aspect = stream.sample_aspect_ratio
        codec, time_base = codec_name(stream), Fraction(stream.time_base or Fraction(1, 1000))
        rate = stream.average_rate or stream.guessed_rate
        field_order = getattr(stream.codec_context, "field_order", 0)
        layout, has_alpha = layout_of(first.format.name), _has_alpha(stream)
    if has_alpha:
        layout = _layout_with_alpha(path)
    with opened(path) as container:
        stamps, packets, counted = _timestamps(container, video_stream(container, path))
        duration = None if container.duration is None else container.duration / 1e6
    with opened(path) as container:
        earliest = _earliest(container)
    timed = 2 * len(stamps) > packets
    interval, even = _interval(stamps if timed else [], time_base, rate)
    start = beginning.start(stamps[0] if stamps else 0, interval / float(time_base))
    return ClipInfo(
        path=path,
        size=(first.height, first.width),
        codec=codec,
        layout=layout,
        colours=colours_of(first),
        time_base=time_base,
        start=start,
        interval=interval,
        even=even,
        frames=packets if counted else None if duration is None else max(1, round(duration / interval)),
        counted=counted,
        matrix=IDENTITY if matrix is None else matrix_from_bytes(matrix),
        pixel_aspect=Fraction(aspect) if aspect else None,
        mastering=side_data.get("MASTERING_DISPLAY_METADATA"),
        light=side_data.get("CONTENT_LIGHT_LEVEL"),
        dynamic=tuple(name for name in _DYNAMIC_HDR if name in side_data),
        interlaced=field_order in _FIELD_ORDERS or beginning.interlaced,
        unread_alpha=has_alpha and not layout.alpha,
        earliest=min(earliest, start * float(time_base)),
    )


def count_frames(path: Path) -> int:
    """How many frames a video has: its packets are counted, not decoded."""
    with opened(path) as container:
        return sum(1 for packet in container.demux(video_stream(container, path)) if packet.size)


def colours_of(frame: av.VideoFrame) -> Colours:
    """The colour tags of a decoded frame."""
    full = frame.format.name.startswith("yuvj")
    return Colours(
        matrix=int(frame.colorspace),
        primaries=int(frame.color_primaries),
        transfer=int(frame.color_trc),
        range=FULL_RANGE if full else int(frame.color_range),
    )


@contextmanager
def opened(path: Path) -> Iterator[InputContainer]:
    """A video file open for reading; FFmpeg's errors inside become a `MediaError` that names the file."""
    av = pyav()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if path.is_dir():
        raise MediaError(f"{path} is a folder; a video file was expected.")
    if not path.is_file():
        raise MediaError(f"{path} is a pipe or a device; videos are read more than once, so save it to a file first.")
    try:
        # Bytes of text that are not UTF-8 are no reason to refuse a video. No protocol but files is ever opened.
        with av.open(file_url(path), metadata_errors="replace", options={"protocol_whitelist": "file"}) as container:
            refused = _NO_VIDEO.intersection(container.format.name.split(","))
            if refused:
                raise MediaError(f"{path} is a list of other files or plain text ({min(refused)}), and no video.")
            yield container
    except av.FFmpegError as error:
        raise MediaError(
            f"{path} cannot be read as a video: {error.strerror}. Is it whole, and a video at all?"
        ) from error


def file_url(path: Path) -> str:
    """A name that FFmpeg takes for a file whatever is in it: `12:30.mp4` is no protocol."""
    return f"file:{path}"


def video_stream(container: InputContainer, path: Path) -> VideoStream:
    """The first stream that is a video and no cover picture."""
    for stream in container.streams.video:
        if not is_cover(stream) and stream.codec_context is not None:
            return stream
    kinds = sorted({stream.type for stream in container.streams})
    raise MediaError(f"{path} has no video to correct; it holds {' and '.join(kinds) or 'nothing'}.")


def is_cover(stream: Stream) -> bool:
    """Whether a stream is a cover picture, which players show for a recording, and no video."""
    return bool(int(stream.disposition) & _COVER)


def pyav() -> ModuleType:
    """PyAV, with its absence explained."""
    try:
        import av
    except ImportError as error:
        raise ModuleNotFoundError(
            f"videos are read and written with PyAV, which cannot be imported ({error}). Install it: pip install av."
        ) from error
    # FFmpeg's own lines would stand between ours; what matters of them comes as an exception.
    av.logging.set_level(None)
    os.environ.setdefault("SVT_LOG", "0")  # the AV1 encoder prints lines of its own otherwise
    return av


def codec_name(stream: Stream) -> str:
    """FFmpeg's name of the codec, whichever decoder reads it: `av1`, not `libdav1d`. Empty if there is none."""
    codec = getattr(stream.codec_context, "codec", None)
    return "" if codec is None else str(getattr(codec, "canonical_name", codec.name))


def decoder_of(stream: VideoStream) -> Any:
    """The decoder of a stream: its own, or for VP8 and VP9 with alpha the one that reads it."""
    if not _has_alpha(stream):
        return stream.codec_context
    av = pyav()
    try:
        return av.CodecContext.create(_WITH_ALPHA[codec_name(stream)], "r")
    except Exception:  # this FFmpeg was built without libvpx; PyAV's exception classes have changed between versions
        return stream.codec_context


def clip_info(source: Path, *, progressive: bool = False) -> ClipInfo | None:
    """What a video is, or None for a folder of images.

    Args:
        source: a video or a folder.
        progressive: take a video that is marked as interlaced for progressive.

    Raises:
        FileNotFoundError: there is neither.
        MediaError: the video cannot be read, or is interlaced.
    """
    if not source.exists():
        raise FileNotFoundError(f"there is no file or folder {source}.")
    if source.is_dir():
        return None
    info = replace(probe(source), progressive=progressive)
    require_progressive(info)
    return info


def require_progressive(info: ClipInfo, *, frame: int | None = None) -> None:
    """Refuse an interlaced clip, unless its fields are known to belong together.

    Raises:
        MediaError: it is interlaced, as a whole or from a frame on.
    """
    if info.progressive or (frame is None and not info.interlaced):
        return
    raise MediaError(
        f"{info.path} is interlaced{'' if frame is None else f' from frame {frame} on'}: a frame holds rows of two "
        f"instants. Deinterlace it first (ffmpeg -i {info.path.name} -vf bwdif=mode=send_field -c:v libx264 -crf 12 "
        "-c:a copy fields.mkv), or give --progressive if both fields are of one exposure (25p or 30p)."
    )


def _has_alpha(stream: VideoStream) -> bool:
    """Whether frames of VP8 or VP9 come with a second picture for their alpha."""
    return stream.metadata.get("alpha_mode") == "1" and codec_name(stream) in _WITH_ALPHA


@dataclass(frozen=True)
class _Beginning:
    """What the first frames of a clip tell."""

    first: av.VideoFrame
    stamps: list[int | None]
    interlaced: bool

    def start(self, otherwise: int, ticks: float) -> int:
        """The timestamp of the first frame, counted back from the first that has one; `ticks` is a frame interval."""
        for index, stamp in enumerate(self.stamps):
            if stamp is not None:
                return stamp - round(index * ticks)
        return otherwise


def _beginning(container: InputContainer, stream: VideoStream, decoder: Any, path: Path) -> _Beginning:
    """Decode the first frames; only the very first is kept, since frames may be large."""
    av = pyav()
    first: Any = None
    stamps: list[int | None] = []
    interlaced = False
    for packet in container.demux(stream):
        try:
            decoded: list[Any] = decoder.decode(packet)
        except av.error.InvalidDataError:
            continue
        for frame in decoded:
            first = frame if first is None else first
            stamps.append(frame.pts)
            interlaced = interlaced or frame.interlaced_frame
        if len(stamps) >= _FRAMES_LOOKED_AT:
            break
    if first is None:
        raise MediaError(f"{path} has no frame that can be decoded: it is empty or damaged.")
    return _Beginning(first, stamps, interlaced)


def _layout_with_alpha(path: Path) -> Layout:
    """How VP8 or VP9 is decoded by libvpx, which reads alpha, and leaves out tags and side data."""
    with opened(path) as container:
        stream = video_stream(container, path)
        return layout_of(_beginning(container, stream, decoder_of(stream), path).first.format.name)


def _earliest(container: InputContainer) -> float:
    """When the first packet of any track starts, in seconds, if that is before 0.

    Opus is left out: what its decoder throws away at the start has a place of its own in every format.
    """
    starts = [0.0]
    for packet in islice(container.demux(), _PACKETS_LOOKED_AT):
        if packet.pts is not None and packet.time_base is not None and codec_name(packet.stream) != "opus":
            starts.append(float(packet.pts * packet.time_base))
    return min(starts)


def _timestamps(container: InputContainer, stream: VideoStream) -> tuple[list[int], int, bool]:
    """Timestamps in order, of how many packets, and whether these are all there are; packets may lack timestamps."""
    stamps: list[int] = []
    packets = 0
    for packet in container.demux(stream):
        if packet.size == 0:
            continue
        packets += 1
        stamp = packet.pts if packet.pts is not None else packet.dts
        if stamp is not None:
            stamps.append(stamp)
        if packets >= _LOOKED_AT:
            return sorted(stamps), packets, (stream.frames or None) == packets
    return sorted(stamps), packets, True


def _interval(stamps: list[int], time_base: Fraction, rate: Fraction | None) -> tuple[float, bool]:
    """Seconds between neighbours, those beside a gap left out, and whether there are none of these."""
    tick = float(time_base)
    steps = sorted(after - before for before, after in pairwise(stamps) if 0 < (after - before) * tick <= LONGEST_STEP)
    if not steps:
        return (float(1 / rate) if rate else 1.0 / 30.0), True
    median = steps[len(steps) // 2]
    usual = [step for step in steps if abs(step - median) <= max(0.25 * median, 1.0)]
    interval = tick * sum(usual) / len(usual)
    slack = timestamp_slack(time_base)
    return interval, all(abs(step * tick - interval) <= slack for step in steps)


def timestamp_slack(time_base: Fraction) -> float:
    """Seconds by which a timestamp may be off because it was rounded: to its unit, or to a millisecond on the way."""
    return 1.01 * max(float(time_base), 0.001)
