"""What a corrected frame costs on this machine: time, kernels, waits for the GPU and memory of the whole `Corrector`.

    python benchmarks/pipeline_speed.py [--device cuda] [--sizes 640x480 1920x1080] [--cases rsa2-lite rsa2 none]
        [--details] [--seconds 100]

Frames lie on the device. Times are medians over pairs of output frames in steady state (two frames share a camera
path), launches and kernels are counted by PyTorch's profiler. `--details` adds, for each case, the time of each stage,
the kernels that take longest, and the lines of code that wait for the GPU. On a CPU operators are counted as a GPU
would run them, without OpenCV, and no times are printed. A case that fails does not stop the others; the script ends
after `--seconds` at the latest.
"""

from __future__ import annotations

import argparse
import faulthandler
import statistics
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

from qrsc.backend import device as gpu
from qrsc.backend import opencv
from qrsc.backend.kernels import given_up, without_kernels
from qrsc.flow.raft_rs import encoder
from qrsc.names import parse_size
from qrsc.pipeline import Corrector
from qrsc.pipeline.corrected import Seconds
from qrsc.timing import Readout
from qrsc.warp import invert

GAMMA = 0.7
WARM_UP = 14  # output frames until every graph at the start of a clip and in the middle of it is recorded
TIMED, PROFILED = 24, 8
# Options of `Corrector`, besides the readout. Fields at half size are those of `qrsc correct`.
CASES: dict[str, dict[str, Any]] = {
    "rsa2-lite": {"fusion": "rsa2-lite", "field_scale": 0.5},
    "rsa2": {"fusion": "rsa2", "field_scale": 0.5},
    "none": {"fusion": "none", "field_scale": 0.5},
    "none-quadratic": {"fusion": "none", "motion": "quadratic", "field_scale": 1.0},
    "coherent": {"fusion": "coherent", "field_scale": 0.5},
    "rsa2-lite-full-fields": {"fusion": "rsa2-lite", "field_scale": 1.0},
}
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaGraphLaunch")
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
# Operators that a GPU executes without a kernel of their own, and those for which the CPU waits.
# fmt: off
VIEWS = frozenset([
    "view", "_unsafe_view", "reshape", "expand", "permute", "transpose", "t", "slice", "select", "unsqueeze", "squeeze",
    "split", "split_with_sizes", "unbind", "chunk", "narrow", "diagonal", "unfold", "as_strided", "alias", "detach",
    "detach_", "flatten", "unflatten", "movedim", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh",
])
WAITING = frozenset(["_local_scalar_dense", "item", "nonzero", "is_nonzero", "masked_select", "equal", "_unique2"])
# fmt: on


@dataclass
class Staged(Seconds):
    """The stages of a corrector by events on the GPU, and as ranges of the profiler."""

    events: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    current: list[str] = field(default_factory=list)
    on_gpu: bool = False

    @contextmanager
    def of(self, work: str) -> Iterator[None]:
        self.current.append(work)
        with super().of(work), record_function(f"stage {work}"):
            if self.on_gpu:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
            yield
            if self.on_gpu:
                end.record()
                self.events[work].append((start, end))
        self.current.pop()

    def milliseconds(self) -> dict[str, float]:
        """All events of each stage together; they must have happened."""
        return {work: sum(start.elapsed_time(end) for start, end in pairs) for work, pairs in self.events.items()}


@dataclass
class Measured:
    """Figures per output frame; None where the device has none."""

    milliseconds: float | None = None
    busy: float | None = None  # the same without waiting for each frame
    kernel_ms: float | None = None
    kernels: float | None = None
    launches: float | None = None
    waits: float | None = None
    memory: float | None = None  # GiB
    first: float | None = None  # seconds


