"""What a run will take: the time of a few frames and the bytes of a few encoded ones, multiplied."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.media.image_folder import write_frame
from qrsc.media.probe import opened
from qrsc.media.writer import open_writer
from qrsc.names import PresetName
from qrsc.pipeline import Seconds, TimedFrame
from qrsc.video.clip_job import ClipJob
from qrsc.video.clip_plan import ClipPlan
from qrsc.video.edges import Edges
from qrsc.video.source import Source, SourceFrame, open_source

TIMED, WARM = 7, 2  # frames that are corrected to see how long one takes, without the first ones, which load networks
ENCODED = 12  # frames that are encoded to see how large they get
KEYFRAMES = 250  # frames between two that are stored whole, as most encoders have it


def plan_clip(
    job: ClipJob,
    work: Callable[[Iterable[TimedFrame]], Iterator[object]],
    edges: Edges,
    preset: PresetName,
    *,
    copied: bool,
    factor: int = 1,
) -> ClipPlan:
    """Try the beginning of a clip, and write nothing.

    Args:
        job: the clip.
        work: corrects frames.
        edges: of the output.
        preset: of the correction.
        copied: the clip would be copied.
        factor: frames out for every frame in.
    """
    with _opened(job) as source:
        frames = source.frames
        many = None if frames is None else (frames - 1) * factor + 1
        encoder = None if job.encoding is None else job.encoding.encoder
        if copied:
            paths = [job.source] if job.source.is_file() else [path for path in job.source.iterdir() if path.is_file()]
            length = sum(path.stat().st_size for path in paths)
            return ClipPlan(True, frames, preset, encoder, edges.size, bytes=length)
        each = _seconds_each(source, work)
    return ClipPlan(
        False,
        many,
        preset,
        encoder,
        edges.size,
        None if frames is None or each is None else each * frames,
        estimated_bytes(job, edges, many),
    )


def _opened(job: ClipJob) -> Any:
    return open_source(job.source, job.info, device=job.device, seconds=Seconds(), start=job.start, end=job.end)


def _frames(source: Source) -> Iterator[SourceFrame]:
    return (item for item in source.items() if isinstance(item, SourceFrame))


def _seconds_each(source: Source, work: Callable[[Iterable[TimedFrame]], Iterator[object]]) -> float | None:
    """Seconds that a frame takes, by the first ones; None if there are too few."""
    started = time.perf_counter()
    count = 0

    def frames() -> Iterator[TimedFrame]:
        nonlocal started, count
        for frame in islice(_frames(source), TIMED):
            count += 1
            if count == WARM + 1:
                started = time.perf_counter()
            yield TimedFrame(frame.frame, frame.time, frame.restarts)

    for _ in work(frames()):
        pass
    return (time.perf_counter() - started) / (count - WARM) if count > WARM else None


@torch.no_grad()
def estimated_bytes(job: ClipJob, edges: Edges, frames: int | None) -> int | None:
    """The size of an output of so many frames: some of the input are encoded as it would be, in a temporary folder."""
    if frames is None:
        return None
    with tempfile.TemporaryDirectory() as folder, _opened(job) as source:
        pictures = (edges.cut(frame.frame.cpu()) for frame in islice(_frames(source), ENCODED))
        first = next(pictures, None)
        if first is None:
            return None
        if job.encoding is None:
            path = Path(folder) / "frame.png"
            write_frame(path, first)
            return frames * path.stat().st_size
        first_bytes, others = _encoded_bytes(job, edges, chain([first], pictures), Path(folder))
    return round(frames * others + first_bytes * -(-frames // KEYFRAMES) + _bytes_beside(job, frames))


def _encoded_bytes(job: ClipJob, edges: Edges, pictures: Iterable[Tensor], folder: Path) -> tuple[float, float]:
    """Bytes of the first encoded frame, and of each of the others on average."""
    assert job.encoding is not None  # by the caller
    path = folder / f"sample{job.output.suffix}"
    rate = Fraction(_rate(job)).limit_denominator(1001)
    with open_writer(path, job.encoding, edges.size, info=None, rate=rate) as writer:
        for number, picture in enumerate(pictures):
            writer.write_at(picture, number, 1)
    with opened(path) as container:
        sizes = [packet.size for packet in container.demux(video=0) if packet.size]
    return sizes[0], sum(sizes[1:]) / max(1, len(sizes) - 1) if len(sizes) > 1 else sizes[0]


def _rate(job: ClipJob) -> float:
    return job.info.fps if job.info is not None else job.fps or 30.0


def _bytes_beside(job: ClipJob, frames: int) -> float:
    """Bytes of the other tracks, by their bit rates as far as the file gives them."""
    if job.info is None:
        return 0.0
    with opened(job.source) as container:
        rates = [stream.bit_rate or 0 for stream in container.streams.audio]
    return sum(rates) / 8.0 * frames / _rate(job)
