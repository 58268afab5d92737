"""Correct true rolling-shutter samples that come with a global-shutter truth, and print a table of PSNR.

    python benchmarks/real_samples.py [ROOT] [--flow dis] [--motion quadratic]

ROOT (or the folder that the environment variable QRSC_REAL names) holds samples in the layouts of the public data
sets: Carla-RS/, Fastec-RS/ and BS-RSC/, any of them.
PSNR on [0, 1] rounded to 8 bits, all pixels; the clip is as long as there are consecutive frames.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qrsc.evaluate.metrics import psnr
from qrsc.media.frames import read_frame
from qrsc.pipeline import Corrector
from qrsc.timing import Readout

METHODS = {
    "negate": {"fusion": "none", "warp": "negate"},
    "invert": {"fusion": "none", "warp": "invert"},
    "invert+mean": {"fusion": "mean", "warp": "invert"},
}


@dataclass(frozen=True)
class Sequence:
    data_set: str
    name: str
    readout: Readout
    frames: Tensor  # [T, 3, H, W]
    truth: dict[str, Tensor]  # by instant, [T, 3, H, W]


def sequences(root: Path) -> Iterator[Sequence]:
    for folder in sorted((root / "Carla-RS").glob("test/*/*/")):
        truth = {"first": _stack(folder, "*_gs_f.*"), "middle": _stack(folder, "*_gs_m.*")}
        yield Sequence("Carla-RS", folder.name, Readout(1.0), _stack(folder, "*_rs.*"), truth)
    for folder in sorted((root / "Fastec-RS").glob("test/*/")):
        truth = {"first": _stack(folder, "*_global_first.*"), "middle": _stack(folder, "*_global_middle.*")}
        yield Sequence("Fastec-RS", folder.name, Readout(1.0), _stack(folder, "*_rolling.*"), truth)
    for folder in sorted((root / "BS-RSC").glob("test/*/")):
        truth = {"middle": _stack(folder / "GS", "*.png")}
        yield Sequence("BS-RSC", folder.name, Readout(0.425), _stack(folder / "RS", "*.png"), truth)


def _stack(folder: Path, pattern: str) -> Tensor:
    return torch.stack([read_frame(path).frame for path in sorted(folder.glob(pattern))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, nargs="?", default=os.environ.get("QRSC_REAL"))
    parser.add_argument("--flow", default="dis")
    parser.add_argument("--motion", default="quadratic")
    options = parser.parse_args()
    if options.root is None:
        print("no samples: name their folder as the argument or in QRSC_REAL")
        return

    header = f"| {'data set':9s} | {'sequence':8s} | frame | {'instant':7s} | RS input | " + " | ".join(METHODS) + " |"
    print(header)
    print("|" + "|".join("-" * len(cell) for cell in header.strip("|").split("|")) + "|")
    scores: dict[tuple[str, str], list[list[float]]] = {}
    for sequence in sequences(options.root):
        for instant, truth in sequence.truth.items():
            tau = sequence.readout.instant(instant)  # type: ignore[arg-type]  # the keys are instants
            columns = [sequence.frames]
            for settings in METHODS.values():
                corrector = Corrector(sequence.readout, tau=tau, flow=options.flow, motion=options.motion, **settings)
                columns.append(corrector(sequence.frames))
            for index in range(len(truth)):
                row = [float(psnr(column[index], truth[index])) for column in columns]
                scores.setdefault((sequence.data_set, instant), []).append(row)
                _print_row(sequence.data_set, sequence.name, str(index), instant, row)
    for (data_set, instant), rows in scores.items():
        _print_row(data_set, "mean", str(len(rows)), instant, torch.tensor(rows).mean(0).tolist())


def _print_row(data_set: str, name: str, frame: str, instant: str, values: list[float]) -> None:
    widths = [8, *map(len, METHODS)]
    cells = " | ".join(f"{value:{width}.2f}" for value, width in zip(values, widths, strict=True))
    print(f"| {data_set:9s} | {name:8s} | {frame:>5s} | {instant:7s} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