def clip(size: tuple[int, int], count: int, device: torch.device) -> list[Tensor]:
    """Frames `[3, H, W]` of a texture that shakes and turns a little, as a rolling shutter sees it."""
    height, width = size
    generator = torch.Generator().manual_seed(0)
    picture = torch.zeros(1, 3, height, width)
    for octave in range(1, 8):
        coarse = torch.rand(1, 3, max(2, height >> octave), max(2, width >> octave), generator=generator) - 0.5
        picture += F.interpolate(coarse, size, mode="bilinear") * 0.9 ** (8 - octave)
    picture = (0.5 + 0.45 * picture / picture.abs().max()).to(device)
    y, x = torch.meshgrid(*(torch.linspace(-1, 1, side, device=device) for side in size), indexing="ij")
    frames = []
    for index in range(count):
        times = index + GAMMA * 0.5 * (y + 1.0)
        across = 0.03 * torch.sin(0.5 * times) + 0.006 * torch.sin(1.9 * times)
        down = 0.03 * torch.sin(0.7 * times + 1.0)
        turn = 0.01 * torch.sin(0.6 * times)
        grid = torch.stack([0.9 * (x - turn * y) + across, 0.9 * (y + turn * x) + down], -1)[None]
        frames.append(F.grid_sample(picture, grid, align_corners=True, padding_mode="border")[0])
    return frames


def back_and_forth(frames: list[Tensor]) -> Iterator[Tensor]:
    """An endless clip: the frames, then the same backwards, and so on."""
    while True:
        yield from frames[:-1]
        yield from frames[:0:-1]


# --- on a GPU ---


def on_gpu(case: dict[str, Any], size: tuple[int, int], device: torch.device, details: bool) -> Measured:
    """Measure a case, and print what it is made of if details are wanted."""
    found = Measured()
    frames = clip(size, 16, device)
    corrector = Corrector(Readout(GAMMA), **case)
    corrector.resolved(device)  # weights are loaded before the clock starts
    stages = corrector.seconds = Staged()
    _release()
    started = time.perf_counter()
    stream = corrector.stream(back_and_forth(frames))
    next(stream)
    torch.cuda.synchronize()
    found.first = time.perf_counter() - started
    _take(stream, WARM_UP)

    pairs = []
    for _ in range(TIMED // 2):
        started = time.perf_counter()
        for _ in range(2):
            next(stream)
            torch.cuda.synchronize()
        pairs.append(500.0 * (time.perf_counter() - started))
    found.milliseconds = statistics.median(pairs)
    started = time.perf_counter()
    _take(stream, TIMED)
    found.busy = 1e3 * (time.perf_counter() - started) / TIMED
    found.memory = torch.cuda.max_memory_allocated() / 2**30

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        _take(stream, PROFILED)
    events = list(profiler.events() or ())
    kernels = [each for each in events if each.device_type == DeviceType.CUDA and not each.name.startswith("stage ")]
    calls = Counter(each.name for each in events if each.device_type == DeviceType.CPU)
    found.kernels = len(kernels) / PROFILED
    found.kernel_ms = sum(each.time_range.elapsed_us() for each in kernels) / 1e3 / PROFILED
    found.launches = sum(count for name, count in calls.items() if name.startswith(LAUNCHES)) / PROFILED
    # The last wait of all is that of `_take`.
    found.waits = (sum(count for name, count in calls.items() if name.startswith(WAITS)) - 1) / PROFILED
    if details:
        _attempt(partial(_print_stages, stages, stream, profiler))
        _attempt(partial(_print_kernels, kernels, calls))
        _attempt(partial(_print_waits, stream))
    return found


def _take(stream: Iterator[Any], count: int) -> None:
    for _ in islice(stream, count):
        pass
    torch.cuda.synchronize()


def _release() -> None:
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def _print_stages(stages: Staged, stream: Iterator[Any], profiler: profile) -> None:
    """What passes on the GPU between the first and the last kernel of each stage; of that, its kernels."""
    stages.on_gpu = True
    started = time.perf_counter()
    _take(stream, PROFILED)
    whole = 1e3 * (time.perf_counter() - started)
    spent = stages.milliseconds()
    stages.on_gpu = False
    inside = {
        each.key.removeprefix("stage "): getattr(each, "device_time_total", getattr(each, "cuda_time_total", 0.0)) / 1e3
        for each in profiler.key_averages()
        if each.key.startswith("stage ") and each.device_type == DeviceType.CPU
    }
    print(f"    stages, ms per frame between first and last kernel (kernels alone); all {whole / PROFILED:.2f}")
    for work, milliseconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"      {work:10s} {milliseconds / PROFILED:7.2f}   ({inside.get(work, 0.0) / PROFILED:.2f})")
    print(f"      {'rest':10s} {(whole - sum(spent.values())) / PROFILED:7.2f}")


