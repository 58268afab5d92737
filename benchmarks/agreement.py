"""How well two neighbouring frames of a real clip agree when both are corrected to the instant half way between them.

    python benchmarks/agreement.py CLIP --gamma 0.65 [--scan top-down] [--flow dis] [--frames 12] [--from 5]

No truth is needed: whatever the camera did between two frames, both of them show the same scene at one instant. The
figure is the PSNR of one against the other inside a margin of 12 %, the mean over the clip, for every kind of motion.
A motion that is wrong in the same way for both frames is not detected.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import get_args

import torch

from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.media.image_folder import list_frames, read_frame
from qrsc.media.reader import read_video
from qrsc.pipeline import Corrector, MotionName
from qrsc.timing import Readout, parse_scan

MARGIN = 0.12


def agreement(frames: torch.Tensor, readout: Readout, motion: MotionName, flow: str) -> float:
    """Mean PSNR of frame k against frame k + 1 of `[T, 3, H, W]`, at the instant between their middle rows."""
    middle = readout.instant("middle")
    earlier, later = (
        Corrector(readout, tau=middle + half, motion=motion, fusion="none", flow=flow)(frames) for half in (0.5, -0.5)
    )
    margin = round(MARGIN * min(frames.shape[-2:]))
    inner = (..., slice(margin, -margin), slice(margin, -margin))
    each = [float(psnr(earlier[k][inner], later[k + 1][inner])) for k in range(1, len(frames) - 2)]
    return sum(each) / len(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--gamma", type=float, required=True)
    parser.add_argument("--scan", default="top-down")
    parser.add_argument("--flow", default="dis")
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--from", type=int, default=5, dest="start")
    options = parser.parse_args()
    if options.clip.is_dir():
        every = (read_frame(path).frame for path in list_frames(options.clip))
    else:
        every = read_video(options.clip)
    frames = torch.stack(list(islice(every, options.start, options.start + options.frames)))
    readout = Readout(options.gamma, parse_scan(options.scan))
    for motion in get_args(MotionName):
        print(f"{motion}: {agreement(frames, readout, motion, options.flow):.2f} dB", flush=True)


if __name__ == "__main__":
    main()
