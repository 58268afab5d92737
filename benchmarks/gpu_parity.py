"""Whether the ways that are fast on a GPU give what the plain ones give, and what each of them takes there.

    python benchmarks/gpu_parity.py [--size 640x480] [--seconds 100]

Compares our kernels, frames encoded once, and recorded steps with PyTorch's operators called one by one, and tries what
else a CUDA graph could hold on this machine. Each check stands alone: one that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import faulthandler
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from pipeline_speed import GAMMA, clip
from torch import Tensor

from qrsc.backend.kernels import without_kernels
from qrsc.flow.raft_rs import encoder as encoders
from qrsc.flow.raft_rs.estimator import NeuralFlow, load_network
from qrsc.fusion.coherent import CoherentFusion
from qrsc.fusion.networks import NetworkFusion, shipped_fusion
from qrsc.fusion.networks import load_network as load_fusion_network
from qrsc.names import parse_size
from qrsc.pipeline import Corrector, TimedFrame, warping
from qrsc.pipeline.align import uncorrected
from qrsc.pipeline.recorded import Steps
from qrsc.timing import Readout
from qrsc.warp import invert, invert_field

CUDA = torch.device("cuda")
COUNT = 12


def microseconds(work: Callable[[], Any], repeats: int = 20) -> float:
    """Time of one call among many in one CUDA graph, or one after another where it cannot be recorded."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(repeats):
                work()
        run = graph.replay
    except Exception as error:  # told, and measured without
        print(f"      not recorded: {str(error).splitlines()[0]}")
        torch.cuda.synchronize()
        run = lambda: [work() for _ in range(repeats)]  # noqa: E731  # in the place of a method
    run()
    torch.cuda.synchronize()
    started = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started) / repeats


def decibels(found: Tensor, expected: Tensor) -> float:
    error = float((found - expected).double().square().mean())
    return math.inf if error == 0.0 else -10.0 * math.log10(error)