def _print_kernels(kernels: list[Any], calls: Counter[str]) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for each in kernels:
        times[each.name].append(each.time_range.elapsed_us())
    print("    kernels per frame: ms, count, name")
    for name, spent in sorted(times.items(), key=lambda item: -sum(item[1]))[:25]:
        print(f"      {sum(spent) / 1e3 / PROFILED:6.3f} {len(spent) / PROFILED:7.1f}  {_shortened(name)}")
    short = [each.time_range.elapsed_us() for each in kernels]
    few = sum(1 for each in short if each < 3.0)
    print(f"      {few / PROFILED:.0f} of {len(short) / PROFILED:.0f} take less than 3 us")
    print("    calls of the driver per frame: " + ", ".join(_runtime(calls)))


def _runtime(calls: Counter[str]) -> list[str]:
    wanted = [(name, count) for name, count in calls.most_common() if name.startswith((*LAUNCHES, *WAITS))]
    return [f"{name} {count / PROFILED:.1f}" for name, count in wanted]


def _shortened(name: str, most: int = 150) -> str:
    """The name of a kernel without namespaces, whose ends tell most."""
    for noise in ("at::native::", "void ", "(anonymous namespace)::", "c10::", "std::"):
        name = name.replace(noise, "")
    return name if len(name) <= most else f"{name[: most - 50]} ... {name[-45:]}"


def _print_waits(stream: Iterator[Any]) -> None:
    """The lines of code for which the CPU waits for the GPU, by PyTorch's own warnings."""
    places: Counter[str] = Counter()

    def note(*_: Any, **__: Any) -> None:
        places[_caller()] += 1

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with patch("warnings.showwarning", note):
            torch.cuda.set_sync_debug_mode("warn")
            try:
                for _ in islice(stream, PROFILED):
                    pass
            finally:
                torch.cuda.set_sync_debug_mode("default")
    print(f"    waits for the GPU per frame, according to PyTorch: {sum(places.values()) / PROFILED:.1f}")
    for place, count in places.most_common(20):
        print(f"      {count / PROFILED:5.1f}  {place}")


def _caller() -> str:
    """The innermost lines of the package that lead here."""
    own = [each for each in traceback.extract_stack() if "/qrsc/" in each.filename.replace("\\", "/")]
    told = [f"{each.filename.rsplit('/qrsc/', 1)[-1]}:{each.lineno} {each.name}" for each in own[-2:]]
    return " <- ".join(reversed(told)) or "outside the package"


# --- on a CPU ---


class Counted(TorchDispatchMode):
    """Counts the operators that run, by stage, and the places that wait for a value."""

    def __init__(self, stages: Staged) -> None:
        super().__init__()
        self.stages = stages
        self.operators: Counter[tuple[str, str]] = Counter()
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.operators[self.stages.current[-1] if self.stages.current else "rest", name] += 1
        if name in WAITING or (name in ("index", "index_put_") and _by_mask(args)):
            self.waits[_caller()] += 1
        return func(*args, **(kwargs or {}))


def _by_mask(args: tuple[Any, ...]) -> bool:
    return any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for each in args[1])


