"""Correct true rolling-shutter samples that come with a global-shutter truth, and print a table of PSNR.

    python benchmarks/real_samples.py [ROOT] [--flow dis] [--motion path]

ROOT (or the folder that the environment variable QRSC_REAL names) holds samples in the layouts of the public data
sets: Carla-RS/, Fastec-RS/ and BS-RSC/, any of them.
PSNR on [0, 1] rounded to 8 bits, all pixels; the clip is as long as there are consecutive frames. The last column uses
the truth: each frame is warped by the flow that the same estimator finds between it and the truth. This is close to an
upper limit for what one frame can give with motion from neighbouring frames.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from torch import Tensor

from qrsc.data.layouts import Kind, SequenceFiles, index_sequences
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.flow import load_flow
from qrsc.media.image_folder import read_frame
from qrsc.pipeline import Corrector
from qrsc.timing import Instant
from qrsc.warp import backward_warp

METHODS = {
    "negate": {"fusion": "none", "warp": "negate"},
    "invert": {"fusion": "none", "warp": "invert"},
    "invert+mean": {"fusion": "mean", "warp": "invert"},
    "invert+coherent": {"fusion": "coherent", "warp": "invert"},
}
BEST = "by the truth"
LAYOUTS = {"carla": "Carla-RS", "fastec": "Fastec-RS", "bsrsc": "BS-RSC"}


def load(sequence: SequenceFiles, kind: Kind) -> Tensor | None:
    """One kind of picture of every frame, `[T, 3, H, W]`, or None if the data set has none."""
    paths = [frame.files[kind] for frame in sequence.frames if kind in frame.files]
    return torch.stack([read_frame(path).frame for path in paths]) if paths else None


def score(sequence: SequenceFiles, instant: Instant, flow: str, motion: str) -> list[list[float]]:
    """PSNR of the input and of every method, for each frame that has a truth at the instant."""
    frames, truth = load(sequence, "rolling"), load(sequence, instant)
    if frames is None or truth is None:
        return []
    columns = [frames]
    estimator, pairs = load_flow(flow), (frames[: len(truth)].split(1), truth.split(1))
    for settings in METHODS.values():
        corrector = Corrector(
            sequence.readout, tau=sequence.readout.instant(instant), flow=flow, motion=motion, **settings
        )
        columns.append(corrector(frames))
    moved = [backward_warp(one, estimator(exact, one).forward).image for one, exact in zip(*pairs, strict=True)]
    columns.append(torch.cat(moved))
    return [[float(psnr(column[index], truth[index])) for column in columns] for index in range(len(truth))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("QRSC_REAL"))
    parser.add_argument("--flow", default="dis")
    parser.add_argument("--motion", default="path")
    options = parser.parse_args()
    if options.root is None:
        print("no samples: name their folder as the argument or in QRSC_REAL")
        return

    header = (
        f"| {'data set':9s} | {'sequence':8s} | frame | {'instant':7s} | RS input | "
        + " | ".join([*METHODS, BEST])
        + " |"
    )
    print(header)
    print("|" + "|".join("-" * len(cell) for cell in header.strip("|").split("|")) + "|")
    scores: dict[tuple[str, str], list[list[float]]] = {}
    for layout, title in LAYOUTS.items():
        if not (options.root / title).is_dir():
            continue
        for sequence in index_sequences(options.root / title, layout):
            for instant in ("first", "middle"):
                rows = score(sequence, instant, options.flow, options.motion)
                for index, row in enumerate(rows):
                    _print_row(title, sequence.folder.name, str(index), instant, row)
                scores.setdefault((title, instant), []).extend(rows)
    for (data_set, instant), rows in scores.items():
        if rows:
            _print_row(data_set, "mean", str(len(rows)), instant, torch.tensor(rows).mean(0).tolist())


def _print_row(data_set: str, name: str, frame: str, instant: str, values: list[float]) -> None:
    widths = [8, *map(len, [*METHODS, BEST])]
    cells = " | ".join(f"{value:{width}.2f}" for value, width in zip(values, widths, strict=True))
    print(f"| {data_set:9s} | {name:8s} | {frame:>5s} | {instant:7s} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
