"""What the fusion networks cost: parameters, operations, time and memory on this machine.

python benchmarks/fusion_speed.py [--sizes 640x480 1920x1088] [--device cuda] [--compiled] [--launched]
"""

from __future__ import annotations

import argparse
import time

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from qrsc.flow.raft_rs.network import parameter_count
from qrsc.fusion import AlignedFrames
from qrsc.fusion.networks import NetworkFusion, build_network
from qrsc.names import parse_size

REPEATS = 5


def aligned_frames(count: int, height: int, width: int, device: str) -> AlignedFrames:
    """Three frames of noise that look alike, most of their pixels valid."""
    generator = torch.Generator().manual_seed(0)
    picture = torch.rand(1, 1, 3, height, width, generator=generator)
    frames = (0.9 * picture + 0.1 * torch.rand(1, count, 3, height, width, generator=generator)).to(device)
    fields = 10.0 * torch.randn(1, count, 2, height, width, generator=generator).to(device)
    valid = (torch.rand(1, count, 1, height, width, generator=generator) > 0.1).to(device)
    distance = torch.rand(1, count, 1, height, width, generator=generator).to(device)
    return AlignedFrames(frames, fields, valid, distance, count // 2)


def operations(kind: str, count: int, height: int, width: int) -> float:
    """Floating-point operations of one frame, two for a multiplication with its addition; in 1e9."""
    with FakeTensorMode(), torch.no_grad():
        network, aligned = build_network(kind), aligned_frames(count, height, width, "cpu")
        with FlopCounterMode(display=False) as counted:
            network(aligned)
    total: float = counted.get_total_flops() / 1e9
    return total


def seconds(fusion: NetworkFusion, aligned: AlignedFrames) -> float:
    """The best of a few runs: other work on the machine only ever adds."""
    best = float("inf")
    for repeat in range(REPEATS + 2):
        _wait(aligned)
        start = time.perf_counter()
        fusion(aligned)
        _wait(aligned)
        if repeat > 1:  # the first one warms up, and on a GPU the second is recorded
            best = min(best, time.perf_counter() - start)
    return best


def _wait(aligned: AlignedFrames) -> None:
    if aligned.frames.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["640x480"], metavar="WxH")
    parser.add_argument("--frames", type=int, default=3, help="corrected frames that are fused")
    parser.add_argument("--networks", nargs="+", default=["rsa2-lite", "rsa2"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--launched", action="store_true", help="kernel by kernel, not as a recorded graph")
    options = parser.parse_args()
    print(f"torch {torch.__version__}, {options.device}, {torch.get_num_threads()} threads, T = {options.frames}\n")
    print("| network | parameters | size | GFLOP | ms | GiB |\n| --- | ---: | --- | ---: | ---: | ---: |")
    for kind in options.networks:
        network = build_network(kind)
        for size in options.sizes:
            height, width = parse_size(size)
            work = operations(kind, options.frames, -(-height // 16) * 16, -(-width // 16) * 16)
            fusion = NetworkFusion(network, tile=None, compiled=options.compiled, graphs=not options.launched)
            aligned = aligned_frames(options.frames, height, width, options.device)
            if aligned.frames.is_cuda:
                torch.cuda.reset_peak_memory_stats()
            time_taken = 1e3 * seconds(fusion, aligned)
            memory = f"{torch.cuda.max_memory_allocated() / 2**30:.2f}" if aligned.frames.is_cuda else "–"
            print(f"| {kind} | {parameter_count(network):,} | {size} | {work:.1f} | {time_taken:.1f} | {memory} |")


if __name__ == "__main__":
    main()
