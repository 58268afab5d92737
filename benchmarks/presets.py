"""The table to choose a preset by: time, memory and quality from a file to a file, as Markdown.

    python benchmarks/presets.py [--sizes 640x480 1920x1080] [--frames 24] [--presets fast denoise default best]
        [--device cpu] [--repeats 1]

The clip is the simulated street of `qrsc demo`, whose true frames are known; its readout is given. Each run has a
process of its own. Times are those of `qrsc correct` without its start, by the clock and of the processor; memory is
the largest that the process held, with PyTorch in it (Linux). Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _provenance import made_with
from torch import Tensor

from qrsc.evaluate.metrics.detail import detail
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.evaluate.metrics.st_lpips import st_lpips
from qrsc.media.mp4 import write_video
from qrsc.media.reader import read_video
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.demo_scene import demo_scene
from qrsc.timing import Readout
from qrsc.video.correct import correct_video

READOUT = Readout(0.6)
OPTIONS: dict[str, dict[str, Any]] = {
    "fast": {"preset": "fast"},
    "denoise": {"denoise": True},
    "default": {},
    "best": {"preset": "best"},
}


class Spent(NamedTuple):
    """By one run: milliseconds a frame by the clock and of the processor, and the largest memory in MB."""

    clock: float
    processor: float
    memory: float


def corrected(clip: Path, output: Path, options: dict[str, Any]) -> Spent:
    """Correct a clip, alone in a process."""
    started, used = time.perf_counter(), time.process_time()
    # Without loss, so that its quality is that of the correction.
    given = options | {"crf": 0, "verify": False, "overwrite": True}
    result = correct_video(clip, output, gamma=READOUT.gamma, **given)
    clock, processor = time.perf_counter() - started, time.process_time() - used
    # Not that of `getrusage`, which starts from that of the parent.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    memory = int(status["VmHWM"].split()[0]) / 1024
    return Spent(1000 * clock / result.frames, 1000 * processor / result.frames, memory)


def measured(clip: Path, output: Path, options: dict[str, Any], repeats: int) -> Spent:
    """The medians of some runs."""
    runs = []
    for _ in range(repeats):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            runs.append(alone.submit(corrected, clip, output, options).result())
    return Spent(*(statistics.median(values) for values in zip(*runs, strict=True)))


def quality(video: Path, truths: list[Tensor]) -> str:
    """Means of PSNR, ST-LPIPS and detail, as cells of a table."""
    figures = [
        (float(psnr(frame[None], truth)), float(st_lpips(frame[None], truth)), float(detail(frame[None], truth)))
        for frame, truth in zip(read_video(video), truths, strict=True)
    ]
    sharp, alike, fine = (statistics.fmean(values) for values in zip(*figures, strict=True))
    return f"{sharp:.2f} | {alike:.4f} | {fine:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["640x480", "1920x1080"], help="WIDTHxHEIGHT")
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--presets", nargs="+", choices=OPTIONS, default=list(OPTIONS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=1, help="runs, of which the median is given")
    arguments = parser.parse_args()
    print(made_with(arguments.device))
    print()
    print("| size | preset | ms a frame | of the processor | memory, MB | PSNR, dB | ST-LPIPS | detail |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for size in arguments.sizes:
        width, height = map(int, size.split("x"))
        scene = demo_scene((height, width), arguments.frames, 0)
        middle = READOUT.gamma * 0.5
        truths = [render_gs(scene, index + middle).cpu() for index in range(arguments.frames)]
        with tempfile.TemporaryDirectory() as name, torch.inference_mode():
            clip, output = Path(name) / "in.mp4", Path(name) / "out.mp4"
            write_video(clip, (render_rs(scene, READOUT, index)[0] for index in range(arguments.frames)), fps=30)
            print(f"| {size} | *(input)* | | | | {quality(clip, truths)} |", flush=True)
            for preset in arguments.presets:
                options = OPTIONS[preset] | {"device": arguments.device}
                spent = measured(clip, output, options, arguments.repeats)
                times = f"{spent.clock:.0f} | {spent.processor:.0f} | {spent.memory:.0f}"
                print(f"| {size} | `{preset}` | {times} | {quality(output, truths)} |", flush=True)


if __name__ == "__main__":
    main()
