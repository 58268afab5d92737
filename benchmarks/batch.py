"""Figures of `qrsc batch`: throughput by workers, a long clip in segments, kills, memory of the driver.

Usage: python benchmarks/batch.py [throughput] [long] [kills] [node_kills] [memory]     all of them without a name
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import av

from benchmarks._batch_kills import kill_batches
from benchmarks._provenance import made_with
from tests.farm.clips import GAMMA, hard_clip, short_clip, with_edit_list

OPTIONS = ["--fast", "--gamma", str(GAMMA)]
CODECS: list[tuple[str, str, dict[str, str]]] = [
    ("libx264", ".mp4", {}),
    ("libx265", ".mkv", {"x265-params": "log-level=none"}),
    ("mpeg4", ".mp4", {"q": "3"}),
    ("libvpx-vp9", ".mkv", {"crf": "20", "b": "0", "cpu-used": "8"}),
]
LOSSLESS = ["--codec", "h264", "--crf", "0"]
PROGRAM = [sys.executable, "-m", "qrsc"]


def run(*arguments: object) -> None:
    subprocess.run([*PROGRAM, *map(str, arguments), "--quiet"], check=True)


def frames_of(path: Path) -> list[tuple[Any, str]]:
    """Times of all frames, and hashes of their pixels."""
    with av.open(str(path)) as file:
        stream = file.streams.video[0]
        return [
            (frame.pts * stream.time_base, hashlib.sha256(frame.to_ndarray().tobytes()).hexdigest())
            for frame in file.decode(stream)
        ]


def sound_of(path: Path) -> list[tuple[int, Any, bytes]]:
    """Every packet of sound, with its time."""
    with av.open(str(path)) as file:
        tracks = list(file.streams.audio)
        return sorted(
            (packet.stream.index, packet.pts * packet.time_base, bytes(packet))
            for packet in file.demux(tracks)
            if packet.size
        )


def throughput(folder: Path, count: int = 200) -> None:
    """12 clips of several codecs: one worker of one thread against two, by turns, and results against `correct`."""
    for number in range(12):
        codec, suffix, options = CODECS[number % len(CODECS)]
        rate = None if codec != "mpeg4" else 30
        short_clip(folder / "in" / f"{number:02d}{suffix}", count, number, codec=codec, options=options, rate=rate)
    seconds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for turn in range(2):
        for workers in (1, 2):
            started, processor = time.perf_counter(), _processor_seconds()
            run("batch", folder / "in", "-o", folder / f"out{workers}-{turn}", "--workers", workers, "--threads", 1,
                "--segment", 0, *LOSSLESS, *OPTIONS)  # fmt: skip
            seconds[workers].append((time.perf_counter() - started, _processor_seconds() - processor))
            wall, spent = seconds[workers][-1]
            load = os.getloadavg()[0]
            print(f"{workers} workers: {wall:.1f} s, {spent:.1f} s of processor time, load {load:.1f}", flush=True)
    (one, one_spent), (two, two_spent) = min(seconds[1]), min(seconds[2])
    print(f"two workers: {one / two:.2f} times as fast, with {two_spent / one_spent:.2f} times the processor time")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # as a worker of one thread has it
    same = 0
    for path in sorted((folder / "in").iterdir()):
        run("correct", path, "-o", folder / f"expected{path.suffix}", "--overwrite", *LOSSLESS, *OPTIONS)
        same += frames_of(folder / f"expected{path.suffix}") == frames_of(folder / "out2-0" / path.name)
    print(f"{same} of 12 are what qrsc correct writes, frame by frame")


def _processor_seconds() -> float:
    """Of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def long(folder: Path, count: int = 2000) -> None:
    """A long clip in segments, lossless, against one run: plain, and with an edit list."""
    hard = hard_clip(folder / "hard.mp4", count)
    edited = with_edit_list(hard, folder / "edited.mp4", 12)
    for source, lengths in ((hard, (100, 300)), (edited, (200,))):
        whole = folder / f"whole-{source.name}"
        run("correct", source, "-o", whole, *LOSSLESS, *OPTIONS)
        for length in lengths:
            out = folder / f"out-{source.stem}-{length}"
            run("batch", source, "-o", out, "--segment", length, "--workers", 2, *LOSSLESS, *OPTIONS)
            joined = out / source.name
            line = json.loads((out / "report.json").read_text())["results"][0]
            again = sum('"kind": "segment"' in text for text in (out / "manifest.jsonl").read_text().splitlines())
            one, other = frames_of(whole), frames_of(joined)
            print(
                f"{source.stem}, {line['frames']} frames in {line['segments']} segments of about {length} "
                f"({again} corrected): frames {[h for _, h in one] == [h for _, h in other]}, "
                f"timestamps {[t for t, _ in one] == [t for t, _ in other]}, "
                f"sound {[p[1:] for p in sound_of(source)] == [p[1:] for p in sound_of(joined)]}, cuts {line['cuts']}"
            )


def kills(folder: Path) -> None:
    """Kill workers and drivers on this machine, 10 of each."""
    kill_batches(folder, frames_of, ray=False, each=10)


def node_kills(folder: Path) -> None:
    """Kill workers, drivers and nodes of a Ray cluster, 8 of each. Needs Ray."""
    if find_spec("ray") is None:
        print("node_kills: left out, since Ray is not installed")
        return
    kill_batches(folder, frames_of, ray=True, each=8)


def memory(folder: Path) -> None:
    """Peak memory of the driver with 10 and 1,000 clips, which need no correction."""
    first = short_clip(folder / "clip.mkv", 4)
    for count in (10, 1000):
        clips = folder / f"in{count}"
        clips.mkdir()
        for number in range(count):
            os.link(first, clips / f"{number:04d}.mkv")
        script = (
            "import resource, sys, qrsc\n"
            "n = sum(1 for _ in qrsc.batch(sys.argv[1], sys.argv[2], workers=1, threads=1, gamma=0.0))\n"
            "print(n, 'clips: peak of the driver', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, 'MB')"
        )
        subprocess.run([sys.executable, "-c", script, str(clips), str(folder / f"out{count}")], check=True)


PARTS = {"throughput": throughput, "long": long, "kills": kills, "node_kills": node_kills, "memory": memory}


def main() -> None:
    print(made_with("cpu"))
    for name in sys.argv[1:] or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main()
