"""How honest the readout's interval is on difficult clips: stabilised, zooming, parallax-rich, crowded and re-timed.

    python benchmarks/calibration_stress.py [--clips 40] [--seed N] [--cache DIR] [--kinds plain zooming ...]

Scenes, cameras and exact rolling-shutter flows come from the simulator. No picture is rendered: the motion of a cell is
the median of the exact flows of 3 x 3 points in it, plus an error of 0.06 px for a fully textured cell (more with less
texture) and a smooth error of 0.05 px over the picture. So that hundreds of clips take minutes. What flow does to real
pictures beyond that is not in it; `calibration.py` renders pictures.

    plain       hand-held and walking cameras, as in `calibration.py`
    zooming     a shaking hand that zooms
    parallax    a camera that moves sideways and forward through the scene while it shakes
    crowded     15 to 45 % of the cells move on their own, with people who walk
    stabilised  frames moved and turned after recording so that the path is smooth, as cameras and editors do
    retimed     frames dropped, repeated, or both, and played at a constant rate

A clip is determined but wrong if it determines a rolling shutter whose interval does not hold the truth, or the wrong
scan, or a global shutter where the truth is none. For a stabilised or re-timed clip no gamma is right: to determine any
is wrong, unless all its rows were exposed at once. The right answer is "not determined", best with the finding that the
frames were altered.

The interval of a clip whose frames were altered holds nothing, since there is no truth for it to hold. Its coverage is
therefore that of the clips that have a readout, open ones included, and of those that are determined. It is also
printed for all clips with the gamma that was recorded as the truth. That counts an interval of 0 to 1, which claims
nothing, as right: how many of these there are is printed beside it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.cells import GRID
from qrsc.calibrate.estimate import GLOBAL_GAMMA, MAX_HALF_WIDTH_GLOBAL, Calibration
from qrsc.calibrate.self_test import checked_readout
from qrsc.simulate.camera.styles import STYLES, Style
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.render.surfaces import OPAQUE, Scene
from qrsc.simulate.render.truth import rs_flow
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import Readout

Array = npt.NDArray[np.float64]

KINDS = ("plain", "zooming", "parallax", "crowded", "stabilised", "retimed")
ALTERED = ("stabilised", "retimed")
SIZE = (480, 640)
POINTS = 3  # per cell and direction
PAIRS = (45, 60, 90)  # lengths of clips, in turn: one and a half to three seconds
CELL_ERROR, SMOOTH_ERROR = 0.06, 0.05  # pixels
GLOBAL_SHARE = 0.1  # of the clips have a global shutter
# Hands shake at up to 10 Hz. Faster than half a cycle per frame, frames cannot tell a shake from a slower one.
HAND = Style(
    drift=(0.006, 0.004, 0.001, 0.01, 0.005, 0.01, 0.0),
    change=(0.002, 0.002, 0.001, 0.00, 0.000, 0.00, 0.0),
    sway=(0.016, 0.014, 0.006, 0.01, 0.010, 0.00, 0.0),
    shake=(0.022, 0.022, 0.010, 0.01, 0.010, 0.00, 0.0),
)
EXTRA = {
    "zooming": Style(
        drift=(0.006, 0.004, 0.000, 0.01, 0.000, 0.01, 0.005),
        change=(0.001, 0.001, 0.000, 0.00, 0.000, 0.00, 0.001),
        sway=(0.014, 0.014, 0.005, 0.01, 0.010, 0.00, 0.003),
        shake=(0.020, 0.020, 0.008, 0.00, 0.000, 0.00, 0.0),
    ),
    "parallax": Style(
        drift=(0.006, 0.002, 0.000, 0.12, 0.010, 0.15, 0.0),
        change=(0.002, 0.001, 0.000, 0.01, 0.002, 0.01, 0.0),
        sway=(0.008, 0.008, 0.004, 0.06, 0.050, 0.03, 0.0),
        shake=(0.016, 0.016, 0.006, 0.02, 0.020, 0.00, 0.0),
    ),
}


class SimulatedClip:
    """A clip by kind and number: the motions of its cells, and its true gamma."""

    def __init__(self, kind: str, number: int, seed: int, textures: TextureLibrary) -> None:
        self.kind, self.number = kind, number
        self.random = np.random.default_rng([seed, KINDS.index(kind), number])
        self.pairs = PAIRS[number % len(PAIRS)]
        self.gamma = 0.0 if self.random.random() < GLOBAL_SHARE else float(self.random.uniform(0.15, 0.95))
        self.frames = self._frames()
        drawn = {"zooming": "zoom", "parallax": "driving"}.get(
            kind, ("hand shake", "hand shake", "walking")[number // 3 % 3]
        )
        speed = 0.015 * SIZE[1] * 5.0 ** float(self.random.random())
        generator = torch.Generator().manual_seed(1_000_000 * KINDS.index(kind) + 1000 * seed + number)
        with patch.dict(STYLES, {drawn: EXTRA.get(kind, HAND if drawn == "hand shake" else STYLES[drawn])}):
            world = sample_scenes(1, SIZE, drawn, generator, textures=textures, frames=self.frames[-1] + 2, speed=speed)
        self.scene = _reduced(world.scene)

    def _frames(self) -> list[int]:
        """Numbers of the recorded frames that the clip shows one after the other."""
        if self.kind != "retimed":
            return list(range(self.pairs + 1))
        how, every = self.number % 3, int(self.random.integers(4, 9))
        shown, frame = [0], 0
        while len(shown) <= self.pairs:
            step = 1
            if how == 0 and len(shown) % every == 0:  # dropped regularly, as from 30 to 25 frames per second
                step = 2
            elif how == 1 and len(shown) % every == 0:  # repeated, as from 24 to 30
                step = 0
            elif how == 2 and self.random.random() < 0.15:  # a variable rate played at a constant one
                step = int(self.random.choice([0, 2, 3]))
            frame += step
            shown.append(frame)
        return shown

    @torch.no_grad()
    def motions(self) -> ClipMotions:
        """The motions of all cells, with errors."""
        readout = Readout(self.gamma)
        rows, columns = GRID
        scale = np.array([SIZE[1] / (columns * POINTS), SIZE[0] / (rows * POINTS)])
        shifts, weights = [], []
        texture = np.clip(self.random.gamma(1.5, 0.25, rows * columns), 0.02, 1.0)
        for first, second in zip(self.frames, self.frames[1:], strict=False):
            if first == second:
                flow, seen = np.zeros((rows * POINTS, columns * POINTS, 2)), np.ones((rows * POINTS, columns * POINTS))
            else:
                exact, visible = rs_flow(self.scene, readout, first, second)
                flow = exact[0].permute(1, 2, 0).numpy() * scale
                seen = visible[0, 0].double().numpy()
            cells = flow.reshape(rows, POINTS, columns, POINTS, 2).transpose(0, 2, 1, 3, 4)
            shifts.append(np.median(cells.reshape(rows * columns, POINTS**2, 2), axis=1))
            weights.append(texture * seen.reshape(rows, POINTS, columns, POINTS).mean((1, 3)).ravel())
        down, across = np.meshgrid(np.arange(rows) + 0.5, np.arange(columns) + 0.5, indexing="ij")
        middle = np.stack([across.ravel() * SIZE[1] / columns, down.ravel() * SIZE[0] / rows], -1) - scale / 2
        position = np.tile(middle, (self.pairs, 1, 1))
        motions = ClipMotions(position, np.stack(shifts), np.stack(weights), SIZE)
        if self.kind == "crowded":
            motions = self._crowd(motions)
        motions = self._with_errors(motions)
        return self._stabilise(motions) if self.kind == "stabilised" else motions

    def _crowd(self, motions: ClipMotions) -> ClipMotions:
        """People in front of the scene: rectangles of cells that move with the camera and by themselves."""
        rows, columns = GRID
        shift = motions.shift.reshape(-1, rows, columns, 2).copy()
        wanted, covered = self.random.uniform(0.15, 0.45), np.zeros((len(shift), rows, columns), dtype=bool)
        while covered.mean() < wanted:
            width, height = self.random.uniform(1.5, 4.0), self.random.uniform(4.0, 9.0)
            speed = self.random.normal(0.0, 0.08, 2) * [1.0, 0.2]  # cells per frame
            start = self.random.uniform(-2.0, columns), self.random.uniform(2.0, rows - 2.0)
            gain, bob = self.random.uniform(1.0, 1.6), self.random.uniform(0.02, 0.08)
            rate, phase = self.random.uniform(0.04, 0.1), self.random.uniform(0.0, 6.3)
            time = np.arange(len(shift))
            left = (start[0] + speed[0] * time)[:, None, None]
            top = (start[1] + speed[1] * time)[:, None, None]
            inside = (np.arange(columns) >= left) & (np.arange(columns) < left + width)
            inside = inside & (np.arange(rows)[:, None] >= top) & (np.arange(rows)[:, None] < top + height)
            own = np.zeros((len(shift), 1, 1, 2))
            own[..., 0] = speed[0] * SIZE[1] / columns
            own[..., 1] = ((speed[1] + bob * np.cos(2 * np.pi * rate * time + phase)) * SIZE[0] / rows)[:, None, None]
            # The time between two exposures of a point depends on how far down it moves.
            flight = 1.0 + self.gamma * shift[..., 1:] / SIZE[0]
            shift = np.where(inside[..., None], gain * shift + own * flight, shift)
            covered |= inside
        return replace(motions, shift=shift.reshape(motions.shift.shape))

    def _with_errors(self, motions: ClipMotions) -> ClipMotions:
        rows, columns = GRID
        own = CELL_ERROR * self.random.normal(size=motions.shift.shape)
        own /= np.sqrt(np.maximum(motions.weight, 0.02))[..., None]
        x, y = np.linspace(-1, 1, columns), np.linspace(-1, 1, rows)[:, None]
        modes = np.stack([y + 0 * x, y**2 - 1 / 3 + 0 * x, x + 0 * y, x * y, x**2 - 1 / 3 + 0 * y]).reshape(5, -1)
        smooth = SMOOTH_ERROR * np.einsum("pmk,mc->pck", self.random.normal(size=(self.pairs, 5, 2)), modes) / 2.0
        repeated = np.array([a == b for a, b in zip(self.frames, self.frames[1:], strict=False)])[:, None, None]
        return replace(motions, shift=motions.shift + np.where(repeated, 0.01, 1.0) * (np.clip(own, -3, 3) + smooth))

    def _stabilise(self, motions: ClipMotions) -> ClipMotions:
        """Shift and turn every frame so that the path of the picture is smooth."""
        middle = np.array([(SIZE[1] - 1) / 2, (SIZE[0] - 1) / 2])
        offset = motions.position - middle
        weight = motions.weight / motions.weight.sum(1, keepdims=True)
        mean = (weight[..., None] * motions.shift).sum(1)
        turn = (offset[..., 0] * motions.shift[..., 1] - offset[..., 1] * motions.shift[..., 0]) * weight
        turn = turn.sum(1) / ((offset**2).sum(-1) * weight).sum(1)
        path = np.concatenate([np.zeros((1, 3)), np.cumsum(np.column_stack([mean, turn]), axis=0)])
        width = float(self.random.uniform(3.0, 15.0))
        strength = float(self.random.uniform(0.6, 1.0))
        change = strength * (_smoothed(path, width) - path)  # [frames, 3]

        def moved(place: Array, by: Array) -> Array:
            cosine, sine = np.cos(by[:, 2])[:, None], np.sin(by[:, 2])[:, None]
            x, y = place[..., 0], place[..., 1]
            turned = np.stack([cosine * x - sine * y, sine * x + cosine * y], -1)
            result: Array = turned + by[:, None, :2]
            return result

        first = moved(offset, change[:-1])
        second = moved(offset + motions.shift, change[1:])
        position = first + middle
        inside = ((position >= 0) & (position <= [SIZE[1] - 1, SIZE[0] - 1])).all(-1)
        return replace(motions, position=position, shift=second - first, weight=motions.weight * inside)


def _smoothed(path: Array, width: float) -> Array:
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    padded = np.pad(path, ((reach, reach), (0, 0)), mode="reflect", reflect_type="odd")
    return np.column_stack([np.convolve(column, kernel / kernel.sum(), mode="valid") for column in padded.T])


def _reduced(scene: Scene) -> Scene:
    """The scene at a few points per cell, without masks, in double precision."""
    rows, columns = GRID
    small = (rows * POINTS, columns * POINTS)
    scale = torch.diag(torch.tensor([small[1] / SIZE[1], small[0] / SIZE[0], 1.0])).to(scene.curve.coefficients)
    curve = replace(scene.curve, coefficients=scale @ scene.curve.coefficients)
    surfaces = replace(scene.surfaces, mask=torch.full_like(scene.surfaces.mask, OPAQUE))
    return replace(scene, size=small, curve=curve, surfaces=surfaces).to("cpu", torch.float64)


def motions_of(
    kind: str, number: int, seed: int, cache: Path | None, textures: TextureLibrary
) -> tuple[ClipMotions, float]:
    """The motions of a clip and its true gamma, from the cache if it has them."""
    path = None if cache is None else cache / f"stress_{seed}_{kind}_{number:03d}.npz"
    if path is not None and path.exists():
        stored = np.load(path)
        return ClipMotions(stored["place"], stored["shift"], stored["weight"], SIZE), float(stored["gamma"])
    clip = SimulatedClip(kind, number, seed, textures)
    found = clip.motions()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, place=found.position, shift=found.shift, weight=found.weight, gamma=clip.gamma)
    return found, clip.gamma


def verdict(found: Calibration, gamma: float, kind: str) -> str:
    """`right`, `wrong`, `open`, or `recognised`: open, since its frames were altered."""
    if not found.determined:
        return "recognised" if found.altered else "open"
    if found.is_global or gamma < GLOBAL_GAMMA:
        return "right" if found.is_global and gamma < MAX_HALF_WIDTH_GLOBAL else "wrong"
    held = found.low <= gamma <= found.high and found.scan == "top-down"
    return "right" if held and kind not in ALTERED else "wrong"


def holds(found: Calibration, gamma: float) -> bool:
    """Whether the interval holds a gamma that is read top-down."""
    along = gamma if found.scan == "top-down" else -gamma
    return found.least <= along <= found.high


def summary(title: str, results: Iterable[tuple[str, float, Calibration]]) -> None:
    """Print the figures of a group of clips."""
    results = list(results)
    verdicts = [verdict(found, gamma, kind) for kind, gamma, found in results]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("right", "wrong", "open", "recognised"))
    held = sum(holds(found, gamma) for _, gamma, found in results)
    vacuous = sum(found.low <= 0.0 and found.high >= 1.0 for _, _, found in results)
    errors = [abs(found.gamma - gamma) for kind, gamma, found in results if found.determined and kind not in ALTERED]
    print(
        f"{title:16s} {len(results):3d} clips: {counts}; interval holds the recorded gamma in {held} "
        f"({held / max(1, len(results)):.1%}), {vacuous} claim nothing"
        + (f"; median error of the determined {np.median(errors):.4f}" if errors else ""),
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=40, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--kinds", nargs="*", default=KINDS, choices=KINDS)
    options = parser.parse_args()
    textures = texture_library(torch.Generator().manual_seed(0), variety=1, resolution=32)
    everything: list[tuple[str, float, Calibration]] = []
    for kind in options.kinds:
        results: list[tuple[str, float, Calibration]] = []
        for number in range(options.first, options.first + options.clips):
            motions, gamma = motions_of(kind, number, options.seed, options.cache, textures)
            started = time.process_time()
            found = checked_readout(motions)
            results.append((kind, gamma, found))
            print(
                f"{kind} {number:3d} {motions.pairs:3d} pairs  true {gamma:.3f}  found {found.gamma:.3f} "
                f"({found.least:.3f} to {found.high:.3f}) {found.scan:9s} {verdict(found, gamma, kind):10s} "
                f"change {found.change:5.2f}  {time.process_time() - started:.1f} s  {found.reason}",
                flush=True,
            )
        summary(kind, results)
        everything += results
    summary("all", everything)
    summary("with a readout", [result for result in everything if result[0] not in ALTERED])
    summary("determined", [result for result in everything if result[2].determined])


if __name__ == "__main__":
    main()