def on_cpu(case: dict[str, Any], size: tuple[int, int], device: torch.device, details: bool) -> Measured:
    """Count operators as a GPU would run them; those of one record count like all others."""
    corrector = Corrector(Readout(GAMMA), **({"flow": "raft-rs"} | case))
    stages = corrector.seconds = Staged()
    frames = 4
    as_on_gpu = patch.object(opencv, "supports", lambda *_: False), patch.object(gpu, "may_decide", lambda *_: False)
    with as_on_gpu[0], as_on_gpu[1], torch.inference_mode():
        stream = corrector.stream(back_and_forth(clip(size, 8, device)))
        for _ in range(6):
            next(stream)
        with Counted(stages) as counted:
            for _ in range(frames):
                next(stream)
    if details:
        by_stage: dict[str, Counter[str]] = defaultdict(Counter)
        for (stage, name), count in counted.operators.items():
            by_stage[stage][name] += count
        for stage, names in by_stage.items():
            common = ", ".join(f"{name} {count / frames:.0f}" for name, count in names.most_common(12))
            print(f"    {stage}: {sum(names.values()) / frames:.0f} ({common})")
        for place, count in counted.waits.most_common(25):
            print(f"    waits {count / frames:4.1f}  {place}")
    return Measured(launches=sum(counted.operators.values()) / frames, waits=sum(counted.waits.values()) / frames)


# --- the table ---

COLUMNS: dict[str, Callable[[Measured], float | None]] = {
    "ms": lambda found: found.milliseconds,
    "ms, no waiting": lambda found: found.busy,
    "ms of kernels": lambda found: found.kernel_ms,
    "kernels": lambda found: found.kernels,
    "launches": lambda found: found.launches,
    "waits": lambda found: found.waits,
    "GiB": lambda found: found.memory,
    "first output, s": lambda found: found.first,
}


def _attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception:  # of any kind: the other cases are measured all the same
        traceback.print_exc(limit=-6, file=sys.stdout)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--sizes", nargs="+", default=None, metavar="WxH")
    parser.add_argument("--cases", nargs="+", default=None, choices=CASES)
    parser.add_argument("--details", action="store_true")
    parser.add_argument("--seconds", type=float, default=100.0, help="end after this time")
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.seconds, exit=True)
    started, device = time.perf_counter(), torch.device(options.device)
    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if cuda else f"CPU, {torch.get_num_threads()} threads, operators only"
    print(f"torch {torch.__version__}, {name}, gamma {GAMMA}")
    sizes = options.sizes or (["640x480", "1920x1080"] if cuda else ["128x96"])
    cases = options.cases or (["rsa2-lite", "rsa2", "none", "coherent"] if cuda else ["rsa2-lite"])
    if cuda:
        torch.zeros(1, device=device)  # the driver starts
    rows = []
    for size in sizes:
        for case in cases:
            if time.perf_counter() - started > 0.85 * options.seconds:
                print(f"{size} {case}: left out, no time")
                continue
            print(f"{size} {case}", flush=True)
            with torch.inference_mode():
                measure = partial(on_gpu if cuda else on_cpu, CASES[case], parse_size(size), device, options.details)
                found = _attempt(measure)
                if found is None and cuda:
                    print("    once more, without the Triton kernels", flush=True)
                    case += ", without kernels"
                    older = patch.object(encoder, "TRITON", False), patch.object(invert, "TRITON", False)
                    with older[0], older[1], without_kernels():
                        found = _attempt(measure)
                if given_up():
                    print(f"    fallback: {given_up()}", flush=True)
            cells = ["failed"] * len(COLUMNS) if found is None else [_cell(of(found)) for of in COLUMNS.values()]
            rows.append(f"| {size} | {case} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    print(f"\n| size | case | {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * len(COLUMNS)}")
    print("\n".join(rows))
    faulthandler.cancel_dump_traceback_later()


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}" if value < 100.0 else f"{value:.0f}"


if __name__ == "__main__":
    main()
