"""Writing a video from its source: corrected frames, and everything else copied.

Convention
    Streams are in the order of the source. Timestamps of frames are those of the source; every packet of another track
    is copied byte for byte.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.nn.functional import pad

from qrsc.media.codecs import Encoding
from qrsc.media.errors import MediaError
from qrsc.media.orientation import IDENTITY
from qrsc.media.pixel_aspect import set_pixel_aspects
from qrsc.media.planes import FULL_RANGE, Colours, alpha_of, frame_of, layout_of, planar, reformatted, rgb_of
from qrsc.media.probe import ClipInfo, file_url, is_cover, pyav, video_stream
from qrsc.media.tracks import known_layout, quicktime_language, set_rotation_in_file
from qrsc.media.write_record import TrackRecord, WriteRecord

if TYPE_CHECKING:
    import av
    from av.container import InputContainer, OutputContainer
    from av.packet import Packet
    from av.stream import Stream

# Metadata of the old file as a file, not of its content: the new one gets its own.
_OF_THE_FILE = ("major_brand", "minor_version", "compatible_brands", "encoder", "duration", "vendor_id", "alpha_mode")
# Figures of the old video's packets, as mkvmerge writes them.
_OF_THE_PACKETS = ("bps", "number_of_bytes", "_statistics")
_NO_PICTURE_TYPE = 0
_GLOBAL_HEADER = 1 << 22  # FFmpeg's flag of encoders
_HEADERS_IN_PACKETS = ("mpegts",)
# Parts of a video are kept in NUT, which takes most codecs and every unit of time, and changes no packet.
_NOT_IN_NUT = ("prores", "prores_aw", "prores_ks", "dnxhd", "cfhd")
_LARGEST_UNIT = 2**31 - 1
_RGB, _BT709, _LIMITED_RANGE = 0, 1, 1


class VideoWriter:
    """A video being written; see `open_writer`.

    Attributes:
        record: what was handed to the file.
    """

    def __init__(self, container: OutputContainer, encoding: Encoding, info: ClipInfo | None, size: tuple[int, int]):
        self._container = container
        self._encoding = encoding
        self._info = info
        self._size = size
        self._stored = encoding.stored_size(size)
        self._stream: Any = None
        self._encodes = True
        self._time_base = Fraction(1)
        self._copies: dict[int, Stream] = {}
        self.record = WriteRecord()
        self._aspects: dict[int, Fraction] = {}  # by the place of the track among those that are no cover pictures
        self._tracks = 0
        self._counted = _FrameCount(info) if encoding.container == "avi" else None
        self.colours = info.colours if info is not None else Colours(1, 1, 1, 1)
        to_rgb, from_rgb = encoding.layout.kind == "rgb", info is not None and info.layout.kind == "rgb"
        if to_rgb and not from_rgb:
            self.colours = replace(self.colours, matrix=_RGB, range=FULL_RANGE)
        elif from_rgb and not to_rgb:
            self.colours = replace(self.colours, matrix=_BT709, range=_LIMITED_RANGE)

    def write(self, rgb: Tensor | None, decoded: av.VideoFrame, alpha: npt.NDArray[Any] | None = None) -> None:
        """Encode one frame.

        Args:
            rgb: `[3, H, W]`; None writes the decoded frame as it is.
            decoded: the frame that it replaces: it takes over timestamp, side data and, where there is one, alpha.
            alpha: `[H, W]`, samples of a new alpha plane, at the bit depth of the output.
        """
        frame = self._unchanged(decoded) if rgb is None else self._replaced(rgb, decoded, alpha)
        self._encode(frame)

    def write_at(self, rgb: Tensor, stamp: int, duration: int) -> None:
        """Encode a frame `[3, H, W]` that replaces none, at a timestamp in units of the stream's time base."""
        frame = frame_of(self._padded(rgb), self._encoding.layout, self.colours)
        frame.pts = stamp
        frame.time_base = self._time_base
        frame.duration = duration
        self._encode(frame)

    def copy(self, packet: Packet[Stream]) -> None:
        """Write a packet of another track."""
        self.record.tracks[packet.stream_index].add(packet)
        if self._counted is not None:
            self._counted.move(packet)
        packet.stream = self._copies[packet.stream_index]
        self._mux(packet)

    def write_encoded(self, packet: Packet[Any]) -> None:
        """Write a packet that another encoder with the same settings has made; instead of frames, never beside them."""
        assert packet.pts is not None
        self._encodes = False
        self.record.stamps.append(packet.pts)
        packet.stream = self._stream
        self._mux(packet)

    def finish(self) -> None:
        """Flush the encoder."""
        if self._encodes:
            self._mux(self._stream.encode(None))

    def add_video(self, rate: Fraction, time_base: Fraction, source: Stream | None) -> None:
        encoding, info = self._encoding, self._info
        stream: Any = self._container.add_stream(encoding.encoder, rate=rate, options=dict(encoding.options))
        self._time_base = time_base
        if self._counted is not None:
            self._counted.rate, time_base = rate, 1 / rate
        stream.time_base = time_base
        context = stream.codec_context
        context.time_base = time_base
        context.height, context.width = self._stored
        context.pix_fmt = encoding.pixel_format
        context.colorspace, context.color_range = self.colours.matrix, self.colours.range
        context.color_primaries, context.color_trc = self.colours.primaries, self.colours.transfer
        if encoding.tag:
            context.codec_tag = encoding.tag
        if info is not None and info.pixel_aspect is not None:
            context.sample_aspect_ratio = info.pixel_aspect
            self._aspects[self._tracks] = info.pixel_aspect
        if info is not None and info.matrix != IDENTITY and _writes_rotation(stream):
            stream.set_display_matrix(info.matrix)
        if source is not None:
            stream.metadata.update(
                {
                    key: value
                    for key, value in kept_metadata(source.metadata).items()
                    if not key.lower().startswith(_OF_THE_PACKETS)
                }
            )
            stream.disposition = int(source.disposition)
        self._stream = stream
        self.record.time_base = self._time_base
        self._tracks += 1

    def repeat_headers(self) -> None:
        """Have the encoder put its headers into packets, for file formats that have no other place for them."""
        self._stream.codec_context.flags &= ~_GLOBAL_HEADER

    def add_copy(self, source: Stream) -> None:
        stream: Any = self._container.add_stream_from_template(source, opaque=True)
        stream.metadata.update(kept_metadata(source.metadata))
        stream.disposition = int(source.disposition)
        if self._encoding.container == "mov" and "language" in stream.metadata:
            stream.metadata["language"] = quicktime_language(stream.metadata["language"])
        if source.type == "audio" and (layout := known_layout(source)):
            stream.codec_context.layout = layout
        self._copies[source.index] = stream
        self.record.tracks[source.index] = TrackRecord.of(source)
        if is_cover(source):
            return
        aspect = getattr(source, "sample_aspect_ratio", None)
        if aspect:
            self._aspects[self._tracks] = Fraction(aspect)
        self._tracks += 1

    def complete(self, path: Path) -> None:
        """Write what FFmpeg does not into the header of the finished file."""
        if not set_pixel_aspects(path, self._encoding.container, self._aspects):
            warnings.warn(f"the pixel aspect ratio could not be written into a {path.suffix} file.", stacklevel=2)
        info = self._info
        if info is not None and info.matrix != IDENTITY and not _writes_rotation(self._stream):
            set_rotation_in_file(path, info.matrix)

    def _unchanged(self, decoded: av.VideoFrame) -> av.VideoFrame:
        frame = planar(decoded)
        if frame.format.name != self._encoding.layout.name or self._stored != (frame.height, frame.width):
            return self._replaced(rgb_of(decoded, self._source_colours), decoded, None)
        return _timed(frame, decoded)

    def _replaced(self, rgb: Tensor, decoded: av.VideoFrame, alpha: npt.NDArray[Any] | None) -> av.VideoFrame:
        layout = self._encoding.layout
        if layout.alpha and alpha is None:
            alpha = alpha_of(decoded)
            if alpha is not None and layout_of(decoded.format.name).bits != layout.bits:
                alpha = _rescaled(alpha, layout_of(decoded.format.name).bits, layout.bits)
        if alpha is not None and alpha.shape != self._stored:
            below, right = self._stored[0] - alpha.shape[0], self._stored[1] - alpha.shape[1]
            alpha = np.pad(alpha, ((0, below), (0, right)), mode="edge")
        return _timed(frame_of(self._padded(rgb), layout, self.colours, alpha, like=decoded), decoded)

    @property
    def _source_colours(self) -> Colours:
        return self._info.colours if self._info is not None else Colours()

    def _padded(self, rgb: Tensor) -> Tensor:
        height, width = rgb.shape[-2:]
        if (height, width) != self._size:
            raise MediaError(f"frames of {self._size[1]}x{self._size[0]} were expected, this one is {width}x{height}.")
        if self._stored == self._size:
            return rgb
        edges = (0, self._stored[1] - width, 0, self._stored[0] - height)
        return pad(rgb.detach().float().cpu()[None], edges, mode="replicate")[0]

    def _encode(self, frame: av.VideoFrame) -> None:
        if frame.format.name != self._encoding.pixel_format:
            frame = _timed(reformatted(frame, format=self._encoding.pixel_format), frame)
        if frame.pts is None:
            raise ValueError("a frame to write has no timestamp.")
        self.record.stamps.append(frame.pts)
        if self._counted is not None:
            self._counted.place(frame)
        self._mux(self._stream.encode(frame))

    def _mux(self, packets: Any) -> None:
        self._container.mux(packets)


