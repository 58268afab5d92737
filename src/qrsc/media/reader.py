"""The one reader of videos: frames decoded one by one, and packets of other tracks as they are.

A packet that cannot be decoded is skipped and counted, cover pictures are not taken for the video, and text that is not
UTF-8 is no reason to refuse a file.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.media.clock import Clock, ClockReport, Placed
from qrsc.media.errors import MediaError
from qrsc.media.planes import Colours, reformatted
from qrsc.media.probe import (
    ClipInfo,
    decoder_of,
    is_cover,
    opened,
    probe,
    pyav,
    require_progressive,
    timestamp_slack,
    video_stream,
)
from qrsc.media.track_clock import DecodingOrder, TrackClock
from qrsc.media.truncation import missing_bytes

if TYPE_CHECKING:
    import av
    from av.container import InputContainer
    from av.packet import Packet
    from av.stream import Stream

# Packets of other tracks can lie this much later in the file than the frames they belong to, in seconds; sound even
# later.
_INTERLEAVING = 1.0
_LEAST_MISSING = 0.3  # seconds before the stated end of a file that are no sign of damage
_WORTH_A_SEEK = 10.0  # seconds; less is decoded and passed over


@dataclass
class ReadReport:
    """What was met while a clip was read.

    Attributes:
        damaged: packets of the video that could not be decoded and were skipped.
        missing_bytes: at the end of the file, which is truncated if there are any; known when it has been read.
        missing_seconds: before the end that a Matroska file states for itself: a hole in it has swallowed the rest.
        untimed: packets of other tracks without any timestamp; they were given those that follow the packets before.
        clock: what was wrong with its timestamps.
    """

    damaged: int = 0
    missing_bytes: int = 0
    missing_seconds: float = 0.0
    untimed: int = 0
    clock: ClockReport = field(default_factory=ClockReport)

    @property
    def truncated(self) -> bool:
        """Whether the end of the clip is missing."""
        return self.missing_bytes > 0 or self.missing_seconds > 0.0

    def messages(self, path: Path, frames: int) -> list[str]:
        """A sentence for everything that was lost or mended, after so many frames of a file."""
        found = []
        if self.damaged:
            found.append(f"{self.damaged} packets of {path.name} are damaged and were left out.")
        if self.missing_bytes:
            found.append(
                f"{path.name} is truncated: at least {self.missing_bytes} bytes are missing at its end. The {frames} "
                "frames that are there were used."
            )
        elif self.missing_seconds:
            found.append(
                f"{path.name} is damaged: it ends {self.missing_seconds:.1f} s before the end that it states. The "
                f"{frames} frames that are there were used."
            )
        if self.untimed:
            found.append(
                f"{self.untimed} packets of the other tracks of {path.name} have no timestamps; they were placed "
                "behind those before them."
            )
        return [*found, *([told] if (told := self.clock.message(path.name)) else [])]


@dataclass(frozen=True)
class DecodedFrame:
    """A frame as it was decoded.

    Attributes:
        frame: PyAV's frame; its `pts` is the timestamp that the output gets.
        time: when it started, in frame intervals from the first one.
        restarts: the time since the previous frame is unknown.
        colours: the tags of its clip.
        bits: per sample.
    """

    frame: av.VideoFrame
    time: float
    colours: Colours
    bits: int
    restarts: bool = False


def read_clip(
    container: InputContainer,
    info: ClipInfo,
    copied: list[Stream],
    *,
    start: float | None = None,
    end: float | None = None,
    report: ReadReport | None = None,
) -> Iterator[DecodedFrame | Packet[Stream]]:
    """The frames of a clip in order, with the packets of other tracks between them as they lie in the file.

    Packets that cannot be decoded are skipped, as players do: they are counted in the report, or there is a warning at
    the end.

    Args:
        container: open, and at its beginning.
        info: of the same file.
        copied: the tracks whose packets are wanted.
        start, end: seconds from the clip's first frame; what lies outside is left out, and times count from `start`.
            A packet of another track that lies partly inside is kept.
        report: counts what was skipped; without one there is a warning.

    Raises:
        MediaError: frames change their size, or there are none.
    """
    tick = float(info.time_base)
    first = info.start * tick
    earliest = None if start is None else first + start
    latest = None if end is None else first + end
    cut = Fraction(start or 0.0).limit_denominator(1_000_000)
    if start is not None and start > _WORTH_A_SEEK:
        # Some formats have no index and land a little late, so the aim is early; what comes before is passed over.
        container.seek(int((first + start - _WORTH_A_SEEK / 2) * 1_000_000), backward=True)
    met = report or ReadReport()
    frames = 0
    ends = 0.0  # seconds at which the last packet does
    zero: float | None = None  # time of the first frame that is wanted
    for item in _items(container, info, copied, met, latest):
        if item is None:
            met.damaged += 1
        elif isinstance(item, _Decoded):
            seconds = item.placed.stamp * tick
            ends = max(ends, seconds + info.interval)
            if not _selected(seconds, seconds + tick / 2, earliest, latest):
                continue
            item.frame.pts = item.placed.stamp - round(cut / info.time_base)
            frames += 1
            zero = item.placed.time if zero is None else zero
            time = item.placed.time - zero
            yield DecodedFrame(item.frame, time, info.colours, info.layout.bits, item.placed.restarts)
        elif _selected(_start_of(item), over := _end_of(item), earliest, latest):
            ends = max(ends, over or 0.0)
            _shift(item, cut)
            yield item
    if frames == 0:
        raise MediaError(
            f"{info.path} has no frame from {start or 0:g} s to {'the end' if end is None else f'{end:g} s'}."
        )
    if end is None:
        _note_missing(container, info, ends, met)
    for message in met.messages(info.path, frames) if report is None else ():
        warnings.warn(message, stacklevel=2)


def _missing_seconds(container: InputContainer, ends: float, interval: float) -> float:
    """By how much a Matroska file ends before it says; other formats have an index, or do not say."""
    if not _is_matroska(container) or container.duration is None:
        return 0.0
    short = container.duration / 1e6 - ends
    return short if short > max(_LEAST_MISSING, 4.0 * interval) else 0.0


def _is_matroska(container: InputContainer) -> bool:
    return container.format.name.startswith("matroska")


def read_video(path: Path, *, info: ClipInfo | None = None) -> Iterator[Tensor]:
    """The frames of a video, each `[3, H, W]` in [0, 1]; otherwise as `read_pixels`."""
    return (torch.from_numpy(pixels).permute(2, 0, 1).float() / 255 for pixels in read_pixels(path, info=info))


def read_pixels(
    path: Path, report: ReadReport | None = None, *, info: ClipInfo | None = None
) -> Iterator[npt.NDArray[np.uint8]]:
    """The frames of a video, each `[H, W, 3]` in 8 bits, decoded as they are asked for.

    The pixels come as stored: a rotation tag is not applied.

    Args:
        path: the video.
        report: counts damaged packets; without one there is a warning when the clip has been read to its end.
        info: of the video, if it has been probed before.

    Raises:
        FileNotFoundError: there is no such file.
        MediaError: it cannot be decoded as a video.
    """
    info = probe(path) if info is None else info
    with opened(path) as container:
        for item in read_clip(container, info, [], report=report):
            if isinstance(item, DecodedFrame):
                yield pixels_of(item)


def pixels_of(item: DecodedFrame) -> npt.NDArray[np.uint8]:
    """A decoded frame as pixels `[H, W, 3]` in 8 bits."""
    # The target's colour space means nothing for RGB, but without one PyAV before 17 takes the source for BT.601
    # whatever its tag says (red off by 0.09).
    rgb = reformatted(item.frame, format="rgb24", src_colorspace=item.frame.colorspace, dst_colorspace="ITU601")
    pixels: npt.NDArray[np.uint8] = rgb.to_ndarray()  # type: ignore[assignment]  # PyAV names all that it may be
    return pixels


@dataclass(frozen=True)
class _Decoded:
    frame: av.VideoFrame
    placed: Placed


def _items(
    container: InputContainer, info: ClipInfo, copied: list[Stream], report: ReadReport, latest: float | None
) -> Iterator[_Decoded | Packet[Stream] | None]:
    """Frames with timestamps that grow, packets of other tracks, and None for each packet that is damaged.

    Frames are read to some time after the latest one that is wanted, sound to that time wherever it lies in the file.
    """
    av = pyav()
    stream = video_stream(container, info.path)
    stream.thread_type = "AUTO"
    decoder = decoder_of(stream)
    count = 0
    passed: set[int] = set()  # tracks that have come to the end of the part
    clock = Clock(info.start, info.time_base, info.interval, timestamp_slack(info.time_base), report.clock)
    others = _OtherTracks()
    late: set[int] | None = None  # tracks that have not come to the end of the part, once the frames have
    for packet in container.demux([stream, *copied]):
        # Not `stream_index`: the packets that end a stream all carry 0.
        if packet.stream.index != stream.index:
            yield from others.ready(packet)
            if latest is not None and (begins := _start_of(packet)) is not None and begins >= latest:
                passed.add(packet.stream.index)
        if late is not None and late <= passed:
            break
        if packet.stream.index != stream.index or late is not None:
            continue
        try:
            decoded: list[Any] = list(decoder.decode(packet))
        except av.error.InvalidDataError:
            yield None
            continue
        for frame in decoded:
            _require_size(frame, info)
            if frame.interlaced_frame:
                require_progressive(info, frame=count)
            count += 1
            placed = clock.place(frame.pts)
            yield _Decoded(frame, placed)
            if latest is not None and placed.stamp * info.time_base >= latest + _INTERLEAVING:
                late = {track.index for track in copied if track.type == "audio" and _reaches(track, latest)}
    yield from others.rest()
    report.untimed = others.untimed


def _reaches(track: Stream, seconds: float) -> bool:
    """Whether a track is as long as that, as far as the file says."""
    if track.duration is None or track.time_base is None:
        return True
    return (track.start_time or 0) + track.duration >= seconds / track.time_base


class _OtherTracks:
    """Gives the packets of other tracks the times that they need."""

    def __init__(self) -> None:
        self._order, self._clock = DecodingOrder(), TrackClock()

    @property
    def untimed(self) -> int:
        return self._order.untimed

    def ready(self, packet: Packet[Stream]) -> Iterator[Packet[Stream]]:
        """The packets that can be written once this one has come."""
        return self._moved(_timed_packets(packet, self._order))

    def rest(self) -> Iterator[Packet[Stream]]:
        """Those that are left at the end of the file."""
        return self._moved(self._order.rest())

    def _moved(self, packets: list[Packet[Stream]]) -> Iterator[Packet[Stream]]:
        for packet in packets:
            _move_on(packet, self._clock)
            yield packet


def read_tracks(
    container: InputContainer, info: ClipInfo, copied: list[Stream], last: int, report: ReadReport
) -> Iterator[Packet[Stream]]:
    """The packets of other tracks as `read_clip` gives them, without the frames.

    Args:
        container: open, and at its beginning.
        info: of the same file.
        copied: the tracks.
        last: the timestamp of the last frame.
        report: says in the end what was missing.
    """
    others, ends = _OtherTracks(), last * float(info.time_base) + info.interval
    for packet in container.demux(copied) if copied else ():
        for ready in others.ready(packet):
            ends = max(ends, _end_of(ready) or 0.0)
            yield ready
    yield from others.rest()
    report.untimed = others.untimed
    _note_missing(container, info, ends, report)


def _note_missing(container: InputContainer, info: ClipInfo, ends: float, report: ReadReport) -> None:
    """Note what a file lacks at its end; its last packet is over at `ends` seconds."""
    with suppress(FileNotFoundError):  # removed meanwhile, and read to its end all the same
        report.missing_bytes = missing_bytes(info.path)
    report.missing_seconds = _missing_seconds(container, ends, info.interval)


def note_missing(info: ClipInfo, report: ReadReport) -> None:
    """Note what a file lacks at its end, without decoding it."""
    ends = 0.0
    with opened(info.path) as container:
        # Only Matroska is read through: others state their length where a hole does not change it.
        for packet in container.demux() if _is_matroska(container) else ():
            ends = max(ends, _end_of(packet) or 0.0)
        _note_missing(container, info, ends, report)


def _move_on(packet: Packet[Stream], tracks: TrackClock) -> None:
    """Move a packet behind those before it where the file jumps back."""
    assert packet.dts is not None  # by `DecodingOrder`
    ticks = tracks.offset(packet.stream.index, packet.dts, packet.duration or 0, Fraction(packet.time_base))
    packet.dts += ticks
    if packet.pts is not None:
        packet.pts += ticks


def _timed_packets(packet: Packet[Stream], order: DecodingOrder) -> list[Packet[Stream]]:
    """The packets of other tracks that are ready once this one has come; one without content ends its track."""
    if not packet.size:
        return []
    if packet.dts is None and packet.pts is None and is_cover(packet.stream):
        packet.pts = packet.dts = 0  # a cover picture belongs at the beginning
    return order.take(packet)


def _require_size(frame: av.VideoFrame, info: ClipInfo) -> None:
    if (frame.height, frame.width) != info.size:
        raise MediaError(
            f"{info.path} changes its size from {info.size[1]}x{info.size[0]} to {frame.width}x{frame.height} on the "
            "way; cut it there first."
        )


def _selected(begins: float | None, ends: float | None, earliest: float | None, latest: float | None) -> bool:
    """Whether something that lasts from one second to another lies in the part that is wanted, at least partly."""
    if begins is None or ends is None:
        return True
    return (earliest is None or ends > earliest) and (latest is None or begins < latest)


def _start_of(packet: Packet[Stream]) -> float | None:
    """When what a packet holds begins, in seconds."""
    stamp = packet.pts if packet.pts is not None else packet.dts
    return None if stamp is None or packet.time_base is None else stamp * float(packet.time_base)


def _end_of(packet: Packet[Stream]) -> float | None:
    """When what a packet holds is over, in seconds."""
    begins = _start_of(packet)
    return None if begins is None else begins + (packet.duration or 0) * float(packet.time_base)


def _shift(packet: Packet[Stream], seconds: Fraction) -> None:
    if not seconds:
        return
    ticks = round(seconds / packet.time_base)
    if packet.pts is not None:
        packet.pts -= ticks
    if packet.dts is not None:
        packet.dts -= ticks
