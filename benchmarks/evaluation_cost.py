"""What scoring costs: rs, linear and qrs from flows on disk, PSNR and SSIM, against a loop that only reads the PNGs.

    python benchmarks/evaluation_cost.py [ROOT] [--layout fastec] [--threads 2] [--frames 8]

Without ROOT, a clip of 640x480 is rendered with the noise of a camera (PNGs of smooth pictures would decode too fast).
The loop reads the rolling-shutter frame and the truth of every frame with `read_frame`, as scoring does; decoding alone
is timed as well. All are measured in one run, in turns, and the ratio is the median over the turns: on a machine with
other work to do, single turns vary a lot. The profile is of one thread, and its parts add up to more than the wall time
of two.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import torch

from qrsc.data.dataset import index_data
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.media.image_folder import read_frame
from qrsc.simulate.output.writers import write_sequence
from qrsc.simulate.render.clip import ClipFrame
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout

SIZE = (480, 640)
NOISE = 0.01
TURNS = 7
PARTS = {
    "reading frames": "read_frame",
    "loading flows": "filled",
    "trajectories": "fit_trajectory",
    "inverting fields": "fixed_point_inverse",
    "warping": "read_anywhere",
    "SSIM": "structural_similarity",
    "PSNR": "psnr",
    "rounding to 8 bits": "to_levels",
}


def render(folder: Path, frames: int) -> None:
    """A noisy clip in the layout of Fastec-RS."""
    readout = Readout(1.0)
    scene = demo_scene(SIZE, frames, 0)
    generator = torch.Generator().manual_seed(0)
    clip = []
    for number in range(frames):
        pictures = {
            "rolling": render_rs(scene, readout, number)[0],
            "middle": render_gs(scene, number + readout.instant("middle"))[0],
        }
        noisy = {kind: p + NOISE * torch.randn(p.shape, generator=generator) for kind, p in pictures.items()}
        clip.append(ClipFrame(number, noisy))
    write_sequence(folder / "test" / "clip", "fastec", clip, readout)


def timed(task: Callable[[], object]) -> float:
    start = time.perf_counter()
    task()
    return time.perf_counter() - start


def profile(plan: Plan) -> dict[str, float]:
    """Seconds of processor time in each part, on one thread and with reading and measuring in the same one."""
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    profiler = cProfile.Profile(time.process_time)
    with _one_thread():
        profiler.runcall(evaluate, plan)
    times = {name: values[3] for (_, _, name), values in pstats.Stats(profiler).stats.items()}
    return {part: times.get(name, 0.0) for part, name in PARTS.items()} | {"all": times["evaluate"]}


class _one_thread:
    """Run what the evaluation gives to other threads immediately, where a profiler sees it."""

    def __enter__(self) -> None:
        import qrsc.evaluate.run.plan as run

        self._pool = run.ThreadPoolExecutor
        run.ThreadPoolExecutor = _Immediate  # type: ignore[assignment, misc]  # replaced to profile

    def __exit__(self, *_: object) -> None:
        import qrsc.evaluate.run.plan as run

        run.ThreadPoolExecutor = self._pool  # type: ignore[misc]  # put back


class _Immediate:
    def __init__(self, workers: int) -> None:
        pass

    def __enter__(self) -> _Immediate:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, task: Callable[..., object], *arguments: object, **options: object) -> object:
        class Done:
            value = task(*arguments, **options)

            def result(self) -> object:
                return self.value

        return Done()


def measure(sequences: list[SequenceFiles], flows: Path, threads: int) -> None:
    paths = [frame.files[kind] for s in sequences for frame in s.frames for kind in ("rolling", "middle")]
    frames = len(paths) // 2
    plan = Plan(
        "clip", sequences, methods=("rs", "linear", "qrs"), metrics=("psnr", "ssim"), flow="dis", flow_folder=flows
    )
    evaluate(plan)  # fills the folder of flows
    torch.set_num_threads(threads)
    cv2.setNumThreads(threads)
    tasks: tuple[Callable[[], object], ...] = (
        lambda: [cv2.imread(str(path)) for path in paths],
        lambda: [read_frame(path) for path in paths],
        lambda: evaluate(plan),
    )
    turns = [[timed(task) for task in tasks] for _ in range(TURNS)]
    decoding, reading, scoring = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(turn[2] / turn[1] for turn in turns)
    print(f"{frames} frames, {len(paths)} PNGs, {threads} threads, median of {TURNS} turns; ms a frame:")
    print(f"decoding alone  {1e3 * decoding / frames:8.1f}")
    print(f"reading         {1e3 * reading / frames:8.1f}")
    print(f"scoring         {1e3 * scoring / frames:8.1f}   {ratio:.1f} x reading")
    parts = profile(plan)
    rest = parts["all"] - sum(seconds for part, seconds in parts.items() if part != "all")
    print("profile, one thread, ms a frame:")
    for part, seconds in [*parts.items(), ("the rest", rest)]:
        print(f"  {part:20s} {1e3 * seconds / frames:8.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?")
    parser.add_argument("--layout", default="fastec")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--frames", type=int, default=8, help="of the rendered clip")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        root = options.root
        if root is None:
            root = Path(work) / "data"
            render(root, options.frames)
        measure(index_data(root, options.layout), Path(work) / "flows", options.threads)


if __name__ == "__main__":
    main()
