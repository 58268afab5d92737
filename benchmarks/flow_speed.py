"""Time, arithmetic and memory of the flow network: both flows of a pair.

    python benchmarks/flow_speed.py [--device cuda] [--size 640x480] [--compile] [--repeats 30]

The network runs as `raft-rs` does on the device: at the device's scale, initialised from half the size, with unsure
flows filled. The time is the median over pairs of random frames; that of DIS on the CPU is printed for comparison.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from qrsc.flow import FlowEstimator, load_flow
from qrsc.flow.raft_rs.estimator import NeuralFlow, load_network, suitable_scale
from qrsc.flow.raft_rs.network import parameter_count


def milliseconds(estimator: FlowEstimator, frames: torch.Tensor, repeats: int) -> float:
    """Median time of both flows, after a few calls that warm up."""
    times = []
    for number in range(repeats + 4):
        _wait(frames.device)
        started = time.perf_counter()
        estimator(frames[:1], frames[1:])
        _wait(frames.device)
        if number >= 4:
            times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="640x480")
    parser.add_argument("--compile", action="store_true", help="also with torch.compile")
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    frames = torch.rand(2, 3, height, width, generator=torch.Generator().manual_seed(0)).to(options.device)
    network = load_network("raft-rs")
    plain = NeuralFlow(network, filled=True, graphs=False)
    name = torch.cuda.get_device_name() if options.device == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(
        f"{name}, {options.size}, scale {suitable_scale(frames):.2f}, {parameter_count(network) / 1e6:.2f} M parameters"
    )
    with FlopCounterMode(display=False) as counter:
        plain(frames[:1], frames[1:])
    print(f"arithmetic of both flows: {counter.get_total_flops() / 1e9:.0f} GFLOP")
    print(f"raft-rs: {milliseconds(plain, frames, options.repeats):.2f} ms", flush=True)
    if options.device == "cuda":
        recorded = NeuralFlow(network, filled=True, graphs=True)
        print(f"raft-rs, recorded: {milliseconds(recorded, frames, options.repeats):.2f} ms", flush=True)
    if options.compile:
        compiled = NeuralFlow(network, filled=True, compiled=True, graphs=False)
        print(f"raft-rs, compiled: {milliseconds(compiled, frames, options.repeats):.2f} ms", flush=True)
    if options.device == "cuda":
        print(f"peak memory: {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
    print(f"dis on the processor: {milliseconds(load_flow('dis'), frames.cpu(), options.repeats):.1f} ms")


if __name__ == "__main__":
    main()
