"""Robustness of the fusions to input that is worse than in training: PSNR on frames of the fixed sets.

    python benchmarks/fusion_robustness.py [--scenes 1] [--size 320x240] [--fusions mean,rsa2] [--flow dis]

Rows are the disturbances: none, gamma 10 % too high or too low, flows with a wavy error of one pixel added, and three
frames in place of five (one frame is fused then: `mean` is the frame itself). Frames 2 to 4 of 7 of each scene, middle
row.
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.data.dataset import index_data, load_frame
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.flow import FlowEstimator, FlowPair, load_flow
from qrsc.fusion import Fusion, load_fusion
from qrsc.pipeline import Corrector
from qrsc.simulate.output.sets import FIXED_SETS, prepare_set
from qrsc.timing import Readout

WAVES = 24  # pixels between the values that errors of the flow are drawn for
CASES = ("as it is", "gamma 10 % too high", "gamma 10 % too low", "flow off by 1 px", "three frames")


class WavyFlow:
    """An estimator with smooth errors of one pixel (root mean square), drawn anew for every pair."""

    def __init__(self, flow: FlowEstimator) -> None:
        self.flow = flow
        self.generator = torch.Generator().manual_seed(0)

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        return FlowPair(*(flow + self._waves(flow) for flow in self.flow(first, second)))

    def _waves(self, flow: Tensor) -> Tensor:
        height, width = flow.shape[-2:]
        values = torch.randn(1, 2, height // WAVES, width // WAVES, generator=self.generator)
        waves = F.interpolate(values, size=(height, width), mode="bicubic")
        return waves / waves.square().mean().sqrt()


def corrected(frames: Tensor, readout: Readout, fusion: Fusion | None, flow: FlowEstimator, case: str) -> Tensor:
    """A clip `[T, 3, H, W]`, with something wrong."""
    factor = {"gamma 10 % too high": 1.1, "gamma 10 % too low": 0.9}.get(case, 1.0)
    believed = Readout(min(1.0, factor * readout.gamma), readout.scan)
    given = WavyFlow(flow) if case == "flow off by 1 px" else flow
    count = 3 if case == "three frames" else 5
    return Corrector(believed, fusion=fusion or "none", flow=given, frames=count)(frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--size", default="320x240")
    parser.add_argument("--fusions", default="none,mean,rsa2-lite,rsa2")
    parser.add_argument("--flow", default="dis")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    names = options.fusions.split(",")
    fusions = {name: load_fusion(name) for name in names}
    flow = load_flow(options.flow)
    scores: dict[tuple[str, str], list[float]] = {}
    for title in FIXED_SETS:
        for sequence in index_data(prepare_set(title, options.scenes, size=(height, width)), "sim")[: options.scenes]:
            loaded = [load_frame(files, ("middle",)) for files in sequence.frames]
            frames = torch.stack([each.rolling for each in loaded])
            for case in CASES:
                for name, fusion in fusions.items():
                    found = corrected(frames, sequence.readout, fusion, flow, case)
                    each = [float(psnr(found[k], loaded[k].truths["middle"])) for k in (2, 3, 4)]
                    scores.setdefault((case, name), []).extend(each)
        print(f"{title} done", flush=True)
    print(f"| | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for case in CASES:
        means = [sum(scores[case, name]) / len(scores[case, name]) for name in names]
        print(f"| {case} | " + " | ".join(f"{value:.2f}" for value in means) + " |")


if __name__ == "__main__":
    main()
