"""Throughput and memory of the simulator: training pairs per second, with the true flows in both directions.

    python benchmarks/simulator_throughput.py [--device cuda] [--size 512x384] [--batches 1 4 16] [--frames 2]

A pair is two neighbouring rolling-shutter frames of a random world with the exact flows between them and their
visibility. Clips of more than two frames share frames between pairs. "worlds" is the share of the time that drawing the
worlds takes, on the CPU. Textures are painted once and not counted. Peak memory is that of the CUDA allocator, or of
the whole process on a CPU. `--training-step` (seconds per batch, from the training log of the flow network) adds the
ratio of the rendering time to it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass

import torch

from qrsc.learn.flow.pairs import render_pairs
from qrsc.simulate.camera.styles import MIXED
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import Readout


@dataclass(frozen=True)
class Figures:
    pairs_per_second: float
    worlds_share: float
    peak_mebibytes: float


def measure(
    textures: TextureLibrary, size: tuple[int, int], batch: int, frames: int, seconds: float, device: torch.device
) -> Figures:
    """Render batches for some seconds, after one that warms up."""
    generator = torch.Generator().manual_seed(1)
    readout = Readout(0.8)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    pairs, drawing, started = 0, 0.0, 0.0
    for number in range(1_000_000):
        begun = time.perf_counter()
        if number == 1:
            started = begun
        if number > 1 and begun - started > seconds:
            break
        world = sample_scenes(batch, size, MIXED, generator, textures=textures, frames=frames)
        _synchronise(device)
        drawn = time.perf_counter()
        rendered = render_pairs(world.scene, readout, range(frames))
        _synchronise(device)
        if number > 0:
            pairs += len(rendered)
            drawing += drawn - begun
    elapsed = time.perf_counter() - started
    return Figures(pairs / elapsed, drawing / elapsed, _peak(device))


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _peak(device: torch.device) -> float:
    """The most memory used so far, in MiB; NaN where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "win32":
        return float("nan")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--size", default="512x384", metavar="WxH")
    parser.add_argument("--batches", type=int, nargs="+", help="worlds at once")
    parser.add_argument("--frames", type=int, default=2, help="of each world")
    parser.add_argument("--seconds", type=float, default=8.0, help="for each batch size")
    parser.add_argument("--training-step", type=float, metavar="S", help="of the flow network, for the ratio")
    parser.add_argument("--training-pairs", type=int, default=8, help="pairs in such a step")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}, {options.size}, {options.frames} frames a world, flow both ways with visibility")
    textures = texture_library(torch.Generator().manual_seed(0)).to(device)
    batches = options.batches or ([4, 16, 32] if device.type == "cuda" else [1, 2])
    ratio = options.training_step is not None
    print("| worlds | pairs/s | drawing worlds | peak MiB |" + (" rendering / training step |" if ratio else ""))
    print("|---|---|---|---|" + ("---|" if ratio else ""))
    for batch in batches:
        figures = measure(textures, (height, width), batch, options.frames, options.seconds, device)
        row = (
            f"| {batch} | {figures.pairs_per_second:.1f} | {100 * figures.worlds_share:.0f} % | "
            f"{figures.peak_mebibytes:.0f} |"
        )
        if ratio:
            row += f" {options.training_pairs / figures.pairs_per_second / options.training_step:.2f} |"
        print(row, flush=True)


if __name__ == "__main__":
    main()
