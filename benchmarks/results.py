"""Write docs/results.md: every method on the fixed test sets and, where QRSC_REAL names them, on real samples.

    python benchmarks/results.py [--scenes 20] [--size 640x480] [--methods ...] [--flows dis] [--output docs/results.md]

A new method or flow appears on the page by its name in --methods or --flows. The page says what it was made with; the
charts go to images/ beside it. Sets of another size than 640x480 show the same worlds and are rendered into the cache
folder, too; scenes that are there are not rendered again.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import qrsc
from qrsc.data.dataset import TruthInstant, index_data
from qrsc.data.layouts import LayoutName, SequenceFiles, get_layout
from qrsc.evaluate.charts import bar_chart
from qrsc.evaluate.run import Plan, evaluate
from qrsc.evaluate.scores import mean_rows
from qrsc.evaluate.tables import format_rows
from qrsc.simulate.clips import render_clip
from qrsc.simulate.sets import FIXED_SETS, FRAMES, SCENES, SIZE, VERSION, cache_folder, prepare_set, set_world
from qrsc.simulate.writers import write_sequence

ROOT = Path(__file__).resolve().parents[1]
METHODS = "rs,linear,qrs,cubic,multi-qrs"
PUBLIC: tuple[LayoutName, ...] = ("carla", "fastec", "bsrsc")
Rows = list[dict[str, Any]]

PAGE = """# Results

Made by `make results`; do not edit by hand. {made}

PSNR is taken on [0, 1] rounded to 8 bits, SSIM with an 11×11 Gaussian window of σ = 1.5, both over all pixels unless a
column says otherwise. Every table names the instant that was asked for. Methods: `rs` is the input unchanged; `linear`,
`qrs` and `cubic` correct each frame from its own motion of order 1, 2 and 3; `multi-qrs` is `qrs` with the neighbouring
frames, corrected to the same instant, averaged in.
{sections}
"""


def set_sequences(name: str, scenes: int, size: tuple[int, int], device: str) -> list[SequenceFiles]:
    """The first scenes of a fixed set, rendered where they are missing."""
    if size == SIZE:
        root = prepare_set(name, scenes, device=device)
    else:
        root = cache_folder() / f"{name}-v{VERSION}-{size[1]}x{size[0]}"
        for scene in range(scenes):
            if not (root / f"{scene:04d}").is_dir():
                world, readout = set_world(name, scene, size=size)
                clip = render_clip(world.scene, readout, FRAMES, truth=("flows", "fields"))
                write_sequence(root / f"{scene:04d}", "sim", clip, readout, precision=torch.float16)
    return index_data(root, "sim")[:scenes]


def scored(title: str, sequences: Sequence[SequenceFiles], methods: str, flow: str, device: str, **more: Any) -> Rows:
    plan = Plan(title, sequences, methods=methods.split(","), flow=flow, device=device, **more)
    rows = mean_rows(evaluate(plan))
    print(f"{title}, {flow} flow, done", flush=True)
    return rows


def sets_section(rows: dict[str, Rows], images: Path, told: str) -> str:
    parts = ["\n## Simulated sets\n", f"{told} Truth at the middle row.\n"]
    for flow, each in rows.items():
        parts.append(f"Flow: `{flow}`.\n\n{format_rows(each, 'markdown')}\n")
        groups: dict[str, dict[str, float]] = {}
        for row in each:
            groups.setdefault(row["set"], {})[row["method"]] = row["psnr"]
        picture = images / f"results_{flow}.svg"
        picture.write_text(bar_chart("PSNR, dB", groups, caption=f"{flow} flow. {told}"), encoding="utf-8")
        parts.append(f"![PSNR of all methods on the simulated sets with {flow} flow](images/{picture.name})\n")
    return "\n".join(parts)


def orders_section(exact: Rows, estimated: Rows, flow: str, images: Path, told: str) -> str:
    """Linear against quadratic motion, the solver alone: the paper's Fig. 8."""
    columns = [f"{order}, {kind}" for kind in ("exact", flow) for order in ("linear", "quadratic")]
    lines = [
        "\n## Linear and quadratic motion\n",
        "The solver alone, without fusion, with the exact flow and with an estimated one: the mean distance of the "
        "correction field from the true one (EPE, px), and PSNR over the pixels that the rolling-shutter frame shows. "
        f"{told} The first and the last frame of a clip have one neighbour and are linear in all columns. The exact "
        "flow goes through the same weights and regularisation as any other. Compare it by EPE: PSNR has a ceiling "
        "even for the true field (31.5 dB on frame 3 of the first scene of sim-drive, 320x240), which an estimated "
        "flow that follows the pixels may pass.\n",
        "| set | EPE rs | " + " | ".join(columns) + " | PSNR rs | " + " | ".join(columns) + " |",
        "|---" * 11 + "|",
    ]
    groups: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(row["set"] for row in exact):
        cells = []
        for figure, places in (("epe", 3), ("psnr_seen", 2)):
            value = {
                (kind, row["method"]): row[figure]
                for kind, rows in (("exact", exact), (flow, estimated))
                for row in rows
                if row["set"] == name
            }
            keys = [("exact", "rs")] + [(kind, order) for kind in ("exact", flow) for order in ("linear", "qrs")]
            cells += [f"{value[key]:.{places}f}" for key in keys]
            if figure == "epe":
                groups[name] = {
                    f"{'linear' if order == 'linear' else 'quadratic'}, {kind} flow": value[kind, order]
                    for kind, order in keys[1:]
                }
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    picture = images / "results_orders.svg"
    picture.write_text(bar_chart("error of the correction field, px", groups, caption=told), encoding="utf-8")
    return "\n".join([*lines, f"\n![Error of linear and quadratic motion](images/{picture.name})\n"])


