"""Verify a finished video: read it again beside its source, before it gets its name.

Three checks, the cheapest first: frames and their timestamps; every packet of every copied track, against the source as
well; every picture decoded. With a time limit, checks that do not finish in time are left out, and said to be.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from qrsc.media.errors import MediaError, VerificationError
from qrsc.media.probe import opened, pyav, video_stream
from qrsc.media.write_record import TrackRecord, WriteRecord

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

Item = TypeVar("Item")

# AVI has a constant rate and no start time: it holds neither timestamps of frames nor the place of other tracks.
_WITHOUT_TIMES = ("avi",)
# Transport streams start later by a delay of their own.
_OWN_START = ("mpegts", *_WITHOUT_TIMES)
_ROUNDING = Fraction(101, 100)  # of a tick
FRAMES, TRACKS, PICTURES = "frames and timestamps", "other tracks", "pictures"


@dataclass(frozen=True)
class Verification:
    """What was confirmed.

    Attributes:
        confirmed: in words, in the order of the checks.
        left_out: checks that did not finish in time.
    """

    confirmed: tuple[str, ...]
    left_out: tuple[str, ...] = ()


class _OutOfTimeError(Exception):
    """A check takes longer than allowed."""


def verify_video(
    path: Path,
    record: WriteRecord,
    container: str,
    source: Path | None,
    *,
    whole: bool = True,
    seconds: float | None = None,
) -> Verification:
    """Compare a finished video with what was handed to it and with its source.

    Args:
        path: the video.
        record: of the writer.
        container: FFmpeg's name of the file format.
        source: the video that it was made from; None if there is none.
        whole: all of the source was used, and not only a part.
        seconds: after which the remaining checks are left out; None for no limit.

    Raises:
        VerificationError: something is missing or differs; the message says what.
    """
    deadline = None if seconds is None else time.perf_counter() + seconds
    confirmed: list[str] = []
    waiting = [FRAMES, *([TRACKS] if record.tracks else []), PICTURES]
    try:
        file = _read_back(path, record, deadline)
        confirmed.append(_verify_times(file, record, container))
        waiting.remove(FRAMES)
        if record.tracks:
            confirmed.append(_verify_tracks(file, record, source if whole else None, deadline))
            waiting.remove(TRACKS)
        confirmed.append(_verify_pictures(path, len(record.stamps), deadline))
        waiting.remove(PICTURES)
    except _OutOfTimeError:
        pass  # the words in `waiting` say so
    return Verification(tuple(confirmed), tuple(waiting))


@dataclass(frozen=True)
class _Track:
    """A copied track: as it was written and as it is read, with the unit of its timestamps in seconds."""

    written: TrackRecord
    read: TrackRecord
    tick: Fraction


@dataclass(frozen=True)
class _File:
    """A finished file: times of its frames in seconds, in order, with their unit, and its other tracks."""

    times: list[Fraction]
    tick: Fraction
    tracks: list[_Track]


def _read_back(path: Path, record: WriteRecord, deadline: float | None) -> _File:
    with opened(path) as file:
        own = video_stream(file, path)
        tick = Fraction(own.time_base or 1)
        tracks = _matched(file, own.index, record)
        times = []
        for packet in _in_time(file.demux(), deadline):
            index = packet.stream.index  # not `stream_index`: the packets that end a stream all carry 0
            if index == own.index and packet.size:
                times.append((packet.pts or 0) * tick)
            elif index in tracks and packet.size:
                tracks[index].read.add(packet)
        return _File(sorted(times), tick, list(tracks.values()))


def _matched(file: InputContainer, own: int, record: WriteRecord) -> dict[int, _Track]:
    """The copied tracks of a file by index, still to be read.

    In order and by kind: some formats put pictures and fonts behind everything else.
    """
    free: list[Stream] = [stream for stream in file.streams if stream.index != own]
    matched = {}
    for written in record.tracks.values():
        if not written.packets:
            continue
        alike = [stream for stream in free if TrackRecord.of(stream).is_like(written)]
        if not alike:
            raise VerificationError(f"the {written.name} is not in the file")
        free.remove(alike[0])
        matched[alike[0].index] = _Track(written, TrackRecord.of(alike[0]), Fraction(alike[0].time_base or 1))
    return matched


def _verify_times(file: _File, record: WriteRecord, container: str) -> str:
    """Frames, their timestamps, and where the other tracks lie beside them."""
    expected = sorted(stamp * record.time_base for stamp in record.stamps)
    if len(file.times) != len(expected):
        raise VerificationError(f"{len(expected)} frames were written, and the file holds {len(file.times)}")
    if container in _WITHOUT_TIMES or not expected:
        return f"{len(expected)} frames"
    shift, slack = file.times[0] - expected[0], _ROUNDING * file.tick
    for number, (before, after) in enumerate(zip(expected, file.times, strict=True)):
        if abs(after - before - shift) > slack:
            raise VerificationError(f"frame {number} is {float(after - before - shift):+.4f} s off its timestamp")
    # Where a track begins before zero, file formats that cannot say so move all of them.
    starts = [expected[0], *(track.first for track in record.tracks.values() if track.first is not None)]
    if container not in _OWN_START and min(starts) >= 0 and abs(shift) > slack:
        raise VerificationError(f"it begins {float(shift):+.4f} s off its first timestamp")
    for track in file.tracks:
        for written, read in ((track.written.first, track.read.first), (track.written.last, track.read.last)):
            if written is None or read is None or track.written.is_still:
                continue
            if written is track.written.last and track.written.is_raw:
                continue
            off = read - written - shift
            if abs(off) > slack + _ROUNDING * track.tick:
                raise VerificationError(f"the {track.written.name} is {float(off):+.4f} s off the picture")
    return f"{len(expected)} frames and their timestamps"


def _verify_tracks(file: _File, record: WriteRecord, source: Path | None, deadline: float | None) -> str:
    """Every copied packet, against what was handed over and against the source itself."""
    for track in file.tracks:
        _require_same(track.written, track.read)
    packets = sum(track.read.packets for track in file.tracks)
    confirmed = f"{packets} packets of {len(file.tracks)} other track{'s' * (len(file.tracks) != 1)}"
    if source is None:
        return confirmed
    try:
        records = _source_records(source, list(record.tracks), deadline)
    except (OSError, MediaError):  # removed or overwritten during the run, which is no fault of the output
        return f"{confirmed} (but not against the input, which can no longer be read)"
    for index, read in records.items():
        _require_same(read, record.tracks[index])
    return confirmed


def _source_records(source: Path, indices: list[int], deadline: float | None) -> dict[int, TrackRecord]:
    with opened(source) as file:
        streams = [file.streams[index] for index in indices]
        records = {stream.index: TrackRecord.of(stream) for stream in streams}
        for packet in _in_time(file.demux(streams), deadline):
            if packet.size:
                records[packet.stream.index].add(packet)
    return records


def _require_same(before: TrackRecord, after: TrackRecord) -> None:
    difference = before.difference(after)
    if difference:
        raise VerificationError(f"{before.name}: {difference}")


def _verify_pictures(path: Path, frames: int, deadline: float | None) -> str:
    """Every picture can be decoded."""
    av = pyav()
    decoded = 0
    with opened(path) as file:
        stream: Any = video_stream(file, path)
        stream.thread_type = "AUTO"
        try:
            for _ in _in_time(file.decode(stream), deadline):
                decoded += 1
        except av.error.InvalidDataError as error:
            raise VerificationError(f"the picture after frame {decoded - 1} cannot be decoded") from error
    if decoded != frames:
        raise VerificationError(f"{frames} frames were written, and {decoded} can be decoded")
    return "every picture can be decoded"


def _in_time(items: Iterable[Item], deadline: float | None) -> Iterator[Item]:
    for item in items:
        if deadline is not None and time.perf_counter() > deadline:
            raise _OutOfTimeError
        yield item
