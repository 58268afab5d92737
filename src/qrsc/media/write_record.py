"""What the packets of a video amount to: noted while it is written, and again when it is read back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from av.packet import Packet
    from av.stream import Stream

_ADTS_HEADER, _ADTS_CHECKSUM = 7, 2  # bytes
# Codecs whose packets are framed in one of two ways; a header in front of the stream belongs to the second.
_FRAMED_TWICE = ("h264", "hevc")


@dataclass
class TrackRecord:
    """The packets of one track.

    Attributes:
        kind: of the track: `audio`, `subtitle`, ...
        codec: FFmpeg's name of it; empty if it has none.
        length_prefixed: H.264 and HEVC: each unit begins with its length, as in MP4, and not with a start code.
        packets, size: how many there are, and their bytes.
        first, last: when the first and the last in time begin, in seconds.
    """

    kind: str
    codec: str
    length_prefixed: bool
    packets: int = 0
    size: int = 0
    first: Fraction | None = None
    last: Fraction | None = None
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16), repr=False)

    @classmethod
    def of(cls, stream: Stream) -> TrackRecord:
        """An empty record for a track."""
        context: Any = stream.codec_context
        codec = str(getattr(context, "name", None) or "")
        extradata = bytes(getattr(context, "extradata", None) or b"")
        return cls(stream.type, codec, codec in _FRAMED_TWICE and extradata[:1] == b"\x01")

    def add(self, packet: Packet[Stream]) -> None:
        """Note a packet."""
        payload = _without_adts(bytes(packet)) if self.codec == "aac" else bytes(packet)
        self.packets += 1
        self.size += len(payload)
        self._hash.update(payload)
        if packet.pts is not None and packet.time_base is not None:
            begins = packet.pts * Fraction(packet.time_base)
            self.first = begins if self.first is None else min(self.first, begins)
            self.last = begins if self.last is None else max(self.last, begins)

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.kind} track ({self.codec or 'unknown format'})"

    @property
    def is_still(self) -> bool:
        """Whether the track is one picture, which has no time."""
        return self.kind == "video" and self.packets == 1

    @property
    def is_raw(self) -> bool:
        """Whether the track is uncompressed sound, which file formats cut into packets as they like."""
        return self.codec.startswith("pcm_")

    def is_like(self, other: TrackRecord) -> bool:
        """Whether both are of one kind and codec; MP4 does not tell the layers of MPEG audio apart."""
        return self.kind == other.kind and _family(self.codec) == _family(other.codec)

    def difference(self, other: TrackRecord) -> str:
        """In what the content of another record differs; empty if it does not.

        Raw sound has no packets of its own, only bytes. Where H.264 or HEVC is framed anew for another file format, the
        bytes differ and the number of packets is all that can be compared.
        """
        if not self.is_raw and self.packets != other.packets:
            return f"{self.packets} packets became {other.packets}"
        if self.length_prefixed != other.length_prefixed:
            return ""
        if self.size != other.size:
            return f"{self.size} bytes became {other.size}"
        return "" if self._hash.digest() == other._hash.digest() else "its content differs"


@dataclass
class WriteRecord:
    """What was handed to a file while it was written.

    Attributes:
        stamps: of the frames, in units of `time_base`.
        time_base: in seconds.
        tracks: that were copied, by their index in the source.
    """

    stamps: list[int] = field(default_factory=list)
    time_base: Fraction = Fraction(1)
    tracks: dict[int, TrackRecord] = field(default_factory=dict)


def _family(codec: str) -> str:
    return "mpeg audio" if codec.removesuffix("float") in ("mp1", "mp2", "mp3") else codec


def _without_adts(payload: bytes) -> bytes:
    """AAC without the header that transport streams put before each packet, and MP4 does not."""
    if len(payload) < _ADTS_HEADER or payload[0] != 0xFF or payload[1] & 0xF6 != 0xF0:
        return payload
    checked = not payload[1] & 1
    return payload[_ADTS_HEADER + _ADTS_CHECKSUM * checked :]
