"""Linear, quadratic and cubic motion on the fixed test sets, with exact flow and with an estimated one.

    python benchmarks/motion_orders.py [--scenes 1] [--size 320x240] [--at middle] [--device cpu] [--flow dis]
        [--json docs/figures/motion_orders.json] [--plot orders.svg]

This is the solver alone, without fusion. Every inner frame is corrected to the instant of its middle row (or another):
by the linear model from the flow to the next frame only, by the linear and the quadratic one from those to both
neighbours, by the cubic one with the frame after the next as well. With exact flows the remaining error is that of the
motion model between the frames. Estimated flows are weighted, regularised and, for the frame after the next, chained
as the Corrector does. EPE is the mean distance in pixels between the correction field and the true one, over the pixels
whose point is visible in the corrected frame and in both neighbours. PSNR compares the warped frame with the
global-shutter truth over the pixels of the truth that the rolling-shutter frame saw. Both are means over frames; a set
has 20 scenes, `--scenes` takes the first.

Frames are rendered on the device and never written. While one scene is rendered, threads estimate the flows of others.
`--json` keeps the figures with what they were made with; `benchmarks/results.py` puts those on its page.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import torch
from _provenance import made_with
from torch import Tensor

from qrsc.evaluate.metrics.image_quality import masked_psnr
from qrsc.evaluate.report.charts import bar_chart
from qrsc.flow import ConfidentFlows, FlowEstimator, FlowPair, load_flow
from qrsc.motion.consistency import chain_flows
from qrsc.motion.fill import fill_uncertain_flow
from qrsc.motion.trajectory import correction_field, fit_trajectory
from qrsc.pipeline import REGULARISATION
from qrsc.pipeline.align import trusted_flows
from qrsc.simulate.output.sets import FIXED_SETS, FRAMES, SCENES, set_textures, set_world
from qrsc.simulate.render import truth
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.render.surfaces import Scene
from qrsc.timing import INSTANTS, Instant, Readout
from qrsc.warp import backward_warp, fixed_point_inverse

# By name: to which frames the flows are given, and the order.
MODELS: dict[str, tuple[tuple[int, ...], int]] = {
    "linear, one side": ((1,), 1),
    "linear": ((-1, 1), 1),
    "quadratic": ((-1, 1), 2),
    "cubic": ((-1, 1, 2), 3),
}
EXACT = "exact"
INNER = range(1, FRAMES - 2)  # frames with a neighbour before and two after
Figures = dict[str, Any]  # "made", "scenes", "size", "at", and "rows", each with set, flow, model, frames, epe, psnr


@dataclass(frozen=True)
class Job:
    """A rendered scene whose flows are being estimated."""

    name: str
    scene: Scene
    readout: Readout
    frames: list[Tensor]  # [1, 3, H, W] each
    estimates: list[Future[FlowPair]]  # between consecutive frames


@torch.no_grad()
def jobs(
    sets: list[str], scenes: int, size: tuple[int, int], device: str, flow: FlowEstimator, pool: ThreadPoolExecutor
) -> Iterator[Job]:
    """Scenes in order; a few more than are asked for are rendered ahead."""
    textures = set_textures().to(device)
    waiting: deque[Job] = deque()
    for name in sets:
        for number in range(scenes):
            world, readout = set_world(name, number, textures=textures, size=size)
            frames = [render_rs(world.scene, readout, frame) for frame in range(FRAMES)]
            here = [frame.cpu() for frame in frames]
            estimates = [pool.submit(flow, a, b) for a, b in pairwise(here)]
            waiting.append(Job(name, world.scene, readout, frames, estimates))
            if len(waiting) > 4:
                yield waiting.popleft()
    yield from waiting


@torch.no_grad()
def score(job: Job, at: Instant, flow: str) -> list[Figures]:
    """The rows of all inner frames, models and flows; the rolling-shutter frame itself is the model `rs`."""
    between = [FlowPair(*(one.to(job.frames[0]) for one in future.result())) for future in job.estimates]
    trusted = [trusted_flows(ConfidentFlows(pair, None, None)) for pair in between]
    forward, backward = zip(*([fill_uncertain_flow(each) for each in pair] for pair in trusted), strict=True)
    rows = []
    for frame in INNER:
        onward = chain_flows(forward[frame][0], forward[frame + 1][0], forward[frame][1], forward[frame + 1][1])
        estimated = {-1: backward[frame - 1], 1: forward[frame], 2: onward}
        rows += _score_frame(job, frame, at, flow, estimated)
    return rows


def _score_frame(
    job: Job, frame: int, at: Instant, flow: str, estimated: Mapping[int, tuple[Tensor, Tensor]]
) -> list[Figures]:
    scene, readout, tau = job.scene, job.readout, job.readout.instant(at)
    flows, seen = {}, {}
    for step in (-1, 1, 2):
        flows[step], seen[step] = truth.rs_flow(scene, readout, frame, frame + step)
    exact, visible = truth.correction_field(scene, readout, frame, frame + tau)
    # A point that never lands in the frame after the next has no flow there, which the simulator gives as 0.
    known = seen[2] | (flows[2] != 0).any(1, keepdim=True)
    counted = (visible & seen[-1] & seen[1] & known).squeeze(1)
    target = render_gs(scene, frame + tau)
    _, asked = truth.distortion_field(scene, readout, frame, frame + tau)
    fields = {("none", "rs"): torch.zeros_like(exact)}
    for model, (steps, order) in MODELS.items():
        alone = fit_trajectory({step: flows[step] for step in steps}, readout, order=order)
        weighed = fit_trajectory(
            {step: estimated[step][0] for step in steps},
            readout,
            order=order,
            confidences={step: estimated[step][1] for step in steps},
            regularisation=REGULARISATION,
        )
        fields[EXACT, model] = correction_field(alone, readout, tau)
        fields[flow, model] = correction_field(weighed, readout, tau)
    rows = []
    for (source, model), field in fields.items():
        picture = backward_warp(job.frames[frame], fixed_point_inverse(field)[0]).image
        rows.append(
            {
                "set": job.name,
                "flow": source,
                "model": model,
                "epe": float((field - exact).norm(dim=1)[counted].mean()),
                "psnr": float(masked_psnr(picture, target, asked).mean()),
            }
        )
    return rows


def mean_figures(rows: list[Figures]) -> list[Figures]:
    """Means over the frames of each set, flow and model; a frame without a pixel to count is not counted."""
    groups: dict[tuple[str, str, str], list[Figures]] = {}
    for row in rows:
        groups.setdefault((row["set"], row["flow"], row["model"]), []).append(row)
    means = []
    for (name, flow, model), members in groups.items():
        values = torch.tensor([[row["epe"], row["psnr"]] for row in members], dtype=torch.float64).nanmean(0)
        epe, psnr = values.tolist()
        means.append({"set": name, "flow": flow, "model": model, "frames": len(members), "epe": epe, "psnr": psnr})
    return means


def measure(
    sets: list[str], scenes: int, size: tuple[int, int], at: Instant, device: str, flow: str, commit: str | None = None
) -> Figures:
    """All figures, with what they were made with."""
    rows: list[Figures] = []
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)  # one search to a core
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for job in jobs(sets, scenes, size, device, load_flow(flow), pool):
                rows += score(job, at, flow)
    finally:
        cv2.setNumThreads(threads)
    return {
        "made": made_with(device, commit),
        "scenes": scenes,
        "size": f"{size[1]}x{size[0]}",
        "at": at,
        "rows": mean_figures(rows),
    }


def table(figures: Figures) -> str:
    """The figures in Markdown, one line for a set and a figure."""
    columns = _columns(figures)
    heads = [("rs" if flow == "none" else f"{model}, {flow}") for flow, model in columns]
    lines = ["| set | figure | " + " | ".join(heads) + " |", "|---|---|" + "---:|" * len(columns)]
    for name in dict.fromkeys(row["set"] for row in figures["rows"]):
        value = {(row["flow"], row["model"]): row for row in figures["rows"] if row["set"] == name}
        for figure, label, places in (("epe", "EPE", 3), ("psnr", "PSNR", 2)):
            cells = [f"{value[column][figure]:.{places}f}" for column in columns]
            lines.append(f"| {name} | {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plots(figures: Figures) -> dict[str, str]:
    """SVG pictures of `epe` and `psnr`, both flows side by side."""
    scenes = figures["scenes"]
    caption = f"{figures['at']} row, {scenes} scene{'s' * (scenes > 1)} a set, {figures['size']}"
    titles = {
        "epe": "error of the correction field, px (lower is better)",
        "psnr": "PSNR over seen pixels, dB (higher is better)",
    }
    pictures = {}
    for figure, title in titles.items():
        groups: dict[str, dict[str, float]] = {}
        for flow, model in _columns(figures):
            for row in figures["rows"]:
                if (row["flow"], row["model"]) == (flow, model) and flow != "none" and model != "linear, one side":
                    groups.setdefault(row["set"], {})[f"{model}, {flow}"] = row[figure]
        pictures[figure] = bar_chart(title, groups, caption=caption)
    return pictures


def _columns(figures: Figures) -> list[tuple[str, str]]:
    """Flow and model of each column: the input, then all models of one flow after those of the other."""
    pairs = dict.fromkeys((row["flow"], row["model"]) for row in figures["rows"])
    flows = list(dict.fromkeys(flow for flow, _ in pairs))
    return sorted(pairs, key=lambda pair: flows.index(pair[0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(FIXED_SETS))
    parser.add_argument("--scenes", type=int, default=1, help=f"of each set, up to {SCENES}")
    parser.add_argument("--size", default="320x240", metavar="WxH")
    parser.add_argument("--at", choices=INSTANTS, default="middle", help="row whose instant is the target")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--flow", default="dis", help="the estimated one")
    parser.add_argument("--commit", help="to be recorded, where there is no repository to ask")
    parser.add_argument("--json", type=Path, help="keep the figures, too")
    parser.add_argument("--plot", type=Path, help="write pictures NAME_epe.svg and NAME_psnr.svg, too")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    sets = options.sets.split(",")
    figures = measure(sets, options.scenes, (height, width), options.at, options.device, options.flow, options.commit)
    print(f"{figures['made']}\n\n{table(figures)}")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        for name, picture in plots(figures).items():
            options.plot.with_name(f"{options.plot.stem}_{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
