"""Times of the packets that are copied: in the order in which they are decoded, and never back."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

# Packets that may wait for the first decoding time of their track; H.264 reorders at most 16 frames.
_MOST_WAITING = 32


class TrackClock:
    """Timestamps of the packets of other tracks, moved on where a file jumps back.

    The first track that jumps says by how much; the others follow it, so that sound and picture stay together.
    """

    def __init__(self) -> None:
        self._jumps: list[float] = []  # seconds by which everything after the n-th jump is moved
        self._tracks: dict[int, _Track] = {}

    def offset(self, track: int, dts: int, duration: int, time_base: Fraction) -> int:
        """By how many ticks a packet has to be moved, given in the order of the file."""
        state = self._tracks.setdefault(track, _Track())
        if state.last is not None and dts < state.last:
            state.jumps += 1
            if len(self._jumps) < state.jumps:
                before = self._jumps[-1] if self._jumps else 0.0
                self._jumps.append(before + float((state.end - dts) * time_base))
        state.last, state.end = dts, dts + max(duration, 1)
        wanted = round(self._jumps[state.jumps - 1] / float(time_base)) if state.jumps else 0
        if state.written is not None:  # never back, whatever the other tracks say
            wanted = max(wanted, state.written - dts) if state.jumps else wanted
        state.written = dts + wanted + 1
        return wanted


@dataclass
class _Track:
    last: int | None = None  # as the file gives it
    end: int = 0  # of the last packet
    written: int | None = None  # the least timestamp that the next packet may have
    jumps: int = 0


@dataclass
class DecodingOrder:
    """Decoding times (dts) for packets that lack them.

    Matroska stores when frames are shown, and FFmpeg can tell when they are decoded only from the third or so on. The
    first ones are counted back from there. A packet without any time follows the one before it.

    Attributes:
        untimed: packets that had no time at all.
    """

    untimed: int = 0
    _waiting: dict[int, list[Packet[Stream]]] = field(default_factory=dict)
    _last: dict[int, int] = field(default_factory=dict)  # dts of each track
    _ends: dict[int, int] = field(default_factory=dict)  # of the last packet of each track, in its time base

    def take(self, packet: Packet[Stream]) -> list[Packet[Stream]]:
        """The packets that are ready once this one has come; all of them have times."""
        track = packet.stream.index
        waiting = self._waiting.setdefault(track, [])
        waiting.append(packet)
        reordered = packet.stream.type == "video"
        if reordered and packet.dts is None and track not in self._ends and len(waiting) < _MOST_WAITING:
            return []
        return self._ready(track)

    def rest(self) -> list[Packet[Stream]]:
        """The packets that still wait, at the end of the file."""
        return [packet for track in list(self._waiting) for packet in self._ready(track)]

    def _ready(self, track: int) -> list[Packet[Stream]]:
        packets = self._waiting.pop(track, [])
        if not packets:
            return []
        self.untimed += sum(packet.dts is None and packet.pts is None for packet in packets)
        step = _step(packets)
        if packets[-1].dts is None:
            packets[-1].dts = self._last_dts(packets, step)
        following = packets[-1].dts
        assert following is not None
        for packet in reversed(packets[:-1]):
            if packet.dts is None:
                packet.dts = following - step if packet.pts is None else min(following - step, packet.pts)
            following = packet.dts
        for packet in packets:
            if packet.pts is None:
                packet.pts = packet.dts
            self._add_duration(packet)
        self._ends[track] = max(packet.dts + (packet.duration or step) for packet in packets if packet.dts is not None)
        return packets

    def _add_duration(self, packet: Packet[Stream]) -> None:
        """Give a packet of sound or picture that has no duration that of the one before it.

        MP4 ends a track with its last packet: if that lasts no time, readers leave it out.
        """
        assert packet.dts is not None
        track = packet.stream.index
        step = packet.dts - self._last.get(track, packet.dts)
        if packet.stream.type in ("audio", "video") and not packet.duration and step > 0:
            packet.duration = step
        self._last[track] = packet.dts

    def _last_dts(self, packets: list[Packet[Stream]], step: int) -> int:
        """When the last of these is decoded, none of which says so."""
        shown = [packet.pts for packet in packets if packet.pts is not None]
        end = self._ends.get(packets[-1].stream.index)
        if packets[-1].stream.type != "video" and shown:
            return shown[-1]
        if end is not None:
            return min([end, *shown])
        if not shown:
            return (len(packets) - 1) * step
        # Frames are decoded in the order of the file and shown in that of their times, none before it is decoded.
        late = max(in_order - pts for in_order, pts in zip(sorted(shown), shown, strict=True))
        return max(shown) - late


def _step(packets: list[Packet[Stream]]) -> int:
    """The time from one packet to the next, in ticks of their track."""
    times = sorted(packet.pts for packet in packets if packet.pts is not None)
    steps = [after - before for before, after in pairwise(times) if after > before]
    return min([packet.duration for packet in packets if packet.duration] or steps or [1])