def real_section(real: Path, methods: str, flows: Sequence[str], device: str) -> str:
    parts = [
        "\n## Real samples\n",
        "Two or three consecutive frames of each sequence, so that most frames have one neighbour, where all orders "
        "are the linear one. γ = 1 for Carla-RS and Fastec-RS, 0.425 for BS-RSC.\n",
    ]
    instants: tuple[TruthInstant, ...] = ("first", "middle")
    for flow in flows:
        rows: Rows = []
        for layout in PUBLIC:
            title = get_layout(layout).title
            if (real / title).is_dir():
                rows += scored(title, index_data(real / title, layout), methods, flow, device, instants=instants)
        parts.append(f"Flow: `{flow}`.\n\n{format_rows(rows, 'markdown', others=True)}\n")
    return "\n".join(parts)


def made() -> str:
    """Commit, hardware and date."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "src"], capture_output=True, text=True
    ).stdout.strip()
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} CPU cores"
    return (
        f"qrsc {qrsc.__version__}, commit {commit or 'unknown'}{' with changes' * bool(changed)}; {where}, "
        f"{platform.machine()}, torch {torch.__version__.partition('+')[0]}; {datetime.date.today().isoformat()}."
    )


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

    rows: dict[str, Rows] = {flow: [] for flow in flows}
    exact: Rows = []
    for name in options.sets.split(","):
        sequences = set_sequences(name, options.scenes, (height, width), options.device)
        for flow in flows:
            rows[flow] += scored(name, sequences, options.methods, flow, options.device)
        exact += scored(name, sequences, "rs,linear,qrs", "truth", options.device, metrics=("masks", "fields"))
    told = (
        f"Scenes 0 to {options.scenes - 1} of {SCENES}" if options.scenes < SCENES else f"All {SCENES} scenes"
    ) + f" of each set, {FRAMES} frames of {options.size}."
    sections = [sets_section(rows, images, told), orders_section(exact, rows[flows[0]], flows[0], images, told)]
    real = os.environ.get("QRSC_REAL")
    if real:
        sections.append(real_section(Path(real), options.methods, flows, options.device))
    text = PAGE.format(made=made(), sections="\n".join(sections))
    options.output.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