class _FrameCount:
    """Times in AVI, which counts frames: the first one is at 0, and the others are rounded to whole intervals."""

    def __init__(self, info: ClipInfo | None) -> None:
        self._start = Fraction(0) if info is None else info.start * info.time_base  # of the clip
        self._first: Fraction | None = None  # frame, which is later in slow motion
        self._last = -1
        self.rate = Fraction(1)

    def place(self, frame: av.VideoFrame) -> None:
        assert frame.pts is not None
        assert frame.time_base is not None
        seconds = frame.pts * frame.time_base
        self._first = seconds if self._first is None else self._first
        count = round((seconds - self._first) * self.rate)
        self._last = max(count, self._last + 1)
        frame.pts, frame.time_base, frame.duration = self._last, 1 / self.rate, 1

    def move(self, packet: Packet[Stream]) -> None:
        """Move a packet of another track as far as the frames."""
        ticks = round(self._start / packet.time_base)
        packet.pts, packet.dts = (None if time is None else time - ticks for time in (packet.pts, packet.dts))


@contextmanager
def open_writer(
    path: Path,
    encoding: Encoding,
    size: tuple[int, int],
    *,
    info: ClipInfo | None = None,
    source: InputContainer | None = None,
    copied: list[Stream] | None = None,
    rate: Fraction | None = None,
    time_base: Fraction | None = None,
    chapters: bool = True,
) -> Iterator[VideoWriter]:
    """Open a video for writing; it is complete when the block ends without an exception.

    Args:
        path: the file itself: the caller moves it into place.
        encoding: from `choose_encoding`.
        size: `(H, W)` of the frames.
        info, source: the clip whose timestamps, tags, metadata and chapters are taken over.
        copied: tracks of the source to copy; see `qrsc.media.tracks.tracks_to_copy`.
        rate: frames per second; that of the source if None.
        time_base: unit of timestamps in seconds; that of the source, or one frame, if None.
        chapters: copy the chapters.

    Raises:
        MediaError: the encoder or the file format does not support the settings.
        OSError: the file cannot be written, for example because the disk is full.
    """
    metadata = {} if source is None else kept_metadata(source.metadata)
    rate, time_base = _times(rate, time_base, info)
    options = _container_options(encoding.container, metadata, [time_base, *(each.time_base for each in copied or ())])
    with (
        _readable_errors(path, encoding, size),
        pyav().open(file_url(path), "w", format=encoding.container, options=options) as container,
    ):
        writer = VideoWriter(container, encoding, info, size)
        own = None if source is None or info is None else _own_stream(source, info)
        for stream in source.streams if source is not None else ():
            if own is not None and stream.index == own.index:
                writer.add_video(rate, time_base, own)
            elif copied is not None and stream in copied:
                writer.add_copy(stream)
        if own is None:
            writer.add_video(rate, time_base, None)
        container.metadata.update(metadata)
        if source is not None and chapters and source.chapters():
            container.set_chapters(source.chapters())
        yield writer
        writer.finish()
    writer.complete(path)


