"""Linear, quadratic and cubic motion on the fixed test sets with exact flow: what the model alone costs.

    python benchmarks/motion_orders.py [--scenes 1] [--size 320x240] [--at middle] [--device cpu] [--plot orders.svg]

Every inner frame is corrected to the instant of its middle row (or its first) with the true flows: that to the next
frame for the linear model from one side, those to both neighbours for the linear model by least squares and for the
quadratic one, and the one after the next as well for the cubic one. All that is left is how the model continues the
motion between them. EPE is the mean distance in
pixels between the correction field and the true one, over the pixels whose point is seen in the corrected frame and in
both neighbours. PSNR compares the warped frame with the global-shutter truth over the pixels of the truth that the
rolling-shutter frame saw. Both are means over frames; all sets together are 20 scenes each, `--scenes` takes the first.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from qrsc.evaluate.metrics import masked_psnr
from qrsc.motion import correction_field, fit_trajectory
from qrsc.simulate import truth
from qrsc.simulate.render import render_gs, render_rs
from qrsc.simulate.sets import FIXED_SETS, FRAMES, SCENES, set_textures, set_world
from qrsc.simulate.surfaces import Scene
from qrsc.timing import INSTANTS, Instant, Readout
from qrsc.warp import apply_correction

# By name: to which frames the flows are given, and the order.
MODELS: dict[str, tuple[tuple[int, ...], int]] = {
    "linear, one side": ((1,), 1),
    "linear": ((-1, 1), 1),
    "quadratic": ((-1, 1), 2),
    "cubic": ((-1, 1, 2), 3),
}
COLOURS = dict(zip(MODELS, ("#cfd6de", "#9aa5b1", "#2f6fdb", "#e07b39"), strict=True))


@torch.no_grad()
def score_frame(scene: Scene, readout: Readout, frame: int, at: Instant) -> Tensor:
    """`[9]`: EPE of the models, PSNR of the rolling-shutter frame and of the models."""
    tau = readout.instant(at)
    flows, seen = {}, {}
    for step in (-1, 1, 2):
        flows[step], seen[step] = truth.rs_flow(scene, readout, frame, frame + step)
    exact, visible = truth.correction_field(scene, readout, frame, frame + tau)
    # A point that never lands in the frame after the next has no flow there, which the simulator gives as 0.
    known = seen[2] | (flows[2] != 0).any(1, keepdim=True)
    counted = (visible & seen[-1] & seen[1] & known).squeeze(1)
    rolling, target = render_rs(scene, readout, frame), render_gs(scene, frame + tau)
    _, asked = truth.distortion_field(scene, readout, frame, frame + tau)
    lengths, pictures = [], [rolling]
    for steps, order in MODELS.values():
        trajectory = fit_trajectory({step: flows[step] for step in steps}, readout, order=order)
        field = correction_field(trajectory, readout, tau)
        lengths.append((field - exact).norm(dim=1)[counted].mean())
        pictures.append(apply_correction(rolling, field).image)
    decibels = [masked_psnr(picture, target, asked).mean() for picture in pictures]
    return torch.stack([value.double().cpu() for value in lengths + decibels])


def score_set(name: str, scenes: int, size: tuple[int, int], at: Instant, device: str) -> Tensor:
    """Means over the inner frames of the first scenes: `[9]`."""
    textures = set_textures().to(device)
    rows = []
    for number in range(scenes):
        world, readout = set_world(name, number, textures=textures, size=size)
        rows += [score_frame(world.scene, readout, frame, at) for frame in range(1, FRAMES - 2)]
    return torch.stack(rows).nanmean(0)


def table(scores: Mapping[str, Tensor]) -> str:
    """The figures in Markdown."""
    names = list(MODELS)
    lines = ["| set | EPE " + " | ".join(names) + " | PSNR RS | " + " | ".join(names) + " |"]
    lines.append("|---" * (2 * len(names) + 2) + "|")
    for name, row in scores.items():
        errors, decibels = row[: len(names)].tolist(), row[len(names) :].tolist()
        cells = [f"{value:.3f}" for value in errors] + [f"{value:.2f}" for value in decibels]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(scores: Mapping[str, Tensor], caption: str) -> str:
    """Two groups of bars, EPE and PSNR, as an SVG picture."""
    panels = [
        (
            "error of the correction field, px (lower is better)",
            {name: row[: len(MODELS)].tolist() for name, row in scores.items()},
        ),
        (
            "PSNR on visible pixels, dB (higher is better)",
            {name: row[len(MODELS) + 1 :].tolist() for name, row in scores.items()},
        ),
    ]
    width, height = 760, 250
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {2 * height + 40}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, (title, values) in enumerate(panels):
        parts += _panel(title, values, top=number * height, width=width, height=height)
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = 60 + 120 * number
        parts.append(f'<rect x="{x}" y="{2 * height + 8}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="{2 * height + 18}">{name}</text>')
    parts.append(f'<text x="{width - 20}" y="{2 * height + 18}" text-anchor="end" fill="#57606a">{caption}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, values: Mapping[str, Sequence[float]], *, top: int, width: int, height: int) -> list[str]:
    left, bottom, ceiling = 60, top + height - 30, top + 34
    largest = max(max(row) for row in values.values())
    group = (width - left - 20) / len(values)
    bar = group / (len(COLOURS) + 1)
    parts = [f'<text x="{left}" y="{top + 20}" font-weight="600">{title}</text>']
    parts.append(f'<line x1="{left}" y1="{bottom}" x2="{width - 20}" y2="{bottom}" stroke="#57606a"/>')
    for number, (name, row) in enumerate(values.items()):
        start = left + number * group
        for place, (colour, value) in enumerate(zip(COLOURS.values(), row, strict=True)):
            tall = (bottom - ceiling - 14) * value / largest
            x = start + (0.5 + place) * bar
            parts.append(
                f'<rect x="{x:.1f}" y="{bottom - tall:.1f}" width="{bar - 2:.1f}" height="{tall:.1f}" fill="{colour}"/>'
            )
            label = f"{value:.1f}" if largest > 10 else f"{value:.2f}"
            parts.append(
                f'<text x="{x + bar / 2 - 1:.1f}" y="{bottom - tall - 4:.1f}" text-anchor="middle" font-size="10">'
                f"{label}</text>"
            )
        centre = start + (0.5 + 0.5 * len(COLOURS)) * bar
        parts.append(f'<text x="{centre:.1f}" y="{bottom + 18}" text-anchor="middle">{name}</text>')
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=1, help=f"of each set, up to {SCENES}")
    parser.add_argument("--size", default="320x240", metavar="WxH")
    parser.add_argument("--at", choices=INSTANTS, default="middle", help="row whose instant is the target")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--plot", type=Path, help="write a picture, too")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    scores = {}
    for name in FIXED_SETS:
        scores[name] = score_set(name, options.scenes, (height, width), options.at, options.device)
        print(f"{name} done", flush=True)
    print(table(scores))
    if options.plot is not None:
        caption = (
            f"{options.at} row, exact flow, {options.scenes} scene{'s' * (options.scenes > 1)} a set, {options.size}"
        )
        options.plot.write_text(plot(scores, caption), encoding="utf-8")


if __name__ == "__main__":
    main()
