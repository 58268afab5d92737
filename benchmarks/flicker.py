"""How much corrected clips flicker on steady tracks, beside the input: `qrsc.evaluate.metrics.temporal.clip_flicker`.

    python benchmarks/flicker.py CLIP:GAMMA[:SCAN] ... [--frames 20] [--start 0] [--ways default,fast,none,denoise]

CLIP is a video or a folder of images. The corrected clips are compared with the input in grey levels of 255; a ratio of
1 or less means that the correction adds no flicker. `none` and `denoise` use the flow of `fast`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc import Corrector, Readout
from qrsc.evaluate.metrics.temporal import clip_flicker
from qrsc.flow import load_flow
from qrsc.media.image_folder import list_frames, read_frame
from qrsc.media.reader import read_video

WAYS: dict[str, dict[str, Any]] = {
    "default": {"preset": "default"},
    "fast": {"preset": "fast"},
    "none": {"preset": "fast", "fusion": "none"},
    "denoise": {"preset": "fast", "denoise": True},
}


def frames_of(path: Path) -> Iterator[Tensor]:
    """The frames `[3, H, W]` of a video or a folder."""
    if path.is_dir():
        return (read_frame(each).frame for each in list_frames(path))
    return read_video(path)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", nargs="+", metavar="CLIP:GAMMA[:SCAN]")
    parser.add_argument("--frames", type=int, default=20)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    ways = options.ways.split(",")
    print(f"| clip | input | {' | '.join(ways)} |\n|---|---:|{'---:|' * len(ways)}", flush=True)
    flow = load_flow("dis")
    for entry in options.clips:
        name, gamma, *scan = entry.split(":")
        frames = list(islice(frames_of(Path(name)), options.start, options.start + options.frames))
        readout = Readout(float(gamma), *scan)
        shown = clip_flicker(frames, flow)
        cells = []
        for way in ways:
            corrected = [each.frame for each in Corrector(readout, **WAYS[way]).stream(frames)]
            cells.append(f"{clip_flicker(corrected, flow):.2f}")
        print(f"| {Path(name).name} | {shown:.2f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