@contextmanager
def open_segment(path: Path, encoding: Encoding, size: tuple[int, int], info: ClipInfo) -> Iterator[VideoWriter]:
    """Open a file for a part of a video: its frames alone, encoded as in the whole; see `qrsc.media.segments`."""
    rate, time_base = _times(None, None, info)
    with (
        _readable_errors(path, encoding, size),
        pyav().open(file_url(path), "w", format=segment_format(encoding)) as container,
    ):
        writer = VideoWriter(container, replace(encoding, tag=""), info, size)
        writer.add_video(rate, time_base, None)
        if encoding.container in _HEADERS_IN_PACKETS:
            writer.repeat_headers()
        yield writer
        writer.finish()


def segment_format(encoding: Encoding) -> str:
    """FFmpeg's name of the format that a part of a video is kept in."""
    return "mov" if encoding.encoder in _NOT_IN_NUT else "nut"


@contextmanager
def _readable_errors(path: Path, encoding: Encoding, size: tuple[int, int]) -> Iterator[None]:
    """Errors of FFmpeg inside become ones that say what cannot be written."""
    av = pyav()
    try:
        yield
    except av.FFmpegError as error:
        if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
            raise OSError(error.errno, f"{error.strerror} while writing the video") from error
        raise MediaError(
            f"{path.suffix} with {encoding.encoder} ({encoding.layout.name}, {size[1]}x{size[0]}) cannot be written: "
            f"{error.strerror}. Try another --codec, or a folder of PNG files."
        ) from error


