"""Write docs/results.md: every method on the fixed test sets and, where QRSC_REAL names them, on real samples.

    python benchmarks/results.py [--scenes 20] [--size 640x480] [--methods ...] [--flows dis] [--output docs/results.md]

A new method or flow is added to the page by its name in --methods or --flows. The page says what it was made with; the
charts go to images/ beside it. Sets of another size than 640x480 show the same worlds and are rendered into the cache
folder as well; scenes that exist are not rendered again. The comparison of motion orders is taken from
figures/motion_orders.json beside the page where there is one (by `benchmarks/motion_orders.py --json`, perhaps made on
another machine; it says on which), and computed otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import torch
from _provenance import ROOT, made_with
from motion_orders import Figures, measure, plots, table

from qrsc.data.dataset import TruthInstant, index_data, load_frame, split_at_gaps
from qrsc.data.layouts import LayoutName, SequenceFiles, get_layout
from qrsc.evaluate.methods.registry import load_method
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.evaluate.report.charts import bar_chart
from qrsc.evaluate.report.tables import format_rows
from qrsc.evaluate.run.plan import Plan, evaluate, middles
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.media.annotate import above, beside, labelled
from qrsc.simulate.output.sets import FIXED_SETS, FRAMES, SCENES, SIZE, prepare_set

METHODS = "rs,linear,qrs,cubic,multi-qrs,path,multi-path,coherent"
STILLS = ("rs", "qrs", "rsa2-lite", "rsa2")
PUBLIC: tuple[LayoutName, ...] = ("carla", "fastec", "bsrsc")
WINDOW = 5  # frames that the paper corrects the middle one of

PAGE = """# Results

Made by `make results`; do not edit by hand. {made}

PSNR is taken on [0, 1] rounded to 8 bits, SSIM with an 11×11 Gaussian window of σ = 1.5, both over all pixels unless a
column says otherwise. Every table names the instant that was asked for. Methods: `rs` is the input unchanged; `linear`,
`qrs` and `cubic` correct each frame from its own motion of order 1, 2 and 3; `multi-qrs` averages in the neighbouring
frames, corrected to the same instant; `path` and `multi-path` do the same with the camera's path
([motion.md](motion.md)); `coherent` fuses the frames of `path` and keeps the detail that they agree on; `rsa2`, the
default on a GPU, and `rsa2-lite`, on a CPU, fuse them by a network ([fusion.md](fusion.md)). How well the readout is
found: [calibration.md](calibration.md). Accuracy of the flows by themselves: [flow.md](flow.md).
{sections}
"""


def set_sequences(name: str, scenes: int, size: tuple[int, int], device: str) -> list[SequenceFiles]:
    """The first scenes of a fixed set, rendered where they are missing."""
    return index_data(prepare_set(name, scenes, size=size, device=device), "sim")[:scenes]


def scored(
    title: str, sequences: Sequence[SequenceFiles], methods: str, flow: str, device: str, **more: Any
) -> list[FrameScore]:
    plan = Plan(title, sequences, methods=methods.split(","), flow=flow, device=device, **more)
    scores = evaluate(plan)
    print(f"{title}, {flow} flow, done", flush=True)
    return scores


def sets_section(scores: dict[str, list[FrameScore]], images: Path, told: str) -> str:
    parts = ["\n## Simulated sets\n", f"{told} Truth at the middle row.\n"]
    for flow, found in scores.items():
        each = mean_rows(found)
        parts.append(f"Flow: `{flow}`.\n\n{format_rows(each, 'markdown')}\n")
        groups: dict[str, dict[str, float]] = {}
        for row in each:
            groups.setdefault(row["set"], {})[row["method"]] = row["psnr"]
        picture = images / f"results_{flow}.svg"
        picture.write_text(bar_chart("PSNR, dB", groups, caption=f"{flow} flow. {told}"), encoding="utf-8")
        parts.append(f"![PSNR of all methods on the simulated sets with {flow} flow](images/{picture.name})\n")
        parts.append(
            f"Of these, the frames in the middle of {WINDOW}, which is what the paper corrects a frame from "
            f"(`qrsc evaluate --window {WINDOW}`); PSNR, and in brackets over pixels that the frame does not show:\n\n"
            f"{windows_table(found)}\n"
        )
    return "\n".join(parts)


def windows_table(scores: Sequence[FrameScore]) -> str:
    """A row for each method, a column for each set, of the frames in the middle of a window."""
    inner = mean_rows([score for score in scores if score.frame in middles(FRAMES, WINDOW)])
    sets, methods = (list(dict.fromkeys(row[key] for row in inner)) for key in ("set", "method"))
    lines = [f"| method | {' | '.join(sets)} | mean |", "| --- |" + " ---: |" * (len(sets) + 1)]
    for method in methods:
        own = [(row["psnr"], row["psnr_unseen"]) for row in inner if row["method"] == method]
        own.append((sum(psnr for psnr, _ in own) / len(own), sum(unseen for _, unseen in own) / len(own)))
        lines.append(f"| {method} | {' | '.join(f'{psnr:.2f} ({unseen:.2f})' for psnr, unseen in own)} |")
    return "\n".join(lines)


def stills_section(sequences: dict[str, SequenceFiles], images: Path, methods: str, flow: str, device: str) -> str:
    """The middle frame of one clip of each set, as some methods make it, in one picture."""
    shown = [name for name in STILLS if name in methods.split(",")]
    rows = []
    for title, sequence in sequences.items():
        [clip] = split_at_gaps(sequence)
        loaded = [load_frame(files, ("middle",), device=device) for files in clip.frames]
        middle = len(loaded) // 2
        truth = loaded[middle].truths["middle"]
        frames, instant = [each.rolling for each in loaded], clip.readout.instant("middle")
        shared = shared_flow(flow)
        for each in loaded:  # so that each flow is found once for all methods
            shared.announce(each)
        cells = []
        for name in shown:
            results = list(load_method(name, shared)(frames, clip.readout, instant))
            frame = results[middle].frame.cpu()
            cells.append(labelled(frame, f"{title} {name} {float(psnr(frame, truth.cpu())):.1f} dB"))
        rows.append(beside([*cells, labelled(truth.cpu(), "truth")]))
    pixels = (255.0 * above(rows)).round().byte().permute(1, 2, 0).flip(-1).numpy()  # BGR, for OpenCV
    cv2.imwrite(str(images / "results_stills.jpg"), pixels, [cv2.IMWRITE_JPEG_QUALITY, 85])
    return (
        f"\n## Stills\n\nThe middle frame of scene 0 of each set, flow `{flow}`, PSNR to the truth on the right.\n\n"
        f"![{', '.join(shown)} and the truth](images/results_stills.jpg)\n"
    )


def orders_section(images: Path, figures: Figures) -> str:
    """Linear, quadratic and cubic motion, the solver alone: the paper's Fig. 8."""
    lines = [
        "\n## Linear, quadratic and cubic motion\n",
        "The solver alone, without fusion, with the exact flow and with an estimated one, on frames with neighbours on "
        "both sides: the mean distance of the correction field from the true one (EPE, px) over the pixels seen in "
        "both neighbours, and PSNR (dB) over the pixels that the rolling-shutter frame shows. "
        f"{figures['scenes']} of {SCENES} scenes of each set, {figures['size']}, {figures['at']} row. "
        f"{figures['made']}\n",
        "Compare the two flows by EPE. An exact field changes at once from one surface to the next, and within a pixel "
        "of such a boundary, where frames mix both surfaces, it moves the mixture with one of them; the smooth field "
        "of DIS moves it as one piece. On sim-drive (320x240) the 8 % of the pixels that lie within a pixel of a "
        "boundary make half of the squared error with exact fields (23.3 dB there, 25.3 dB with the true distortion "
        "field itself, 26.9 dB with DIS), while away from boundaries exact fields are ahead (38.8 dB against 37.9).\n",
        table(figures) + "\n",
    ]
    for name, picture in plots(figures).items():
        path = images / f"results_orders_{name}.svg"
        path.write_text(picture, encoding="utf-8")
        lines.append(f"![{name.upper()} by order of motion](images/{path.name})\n")
    return "\n".join(lines)