def normalisation(size: tuple[int, int]) -> None:
    """Group normalisation: kernels against PyTorch."""
    for channels, factor in ((48, 2), (80, 4), (144, 8), (192, 16)):
        shape = (1, channels, size[0] // factor, size[1] // factor)
        features, skip = (
            torch.randn(shape, device=CUDA, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
            for _ in range(2)
        )
        bias, weight, shift = (torch.randn(channels, device=CUDA) for _ in range(3))
        given = (features, bias, channels // 16, weight, shift, 1e-5, skip)
        found, expected = encoders._normalised(*given), encoders.plainly_normalised(*given)
        away = float((found.float() - expected.float()).abs().max())
        quick, slow = (microseconds(partial(of, *given)) for of in (encoders._normalised, encoders.plainly_normalised))
        print(f"    {shape}: off by at most {away:.3f}; {quick:.1f} us, PyTorch {slow:.1f} us")


def inversion(size: tuple[int, int]) -> None:
    """Inversion and cleaning of three fields at half size: kernels against PyTorch."""
    half = (size[0] // 2, size[1] // 2)
    coarse = 6.0 * torch.randn(3, 2, 5, 6, generator=torch.Generator().manual_seed(0))
    fields = F.interpolate(coarse, size=half, mode="bicubic").to(CUDA)
    fields[:, 0, 40:90, 60:120] += 5.0  # another surface

    def whole() -> tuple[Tensor, Tensor]:
        return warping._cleaned(*invert_field(fields))

    found, valid = whole()
    quick = microseconds(whole)
    with patch.object(invert, "TRITON", False):
        expected, shown = whole()
        slow = microseconds(whole)
    off = ((found - expected).abs().amax(1, keepdim=True) > 1e-2) | (valid != shown)
    print(f"    {float(off.float().mean()):.2%} differ, {float(valid.float().mean()):.0%} valid")
    alone = microseconds(partial(invert_field, fields))
    print(f"    {quick:.1f} us, PyTorch {slow:.1f} us; inversion alone {alone:.1f} us")


def flows(size: tuple[int, int]) -> None:
    """Flow of frames encoded once, against both frames of a pair together with PyTorch's normalisation."""
    first, second = (frame[None] for frame in clip(size, 2, CUDA))
    network = load_network("raft-rs")
    quick, recorded = (NeuralFlow(network, filled=True, graphs=graphs) for graphs in (False, True))
    found = quick.confident(first, second)
    for _ in range(3):
        again = recorded.confident(first, second)
    print(f"    recorded and not: {float((again.flows.forward - found.flows.forward).abs().max()):.4f} px at most")
    with patch.object(encoders, "TRITON", False), torch.inference_mode():
        expected = quick._found(first, second)
    away = (found.flows.forward - expected[:1, :2]).abs()
    print(f"    once and by pairs: {float(away.mean()):.4f} px on average, {float(away.max()):.2f} at most")
    sure = (found.forward_confidence - expected[:1, 2:]).abs()
    print(f"    confidence: {float(sure.mean()):.4f} on average")
    encoded = recorded.encoded(first), recorded.encoded(second)
    for name, work in (
        ("a frame", lambda: recorded.encoded(second)),
        ("a pair", lambda: recorded.between(*encoded)),
    ):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(20):
            work()
        torch.cuda.synchronize()
        print(f"    {name}: {50.0 * (time.perf_counter() - started):.2f} ms")


def kernels(size: tuple[int, int]) -> None:
    """Everything with our newer kernels, against the same without: flow, motion, warp and fusion, on one clip."""
    first, second, third = (frame[None] for frame in clip(size, 3, CUDA))
    network = load_network("raft-rs")

    def flow() -> Tensor:
        estimator = NeuralFlow(network, filled=True, graphs=False)
        found = estimator.confident(first, second)
        print(f"      fallback {estimator.fallback}")
        return torch.cat([found.flows.forward, found.forward_confidence], 1)

    quick = flow()
    with without_kernels():
        slow = flow()
    away = (quick - slow).abs()
    print(
        f"    flow: {float(away[:, :2].mean()):.4f} px on average, {float(away[:, :2].max()):.3f} at most", flush=True
    )
    print(f"    confidence: {float(away[:, 2:].mean()):.4f} on average")
    frames = torch.stack([first, second, third], 1)
    aligned = uncorrected(frames, [0.0, 1.0, 2.0], 1, 0.35, Readout(GAMMA))
    for name in ("rsa2-lite", "rsa2", "coherent"):
        results = []
        for recorded in (False, True):
            fusion: Any = CoherentFusion()
            if name != "coherent":
                interpolation = shipped_fusion(name).interpolation
                made = load_fusion_network(name)
                fusion = NetworkFusion(made, interpolation=interpolation, graphs=recorded)
            results.append([fusion(aligned).image for _ in range(3)][-1])
            if name != "coherent":
                print(f"      fallback {fusion.fallback}")
        with without_kernels():
            expected = fusion(aligned).image if name == "coherent" else NetworkFusion(made, graphs=False)(aligned).image
        for each in results:
            print(f"    {name}: {decibels(each, expected):.1f} dB from the same without kernels", flush=True)


def slow_motion(size: tuple[int, int]) -> None:
    """What an input frame costs at eight instants and at one."""
    frames = clip(size, COUNT, CUDA)
    for fusion in ("rsa2-lite", "none"):
        corrector = Corrector(Readout(GAMMA), fusion=fusion, field_scale=0.5)
        spent = {}
        for count in (1, 8):
            for _ in range(2):  # the second time everything is recorded
                torch.cuda.synchronize()
                started = time.perf_counter()
                made = sum(
                    1 for _ in corrector.between((TimedFrame(frame, float(i)) for i, frame in enumerate(frames)), count)
                )
                torch.cuda.synchronize()
                spent[count] = 1e3 * (time.perf_counter() - started) / COUNT
            print(f"    {fusion} x {count}: {spent[count]:.1f} ms per input frame, {made} pictures", flush=True)
        print(f"    {fusion}: {spent[8] / spent[1]:.2f} times as long")


def steps(size: tuple[int, int]) -> None:
    """Whole clips: recorded against launched one by one."""
    frames = torch.stack(clip(size, COUNT, CUDA))
    results = []
    for recording in (False, True, True):
        flow = NeuralFlow(load_network("raft-rs"), filled=True, graphs=recording)
        fusion: Any = shipped_fusion("rsa2-lite")
        fusion = NetworkFusion(load_fusion_network("rsa2-lite"), interpolation=fusion.interpolation, graphs=recording)
        corrector = Corrector(Readout(GAMMA), flow=flow, fusion=fusion, field_scale=0.5)
        corrector._steps = Steps(graphs=recording)
        results.append(corrector(frames))
        told = {each.fallback for each in corrector.stream(frames)}
        print(f"    recorded {recording}: fallbacks {told}")
    for each in results[1:]:
        print(f"    recorded against launched: {decibels(each, results[0]):.1f} dB")
    print(f"    correction itself: {decibels(results[0], frames):.1f} dB from the input")


def captured(size: tuple[int, int]) -> None:
    """What a graph can hold here, by what it takes."""
    matrix = torch.randn(1, 137, 137, dtype=torch.float64, device=CUDA)
    matrix = matrix @ matrix.mT + 137.0 * torch.eye(137, dtype=torch.float64, device=CUDA)
    right = torch.randn(1, 137, dtype=torch.float64, device=CUDA)
    values = torch.randn(3, 2, 240, 320, device=CUDA)
    features = torch.randn(2, 128, 60, 80, device=CUDA, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    kernel = torch.randn(128, 128, 3, 3, device=CUDA, dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    bias = torch.randn(128, device=CUDA, dtype=torch.bfloat16)
    small, one = matrix.float(), [1, 1]
    tries: dict[str, Callable[[], Any]] = {
        "solve_ex, float64": lambda: torch.linalg.solve_ex(matrix, right),
        "solve_ex, float32": lambda: torch.linalg.solve_ex(small, right.float()),
        "cholesky_ex, float64": lambda: torch.linalg.cholesky_ex(matrix),
        "cholesky_ex and cholesky_solve": lambda: torch.cholesky_solve(
            right.unsqueeze(-1), torch.linalg.cholesky_ex(matrix).L
        ),
        "inv_ex, float64": lambda: torch.linalg.inv_ex(matrix),
        "median of 25 of [3, 2, 240, 320]": lambda: F.unfold(values.reshape(6, 1, 240, 320), 5).median(1),
        "nanmedian of 2304": lambda: values.flatten()[:2304].reshape(1, -1).nanmedian(-1),
        "conv 128 x 128, 60 x 80": lambda: F.conv2d(features, kernel, None, padding=1),
        "conv, bias, relu": lambda: F.relu(F.conv2d(features, kernel, bias, padding=1)),
        "cudnn_convolution_relu": lambda: torch.cudnn_convolution_relu(features, kernel, bias, one, one, one, 1),
        "an empty kernel": lambda: bias.add_(0.0),
    }
    for name, work in tries.items():
        _attempt(lambda name=name, work=work: print(f"    {name}: {microseconds(work):.1f} us"))


def _attempt(work: Callable[[], Any]) -> None:
    try:
        work()
    except Exception:  # of any kind: the other checks are made all the same
        traceback.print_exc(limit=-8, file=sys.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="640x480")
    parser.add_argument("--checks", nargs="+", default=["kernels", "flows", "steps", "slow_motion"])
    parser.add_argument("--seconds", type=float, default=100.0, help="end after this time")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("this needs a CUDA device: nothing is checked.")
        return
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    checks: Iterable[Callable[[tuple[int, int]], None]] = (globals()[name] for name in options.checks)
    for check in checks:
        print(f"{check.__doc__} ({time.strftime('%H:%M:%S')})", flush=True)
        _attempt(lambda check=check: check(parse_size(options.size)))
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main()
