"""10-bit VP9 from 8-bit VP9, by rewriting the headers of its frames: no libvpx in PyAV's wheels encodes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av


def ten_bit_vp9(source: Path, target: Path) -> Path:
    """Write the frames of a VP9 video, all of them key frames, as profile 2: other pictures, but valid ones."""
    with av.open(str(source)) as container, av.open(str(target), "w") as output:
        video = container.streams.video[0]
        stream: Any = output.add_stream_from_template(video, opaque=True)
        for packet in container.demux(video):
            if packet.size:
                deep = av.Packet(_profile_2(bytes(packet)))
                deep.pts, deep.dts, deep.time_base = packet.pts, packet.dts, packet.time_base
                deep.is_keyframe, deep.stream = True, stream
                output.mux(deep)
    return target


class _Bits:
    def __init__(self, content: bytes) -> None:
        self.all = "".join(f"{byte:08b}" for byte in content)
        self.at = 0

    def take(self, count: int) -> int:
        self.at += count
        return int(self.all[self.at - count : self.at], 2)


def _profile_2(frame: bytes) -> bytes:
    """A key frame of 8 bits with the header of 10 bits: the profile changes, and one bit comes in for the depth."""
    bits = _Bits(frame)
    bits.take(5)  # marker, profile, no repeat of a frame
    assert bits.take(1) == 0, "a key frame was expected"
    bits.take(1)
    resilient = bits.take(1)
    bits.take(24)  # synchronisation
    depth = bits.at
    bits.take(4 + 32)  # colour, size
    if bits.take(1):
        bits.take(32)  # size on a display
    bits.take(4 if not resilient else 2)  # contexts
    bits.take(9)  # loop filter
    if bits.take(1) and bits.take(1):
        for _ in range(6):
            if bits.take(1):
                bits.take(7)
    bits.take(8)  # quantiser
    for _ in range(3):
        if bits.take(1):
            bits.take(5)
    assert bits.take(1) == 0, "segments were not expected"
    if bits.take(1):  # rows of tiles; frames this narrow have one column
        bits.take(1)
    bits.take(16)  # size of the header that follows
    header = f"{bits.all[:3]}1{bits.all[4:depth]}0{bits.all[depth : bits.at]}"
    header += "0" * (-len(header) % 8)
    return int(header, 2).to_bytes(len(header) // 8, "big") + frame[-(-bits.at // 8) :]