def real_section(real: Path, methods: str, flows: Sequence[str], device: str) -> str:
    parts = [
        "\n## Real samples\n",
        "Two or three consecutive frames of each sequence, so that most frames have one neighbour, where all orders "
        "are the linear one. γ = 1 for Carla-RS and Fastec-RS, 0.425 for BS-RSC.\n",
    ]
    instants: tuple[TruthInstant, ...] = ("first", "middle")
    for flow in flows:
        scores: list[FrameScore] = []
        for layout in PUBLIC:
            title = get_layout(layout).title
            if (real / title).is_dir():
                scores += scored(title, index_data(real / title, layout), methods, flow, device, instants=instants)
        parts.append(f"Flow: `{flow}`.\n\n{format_rows(mean_rows(scores), 'markdown', others=True)}\n")
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=SCENES, help="of each set")
    parser.add_argument("--size", default=f"{SIZE[1]}x{SIZE[0]}", metavar="WxH")
    parser.add_argument("--sets", default=",".join(FIXED_SETS))
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--flows", default="dis")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "results.md")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    flows = options.flows.split(",")
    images = options.output.parent / "images"
    images.mkdir(parents=True, exist_ok=True)

    scores: dict[str, list[FrameScore]] = {flow: [] for flow in flows}
    for name in options.sets.split(","):
        sequences = set_sequences(name, options.scenes, (height, width), options.device)
        for flow in flows:
            scores[flow] += scored(name, sequences, options.methods, flow, options.device)
    told = (
        f"Scenes 0 to {options.scenes - 1} of {SCENES}" if options.scenes < SCENES else f"All {SCENES} scenes"
    ) + f" of each set, {FRAMES} frames of {options.size}."
    kept = options.output.parent / "figures" / "motion_orders.json"
    if kept.is_file():
        figures = json.loads(kept.read_text(encoding="utf-8"))
    else:
        sets = options.sets.split(",")
        figures = measure(sets, options.scenes, (height, width), "middle", options.device, flows[0])
    first = {name: set_sequences(name, 1, (height, width), options.device)[0] for name in options.sets.split(",")}
    stills = stills_section(first, images, options.methods, flows[-1], options.device)
    sections = [sets_section(scores, images, told), stills, orders_section(images, figures)]
    real = os.environ.get("QRSC_REAL")
    if real:
        sections.append(real_section(Path(real), options.methods, flows, options.device))
    text = PAGE.format(made=made_with(options.device), sections="\n".join(sections))
    options.output.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
