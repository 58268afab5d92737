"""What a training step of each baseline takes on a GPU, launched kernel by kernel and recorded as a CUDA graph.

    python benchmarks/training_speed.py [--networks dsun,rssr] [--batch 8] [--size 256x320] [--steps 12] [--device cuda]

Samples are random and nothing is rendered; the network of the feature loss has its size and random weights. Each
network is trained three times from the same start on the same batches: kernel by kernel twice, and recorded. Sums on a
GPU differ in their last bits from run to run, so the losses of the recorded run should be as far from the first as the
second is. At the end all networks take steps together, as in `qrsc train baseline`, and a line says where time goes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from qrsc.baselines.learned.networks import NETWORKS, build_baseline, named_networks
from qrsc.baselines.training.features import SharedFeatures
from qrsc.baselines.training.learner import Learner
from qrsc.baselines.training.one_batch import StepsOnOneBatch
from qrsc.baselines.training.samples import WindowPool, WindowSamples
from qrsc.learn.fusion.perceptual import TAPS
from qrsc.learn.fusion.shift_tolerant import STAGES, Trunk
from qrsc.learn.trainer.recorded_step import WARM_UP
from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.step_clock import StepClock
from qrsc.names import parse_size

CHANNELS = (64, 128, 256)  # of VGG-16


def random_trunk() -> Trunk:
    """The network of the feature loss with random weights."""
    generator = torch.Generator().manual_seed(0)
    weights = {"scaling_layer.shift": torch.zeros(1, 3, 1, 1), "scaling_layer.scale": torch.ones(1, 3, 1, 1)}
    before = 3
    for number, (stage, after) in enumerate(zip(STAGES["vgg"][:TAPS], CHANNELS, strict=True)):
        for layer in stage.convolutions:
            kernel = torch.randn(after, before, 3, 3, generator=generator) * (2.0 / (9 * before)) ** 0.5
            weights[f"net.slice{number + 1}.{layer}.weight"] = kernel
            weights[f"net.slice{number + 1}.{layer}.bias"] = torch.zeros(after)
            before = after
        weights[f"lin{number}.model.1.weight"] = torch.rand(1, after, 1, 1, generator=generator)
    return Trunk("vgg", weights, TAPS)


def random_samples(count: int, size: tuple[int, int], device: torch.device, seed: int) -> WindowSamples:
    """Smooth random pictures, and flows of a few pixels."""
    generator = torch.Generator(device).manual_seed(seed)

    def smooth(*shape: int) -> Tensor:
        coarse = torch.rand(count, *shape, size[0] // 8, size[1] // 8, generator=generator, device=device)
        flat = torch.nn.functional.interpolate(coarse.flatten(0, -3)[None], scale_factor=8.0, mode="bilinear")
        return flat[0].reshape(count, *shape, *size)

    gamma = 0.25 + 0.75 * torch.rand(count, generator=generator, device=device)
    return WindowSamples(smooth(3, 3), 20.0 * smooth(2, 2) - 10.0, gamma, smooth(3), smooth(3), smooth(3))


def learner_of(name: str, device: torch.device) -> Learner:
    """A learner that starts the same every time."""
    torch.manual_seed(0)
    network = build_baseline(name).to(device).train()
    return Learner(name, network, Schedule(steps=1000, peak=network.peak), clip=5.0, decay=0.999)


def waited(device: torch.device) -> float:
    """The time, once the device has done everything."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Run:
    """Steps of one network: its losses, its time a step in ms, and why it could not be recorded."""

    def __init__(
        self, name: str, features: SharedFeatures, batches: Sequence[WindowSamples], *, recorded: bool
    ) -> None:
        device = batches[0].gamma.device
        learner = learner_of(name, device)
        steps = StepsOnOneBatch([learner], features, device, mixed=device.type == "cuda", recorded=recorded)
        losses = []
        started = 0.0
        for number, batch in enumerate(batches):
            if number == WARM_UP + 1:
                started = waited(device)
            learner.prepare(0.5)
            losses.append(steps(batch)[name][0].clone())
        self.milliseconds = 1000.0 * (waited(device) - started) / (len(batches) - WARM_UP - 1)
        self.losses = torch.stack(losses)
        self.skipped, self.fallbacks = learner.skipped, dict(steps.fallbacks())

    def apart(self, other: Run) -> float:
        """The largest relative difference of their losses."""
        return float(((self.losses - other.losses) / other.losses).abs().max())


def together(
    names: Sequence[str], features: SharedFeatures, batch: int, size: tuple[int, int], steps: int, *, recorded: bool
) -> str:
    """All networks on batches from a pool: milliseconds a step, and where they go."""
    device = features.trunk.shift.device
    learners = [learner_of(name, device) for name in names]
    whole = StepsOnOneBatch(learners, features, device, mixed=device.type == "cuda", recorded=recorded)
    clock = StepClock(device, skip=WARM_UP + 1, steps=steps)
    given = random_samples(4 * batch, (size[0], size[1] + 64), device, 0)
    told = None
    with WindowPool(lambda _: given, capacity=4 * batch, device=device, uses=1e9) as pool:
        pool.crop = size[1]
        started = 0.0
        for number in range(WARM_UP + 1 + steps):
            if number == WARM_UP + 1:
                started = waited(device)
            clock.start()
            samples = pool.draw(batch)
            clock.lap("samples")
            for learner in learners:
                learner.prepare(0.5)
            whole(samples, clock.lap)
            told = clock.finish() or told
        spent = 1000.0 * (waited(device) - started) / steps
    return f"{spent:.1f} ms a step; {told}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="all", help=f"comma-separated: {', '.join(NETWORKS)}, or all")
    parser.add_argument("--batch", type=int, help="8; 1 on a CPU")
    parser.add_argument("--size", metavar="WxH", help="256x320; 64x64 on a CPU")
    parser.add_argument("--steps", type=int, default=12, help="measured, after those that warm up")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    batch = options.batch or (8 if on_gpu else 1)
    shown = options.size or ("256x320" if on_gpu else "64x64")
    names, size = named_networks(options.networks), parse_size(shown)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    what = torch.cuda.get_device_name(device) if on_gpu else "CPU, where nothing is recorded"
    print(f"torch {torch.__version__}, {what}, batch {batch}, {shown}, {options.steps} steps\n")
    features = SharedFeatures(random_trunk()).arranged(device)
    batches = [random_samples(batch, size, device, seed) for seed in range(WARM_UP + 1 + options.steps)]
    print("| network | launched, ms | recorded, ms | losses apart, recorded | launched twice | left out | GiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    told = []
    for name in names:
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        plain, again, graph = (Run(name, features, batches, recorded=each and on_gpu) for each in (False, False, True))
        memory = f"{torch.cuda.max_memory_allocated(device) / 2**30:.1f}" if on_gpu else "–"
        print(
            f"| {name} | {min(plain.milliseconds, again.milliseconds):.1f} | {graph.milliseconds:.1f} | "
            f"{graph.apart(plain):.1e} | {again.apart(plain):.1e} | {graph.skipped} | {memory} |",
            flush=True,
        )
        told += [f"{name}: {part}: {reason}" for part, reason in graph.fallbacks.items()]
    print("\n" + "\n".join(told or ["everything was recorded" if on_gpu else "nothing was recorded"]))
    for recorded in (False, True) if on_gpu else (False,):
        way = "recorded" if recorded else "launched"
        told_all = together(names, features, batch, size, options.steps, recorded=recorded)
        print(f"\nall together, {way}: {told_all}")


if __name__ == "__main__":
    main()
