"""Where the time of `qrsc correct --fast` goes on a video, beside the time of its two DIS flows alone.

    python benchmarks/video_profile.py [--size 640x480] [--frames 60] [--rounds 3]

Both are measured in turns in one process, so that other work on the machine slows both equally; the medians are
compared. The clip is made on the fly: a photograph-like texture under an unsteady camera, as H.264.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow.dis import Luma, search
from qrsc.media.mp4 import write_video
from qrsc.media.reader import read_video
from qrsc.video.correct import correct_video

GAMMA = 0.6


def shaken_texture(size: tuple[int, int], count: int) -> Iterator[Tensor]:
    """Rolling-shutter frames `[3, H, W]` of a texture with detail at every scale, under smooth shake."""
    height, width = size
    generator = torch.Generator().manual_seed(0)
    wide, high = width + 160, height + 160
    picture = torch.zeros(1, 3, high, wide)
    for octave in range(1, 8):
        coarse = torch.rand(1, 3, max(2, high >> octave), max(2, wide >> octave), generator=generator) - 0.5
        picture += F.interpolate(coarse, (high, wide), mode="bicubic") * 0.9 ** (8 - octave)
    picture = (0.5 + 0.45 * picture / picture.abs().max())[0]
    rows = torch.arange(height, dtype=torch.float64)
    for index in range(count):
        times = index + GAMMA * rows / height
        across = 80 + 25 * torch.sin(0.3 * times) + 5 * torch.sin(1.3 * times)
        down = 80 + 12 * torch.sin(0.4 * times + 1.0)
        x = torch.arange(width) + across[:, None]
        y = (rows + down)[:, None].expand(-1, width)
        grid = torch.stack([2 * x / (wide - 1) - 1, 2 * y / (high - 1) - 1], -1)[None].float()
        yield F.grid_sample(picture[None], grid, align_corners=True)[0]


def dis_alone(greys: list[Luma]) -> float:
    """Seconds per frame for the searches there and back between neighbours, and nothing else."""
    started = time.perf_counter()
    for first, second in pairwise(greys):
        search("medium", first, second)
        search("medium", second, first)
    return (time.perf_counter() - started) / (len(greys) - 1)


def end_to_end(clip: Path, folder: Path) -> tuple[float, dict[str, float]]:
    """Seconds per frame from the file to the file, and of each kind of work (they overlap)."""
    started = time.perf_counter()
    result = correct_video(clip, folder / "out.mp4", gamma=GAMMA, preset="fast", device="cpu", overwrite=True)
    seconds = (time.perf_counter() - started) / result.frames
    return seconds, {work: spent / result.frames for work, spent in result.seconds_by_work.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="640x480", help="WIDTHxHEIGHT")
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clip", type=Path, help="a video to take instead")
    arguments = parser.parse_args()
    width, height = map(int, arguments.size.split("x"))
    with tempfile.TemporaryDirectory() as name:
        clip = arguments.clip or Path(name) / "in.mp4"
        if arguments.clip is None:
            write_video(clip, shaken_texture((height, width), arguments.frames), Fraction(30))
        greys: list[Luma] = [
            cv2.cvtColor((frame.permute(1, 2, 0).numpy() * 255).astype(np.uint8), cv2.COLOR_RGB2GRAY).astype(np.uint8)
            for frame in read_video(clip)
        ]
        alone, whole, works, busy_alone, busy_whole = [], [], [], [], []
        for _ in range(arguments.rounds):
            before = time.process_time()
            alone.append(dis_alone(greys))
            between = time.process_time()
            seconds, work = end_to_end(clip, Path(name))
            busy_alone.append((between - before) / len(greys))
            busy_whole.append((time.process_time() - between) / len(greys))
            whole.append(seconds)
            works.append(work)
    flows, total = statistics.median(alone), statistics.median(whole)
    size = f"{greys[0].shape[1]}x{greys[0].shape[0]}"
    print(f"{size}, {len(greys)} frames, {torch.get_num_threads()} torch and {cv2.getNumThreads()} OpenCV threads")
    print(f"two DIS flows alone     {1000 * flows:7.1f} ms per frame")
    print(f"decode to encode        {1000 * total:7.1f} ms per frame   {total / flows:.2f} x")
    cpu_alone, cpu_whole = statistics.median(busy_alone), statistics.median(busy_whole)
    print(
        f"processor time          {1000 * cpu_alone:7.1f} and {1000 * cpu_whole:.1f} ms   {cpu_whole / cpu_alone:.2f} x"
    )
    for kind in works[0]:
        spent = statistics.median(each[kind] for each in works)
        print(f"  {kind:<22}{1000 * spent:7.1f} ms per frame, overlapping")


if __name__ == "__main__":
    main()
