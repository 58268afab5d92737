"""Parts of a video that were encoded apart, joined into one without encoding anything again.

Convention
    A segment is a file with consecutive frames of a clip and nothing else, encoded with the settings of the whole. It
    begins with a key frame.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from qrsc.media.codecs import Encoding
from qrsc.media.errors import MediaError
from qrsc.media.frame_ranges import FrameTable
from qrsc.media.probe import opened, pyav
from qrsc.media.writer import VideoWriter, segment_format

if TYPE_CHECKING:
    from av.packet import Packet


def undivided_reason(encoding: Encoding) -> str:
    """Why an output cannot be written in segments; empty if it can."""
    if encoding.container == "avi":
        return "AVI files count frames and hold no timestamps"
    if encoding.layout.alpha and encoding.encoder.startswith("libvpx"):
        return "transparency in VP8 and VP9 is stored beside the packets"
    try:
        with pyav().open(io.BytesIO(), "w", format=segment_format(encoding)) as trial:
            trial.add_stream(encoding.encoder)
    except ValueError:
        return f"segments cannot hold what {encoding.encoder} writes"
    return ""


def join_segments(
    writer: VideoWriter, segments: Sequence[Path], table: FrameTable, others: Iterable[Packet[Any]], last: int
) -> None:
    """Write the packets of segments, and those of other tracks between them.

    Args:
        writer: of the whole; its encoder has the settings of the segments, and is not used.
        segments: the files in order.
        table: all frames of the clip.
        others: packets of other tracks, in order.
        last: duration of the last frame, in the clip's time base; 0 if unknown.

    Raises:
        MediaError: the segments do not hold as many frames as the table.
    """
    places = _places(segments, table)
    # Frames are decoded in another order than they are shown, and each so much before it is shown that none is late.
    delay = int((np.arange(len(places)) - places).max(initial=0))
    video = _timed(segments, table, places, delay, writer.record.time_base, last)
    for _, own, packet in merge(_by_time(video, own=True), _by_time(others, own=False), key=lambda each: each[0]):
        if own:
            writer.write_encoded(packet)
        else:
            writer.copy(packet)


def _by_time(packets: Iterable[Packet[Any]], *, own: bool) -> Iterator[tuple[Fraction, bool, Packet[Any]]]:
    for packet in packets:
        stamp = packet.dts if packet.dts is not None else packet.pts or 0
        yield stamp * Fraction(packet.time_base or 1), own, packet


def _packets(path: Path) -> Iterator[Packet[Any]]:
    with opened(path) as container:
        yield from (packet for packet in container.demux(video=0) if packet.size)


def _places(segments: Sequence[Path], table: FrameTable) -> npt.NDArray[np.int64]:
    """For each packet, in the order of decoding, the number of its frame in the order of display.

    File formats may move timestamps, but never change their order.
    """
    places: list[npt.NDArray[np.int64]] = []
    first = 0
    for path in segments:
        stamps = np.array([packet.pts for packet in _packets(path)], dtype=np.int64)
        places.append(first + np.argsort(np.argsort(stamps)))
        first += len(stamps)
    if first != len(table):
        raise MediaError(f"{len(segments)} segments hold {first} frames, and {len(table)} were expected.")
    return np.concatenate(places)


def _timed(
    segments: Sequence[Path],
    table: FrameTable,
    places: npt.NDArray[np.int64],
    delay: int,
    time_base: Fraction,
    last: int,
) -> Iterator[Packet[Any]]:
    """The packets of segments with the timestamps of the clip, and decoding times that rise through all of them."""
    stamps = table.stamps
    step = int(stamps[1] - stamps[0]) if len(stamps) > 1 else 1
    packets = (packet for path in segments for packet in _packets(path))
    for number, packet in enumerate(packets):
        place = int(places[number])
        early = number - delay
        packet.time_base = time_base
        packet.pts = int(stamps[place])
        packet.dts = int(stamps[early]) if early >= 0 else int(stamps[0]) + early * step
        packet.duration = int(stamps[place + 1] - stamps[place]) if place + 1 < len(stamps) else last
        yield packet
