"""How pictures look, not only how they score: PSNR, SSIM, ST-LPIPS and detail of every fusion, as a Markdown table.

    python benchmarks/looks.py [--real ROOT] [--scenes 2] [--size 320x240] [--flow raft-rs+dis] [--fusions ...]

ROOT (or the folder that the environment variable QRSC_REAL names) holds Carla-RS/, Fastec-RS/ and BS-RSC/, any of them;
the fixed sets follow. Middle row, all frames with a truth. Frames are aligned once and given to all fusions: `rs` is
the input, `alone` the frame by itself, `mean` that of all, sampled bicubically unless the name ends with `-bilinear`;
others are names of fusions, or NAME=FILE of weights.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from qrsc.data.dataset import index_data, load_frame, split_at_gaps
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.metrics.detail import detail
from qrsc.evaluate.metrics.image_quality import psnr, ssim
from qrsc.evaluate.metrics.st_lpips import st_lpips
from qrsc.flow import load_flow
from qrsc.fusion import AlignedFrames, FusionName, load_fusion
from qrsc.fusion.mean import plain_mean
from qrsc.fusion.networks import fusion_from_file
from qrsc.pipeline import Corrector
from qrsc.simulate.output.sets import FIXED_SETS, prepare_set
from qrsc.warp import Interpolation, Warped, apply_correction

REAL = {"Carla-RS": "carla", "Fastec-RS": "fastec", "BS-RSC": "bsrsc"}
FUSIONS = "rs,alone-bilinear,alone,mean-bilinear,mean,coherent,rsa2-lite,rsa2"
SOFT = "-bilinear"
Fuse = Callable[[Tensor, AlignedFrames, AlignedFrames], Tensor]


class Kept:
    """A fusion that keeps what it is given."""

    interpolation: Interpolation = "bicubic"

    def __init__(self) -> None:
        self.given: list[AlignedFrames] = []

    def __call__(self, aligned: AlignedFrames) -> Warped:
        self.given.append(aligned)
        return Warped(aligned.frames[:, aligned.centre], aligned.valid[:, aligned.centre])


def aligned_clips(sequence: SequenceFiles, flow: str) -> Iterator[tuple[Tensor, Tensor, AlignedFrames, AlignedFrames]]:
    """Of every frame with a truth: itself, the truth, what is fused, and the same sampled bilinearly."""
    for clip in split_at_gaps(sequence):
        loaded = [load_frame(files, ("middle",)) for files in clip.frames]
        frames = [each.rolling for each in loaded]
        kept = Kept()
        tau = clip.readout.instant("middle")
        list(Corrector(clip.readout, tau=tau, flow=load_flow(flow), motion="path", fusion=kept).stream(frames))
        for index, (each, aligned) in enumerate(zip(loaded, kept.given, strict=True)):
            if "middle" in each.truths:
                around = frames[index - aligned.centre :][: aligned.frames.shape[1]]
                yield each.rolling, each.truths["middle"], aligned, _softly(aligned, around)


def fusions(names: Sequence[str]) -> dict[str, Fuse]:
    """Functions from the input, the aligned frames and those sampled bilinearly to the picture `[1, 3, H, W]`."""
    found: dict[str, Fuse] = {}
    for entry in names:
        name, _, file = entry.partition("=")
        if name == "rs":
            found[name] = lambda frame, sharp, soft: frame[None]
        elif name.removesuffix(SOFT) == "alone":
            found[name] = _choosing(name, lambda aligned: aligned.frames[:, aligned.centre])
        elif name.removesuffix(SOFT) == "mean":
            found[name] = _choosing(name, lambda aligned: plain_mean(aligned).image)
        else:
            fusion = fusion_from_file(Path(file)) if file else load_fusion(cast(FusionName, name))  # which checks it
            if fusion is None:
                raise ValueError(f"{name!r} fuses nothing; use `alone`.")
            found[name] = _by(fusion)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=Path, default=os.environ.get("QRSC_REAL"))
    parser.add_argument("--scenes", type=int, default=2)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--flow", default="raft-rs+dis")
    parser.add_argument("--fusions", default=FUSIONS)
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    chosen = fusions(options.fusions.split(","))
    groups: dict[str, list[SequenceFiles]] = {}
    for title, layout in REAL.items():
        if options.real is not None and (options.real / title).is_dir():
            groups[title] = index_data(options.real / title, layout)
    for title in FIXED_SETS if options.scenes else ():
        groups[title] = index_data(prepare_set(title, options.scenes, size=(height, width)), "sim")[: options.scenes]
    print("PSNR in dB / SSIM / ST-LPIPS (AlexNet) / detail; means over frames")
    print(f"| | {' | '.join(chosen)} |\n|---|{'---:|' * len(chosen)}", flush=True)
    for title, sequences in groups.items():
        scores: dict[str, list[list[float]]] = {name: [] for name in chosen}
        for sequence in sequences:
            for frame, truth, sharp, soft in aligned_clips(sequence, options.flow):
                for name, fuse in chosen.items():
                    picture = fuse(frame, sharp, soft)[0].clamp(0.0, 1.0)
                    measures = (psnr, ssim, st_lpips, detail)
                    scores[name].append([float(measure(picture, truth)) for measure in measures])
        means = [torch.tensor(each).mean(0).tolist() for each in scores.values()]
        cells = " | ".join("{:.2f} / {:.4f} / {:.4f} / {:.2f}".format(*each) for each in means)
        print(f"| {title} ({len(next(iter(scores.values())))}) | {cells} |", flush=True)


def _softly(aligned: AlignedFrames, frames: Sequence[Tensor]) -> AlignedFrames:
    fields = aligned.correction_fields.unbind(1)
    pairs = zip(frames, fields, strict=True)
    sampled = [apply_correction(frame[None], field, interpolation="bilinear").image for frame, field in pairs]
    return replace(aligned, frames=torch.stack(sampled, 1))


def _choosing(name: str, make: Callable[[AlignedFrames], Tensor]) -> Fuse:
    return lambda frame, sharp, soft: make(soft if name.endswith(SOFT) else sharp)


def _by(fusion: Callable[[AlignedFrames], Warped]) -> Fuse:
    return lambda frame, sharp, soft: fusion(sharp).image


if __name__ == "__main__":
    with torch.no_grad():
        main()