def _container_options(
    container: str, metadata: dict[str, str], time_bases: Sequence[Fraction | None]
) -> dict[str, str]:
    if container == "avi":
        return {"avoid_negative_ts": "disabled"}  # it would move the frames by parts of their interval
    if container not in ("mp4", "mov"):
        return {}
    # The index goes to the front, so that a player can start before it has the whole file.
    options = {"movflags": "+faststart"}
    if any("." in key for key in metadata):
        # Keys of manufacturers (com.apple.quicktime.make) are written only on request.
        options["movflags"] += "+use_metadata_tags"
    # The start of a track is stored in the time unit of the file, by default a millisecond: too coarse for timestamps
    # to be kept exactly. A track that lasts less than a millisecond, as a damaged file may claim, would last 0 and show
    # nothing.
    units = [time_base.denominator for time_base in time_bases if time_base]
    common = math.lcm(*units)
    fitting = [unit for unit in (common, *sorted(units, reverse=True)) if unit <= _LARGEST_UNIT]
    if fitting:
        options["movie_timescale"] = str(fitting[0])
    return options


def _writes_rotation(stream: Any) -> bool:
    """Whether PyAV can write a display matrix: from 17.1 on."""
    return hasattr(stream, "set_display_matrix")


def _own_stream(source: InputContainer, info: ClipInfo) -> Stream:
    return video_stream(source, info.path)


def _times(rate: Fraction | None, time_base: Fraction | None, info: ClipInfo | None) -> tuple[Fraction, Fraction]:
    if info is None:
        if rate is None:
            raise ValueError("a video without a source needs a frame rate.")
        return rate, time_base or 1 / rate
    return rate or Fraction(info.fps).limit_denominator(1001), time_base or info.time_base


def kept_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Texts that are about the content; those about the old file as a file are left to the new one."""
    return {key: value for key, value in metadata.items() if key.lower() not in _OF_THE_FILE}


def _timed(frame: av.VideoFrame, decoded: av.VideoFrame) -> av.VideoFrame:
    """A frame with the timestamp of another, and no picture type: the encoder chooses its own."""
    frame.pts = decoded.pts
    frame.time_base = decoded.time_base
    frame.duration = decoded.duration
    frame.pict_type = _NO_PICTURE_TYPE
    return frame


def _rescaled(alpha: npt.NDArray[Any], bits: int, wanted: int) -> npt.NDArray[Any]:
    top, wanted_top = 2**bits - 1, 2**wanted - 1
    scaled: npt.NDArray[Any] = np.round(alpha.astype(np.float64) * wanted_top / top)
    return scaled.astype(np.uint8 if wanted == 8 else np.uint16)
