"""What of the other tracks belongs to a part of a clip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import pytest

import qrsc

from ..videos import Recipe, facts, make_video, texture_frames


def with_sound_behind_its_frames(source: Path, path: Path) -> Path:
    """A copy of a clip in which all of the sound lies behind all of the frames."""
    with av.open(str(source)) as old, av.open(str(path), "w", options={"max_interleave_delta": "1"}) as new:
        tracks = {stream.index: new.add_stream_from_template(stream) for stream in old.streams}
        packets: list[Any] = [packet for packet in old.demux() if packet.size]
        for packet in sorted(packets, key=lambda packet: packet.stream.index):
            packet.stream = tracks[packet.stream.index]
            new.mux(packet)
    return path


@pytest.mark.parametrize("start", [None, 0.2])
def test_sound_is_kept_wherever_it_lies_in_the_file(tmp_path: Path, start: float | None) -> None:
    clip = make_video(tmp_path / "in.mkv", Recipe(texture_frames(50), sound=1))
    apart = with_sound_behind_its_frames(clip, tmp_path / "apart.mkv")
    kept = []
    for source in (clip, apart):
        output = tmp_path / f"{source.stem}-part.mkv"
        qrsc.correct_video(source, output, gamma=0.0, start=start, end=0.4, codec="ffv1", verify=False)
        found = facts(output)
        [(_, _, _, packets)] = found.tracks
        kept.append((found.times, packets))
    assert kept[0] == kept[1]
    times, packets = kept[0]
    assert len(times) == (12 if start is None else 6)
    # To the end of the part, with the packet that lies across it: one of them lasts 1024 / 48000 s.
    assert 0.4 - (start or 0.0) - 0.022 <= packets[-1][0] < 0.4 - (start or 0.0)
