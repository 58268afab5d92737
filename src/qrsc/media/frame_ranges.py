"""Ranges of frames of a long video, each read by itself: what a clip holds, frame by frame, and a part of it.

A clip is listed from its packets, which takes a pass over the file and no decoding. Whoever reads a range gets exactly
the frames of the list, with the times that they have in the whole clip, or an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qrsc.media.clock import Clock, ClockReport
from qrsc.media.errors import MediaError
from qrsc.media.probe import ClipInfo, decoder_of, opened, pyav, timestamp_slack, video_stream
from qrsc.media.reader import DecodedFrame

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream

_FURTHER_BACK = (0.0, 2.0, 10.0, 60.0)  # seconds before a frame at which a key frame is looked for, one after the other


class FrameRangeError(MediaError):
    """The frames of a clip cannot be listed from its packets, or are not those of the list."""


@dataclass(frozen=True)
class FrameTable:
    """Consecutive frames of a clip.

    Attributes:
        first: number of the first of them in the clip.
        stamps: `[N]`, timestamps in the clip's time base, rising.
        times: `[N]`, when each started, in frame intervals from the clip's first frame.
        keys: numbers in the clip of those that can be decoded without the ones before.
    """

    first: int
    stamps: npt.NDArray[np.int64]
    times: npt.NDArray[np.float64]
    keys: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.stamps)

    def part(self, first: int, end: int) -> FrameTable:
        """The frames from number `first` to `end`, which is left out."""
        these = slice(first - self.first, end - self.first)
        keys = self.keys[(self.keys >= first) & (self.keys < end)]
        return FrameTable(first, self.stamps[these], self.times[these], keys)


def list_frames_of(info: ClipInfo) -> FrameTable:
    """List the frames of a whole clip from its packets, with the times that `read_clip` gives them.

    Raises:
        FrameRangeError: packets are damaged, lack timestamps, or share them; the message says which.
    """
    stamps: list[int] = []
    keys: list[int] = []
    with opened(info.path) as container:
        for packet in container.demux(video_stream(container, info.path)):
            if not packet.size or packet.is_discard:
                continue
            if packet.pts is None or packet.is_corrupt:
                raise FrameRangeError("packets are damaged" if packet.is_corrupt else "packets have no timestamps")
            stamps.append(packet.pts)
            if packet.is_keyframe:
                keys.append(packet.pts)
    in_order = np.unique(np.array(stamps, dtype=np.int64))
    if len(in_order) < len(stamps):
        raise FrameRangeError("several packets have the same timestamp")
    report = ClockReport()
    clock = Clock(info.start, info.time_base, info.interval, timestamp_slack(info.time_base), report)
    times = np.array([clock.place(int(stamp)).time for stamp in in_order])
    if report.mended:
        raise FrameRangeError("timestamps have to be mended")
    return FrameTable(0, in_order, times, np.searchsorted(in_order, np.sort(np.array(keys, dtype=np.int64))))


def read_range(container: InputContainer, info: ClipInfo, table: FrameTable) -> Iterator[DecodedFrame]:
    """The frames of a part of a clip, decoded from the key frame before it on.

    Args:
        container: open, and at its beginning.
        info: of the same file.
        table: the part.

    Raises:
        FrameRangeError: the file decodes into other frames than its packets announce, or not at all.
    """
    av = pyav()
    stream = video_stream(container, info.path)
    stream.thread_type = "AUTO"
    decoder = decoder_of(stream)
    done = 0
    for packet in _packets_from_key(container, stream, info, table):
        try:
            decoded: list[Any] = list(decoder.decode(packet))
        except av.error.InvalidDataError as error:
            raise FrameRangeError(f"a packet after frame {table.first + done} cannot be decoded") from error
        for frame in decoded:
            if frame.pts is not None and frame.pts < table.stamps[0]:
                continue
            if frame.pts != table.stamps[done] or frame.is_corrupt or not _usual(frame, info):
                raise FrameRangeError(f"frame {table.first + done} is not what the packets announce")
            yield DecodedFrame(frame, float(table.times[done]), info.colours, info.layout.bits)
            done += 1
            if done == len(table):
                return
    raise FrameRangeError(f"the frames from {table.first + done} on cannot be decoded")


def _usual(frame: Any, info: ClipInfo) -> bool:
    """Whether a frame has the size of its clip and is not interlaced; else the clip is refused when read as a whole."""
    return (frame.height, frame.width) == info.size and (info.progressive or not frame.interlaced_frame)


def _packets_from_key(
    container: InputContainer, stream: VideoStream, info: ClipInfo, table: FrameTable
) -> Iterator[Packet[VideoStream]]:
    """The packets of a video from a key frame on that is not after the first frame of the part."""
    if table.first == 0:
        return container.demux(stream)
    first = int(table.stamps[0])
    for seconds in _FURTHER_BACK:
        container.seek(first - round(seconds / float(info.time_base)), stream=stream, backward=True)
        packets = container.demux(stream)
        key = next((packet for packet in packets if packet.is_keyframe and packet.size), None)
        if key is not None and key.pts is not None and key.pts <= first:
            return chain([key], packets)
    container.seek(info.start - round(1.0 / float(info.time_base)), stream=stream, backward=True)
    return container.demux(stream)
