"""Accuracy of the readout estimated from simulated clips whose readout is known.

    python benchmarks/calibration.py --photographs DIR [--clips 40] [--still 20] [--seed N] [--cache DIR] [--ablation]

Clips 0, 1, 2 ... alternate between a hand-held and a walking camera, with gamma uniform from 0.25 to 1 and image speeds
from 1 to 6 per cent of the width per frame; clips 100, 101 ... alternate between a steady pan and a still camera. All
contain moving objects, and have lens blur, noise, a tone curve and JPEG-like compression. The motions of finished clips
are kept in the cache folder, so that the estimator can be measured again without rendering. `--ablation` renders a few
frames of every clip that determines its readout again, and compares the correction at the true gamma, the estimated
one and 1 with the true global-shutter frame. Seeds 900, 5000, 7000, 8000 and 8200 (up to clip 16) were used while the
estimator was developed, and the rest of 8200 and 8400 to choose between four estimators; others are unseen.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch

from qrsc.calibrate.cell_motions import ClipMotions, MotionReader
from qrsc.calibrate.estimate import Calibration, estimate_readout
from qrsc.evaluate.metrics.image_quality import psnr
from qrsc.flow.dis import luma_images
from qrsc.learn.pool.world_settings import training_textures
from qrsc.pipeline import Corrector
from qrsc.simulate.camera.sensor import Sensor, apply_sensor, sample_sensor
from qrsc.simulate.camera.styles import STYLES, Style
from qrsc.simulate.paint.library import TextureLibrary
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import Readout

SIZE, FRAMES = (480, 640), 60
FIRST_STILL = 100
STEADY_PAN = Style(drift=(0.05, 0.008, 0.0, 0.0, 0.0, 0.0, 0.0))
ABLATION_FRAMES = range(28, 33)


class Clip:
    """A simulated clip by its number: its world, its sensor, and the readout to estimate."""

    def __init__(self, number: int, textures: TextureLibrary, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed + number)
        gamma, speed = torch.rand(2, 1, generator=self.generator).tolist()
        self.readout = Readout(0.25 + 0.75 * gamma[0])
        self.style = "panning" if number >= FIRST_STILL else ("hand shake", "walking")[number % 2]
        pixels = 0.01 * SIZE[1] * 6.0 ** speed[0]
        if number >= FIRST_STILL and number % 2:
            self.style, pixels = "still", 0.0
        with patch.dict(STYLES, panning=STEADY_PAN):
            drawn = "panning" if number >= FIRST_STILL else self.style
            self.world: World = sample_scenes(
                1, SIZE, drawn, self.generator, textures=textures, frames=FRAMES, speed=pixels
            )
        self.sensor: Sensor = sample_sensor(1, FRAMES, self.generator)

    @torch.no_grad()
    def frame(self, number: int) -> torch.Tensor:
        """A rolling-shutter frame `[1, 3, H, W]`, with the effects of the sensor."""
        clean = render_rs(self.world.scene, self.readout, number)
        return apply_sensor(clean[None], self.sensor.at_frames([number]), self.generator)[0]

    @torch.no_grad()
    def truth(self, number: int) -> torch.Tensor:
        """The global-shutter frame `[1, 3, H, W]` at the middle row, in the same colours."""
        clean = render_gs(self.world.scene, number + self.readout.instant("middle"))
        return apply_sensor(clean[None], self.sensor.without_damage().at_frames([number]), self.generator)[0]


def motions_of(number: int, textures: TextureLibrary, seed: int, cache: Path) -> tuple[ClipMotions, float]:
    """The motions of a clip, from the cache if it has them, and its true gamma."""
    path = cache / f"clip_{seed}_{number:03d}.npz"
    if not path.exists():
        clip = Clip(number, textures, seed)
        reader = MotionReader(SIZE)
        for frame in range(FRAMES):
            reader.take(luma_images(clip.frame(frame))[0])
        found = reader.motions()
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, place=found.position, shift=found.shift, weight=found.weight, gamma=clip.readout.gamma)
    stored = np.load(path)
    return ClipMotions(stored["place"], stored["shift"], stored["weight"], SIZE), float(stored["gamma"])


def ablation(number: int, textures: TextureLibrary, seed: int, found: Calibration) -> list[float]:
    """PSNR of a middle frame uncorrected, and corrected with the true gamma, the estimated one, and 1."""
    clip = Clip(number, textures, seed)
    frames = torch.cat([clip.frame(index) for index in ABLATION_FRAMES])
    truth = clip.truth(ABLATION_FRAMES[2])[0]
    figures = [float(psnr(frames[2], truth))]
    for gamma in (clip.readout.gamma, found.gamma, 1.0):
        # The middle row does not move whatever gamma is used, and its instant is that of the ground truth.
        figures.append(float(psnr(Corrector(Readout(gamma), flow="dis")(frames)[2], truth)))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=Path, help="folder of photographs to texture the scenes with")
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("--still", type=int, default=20)
    parser.add_argument("--seed", type=int, default=5000)
    parser.add_argument("--cache", type=Path, default=Path("calibration-cache"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--ablation", action="store_true")
    options = parser.parse_args()
    textures = training_textures(options.photographs, options.device, variety=4, crops=40)
    numbers = [*range(options.clips), *range(FIRST_STILL, FIRST_STILL + options.still)]
    results, figures = [], []
    for number in numbers:
        motions, gamma = motions_of(number, textures, options.seed, options.cache)
        started = time.process_time()
        found = estimate_readout(motions)
        seconds = time.process_time() - started
        results.append((number, gamma, found))
        word = "determined" if found.determined else "open"
        print(
            f"{number:3d}  true {gamma:.3f}  found {found.gamma:.3f} ({found.low:.3f} to {found.high:.3f}) {word:10s} "
            f"{found.scan:10s}  speed {found.speed:5.1f}  change {found.change:5.2f}  {seconds:.1f} s",
            flush=True,
        )
        if options.ablation and found.determined and number < FIRST_STILL:
            figures.append(ablation(number, textures, options.seed, found))
            print("     PSNR as it is, true, found, 1:", "  ".join(f"{value:.2f}" for value in figures[-1]), flush=True)
    summary([result for result in results if result[0] < FIRST_STILL], "moving")
    summary([result for result in results if result[0] >= FIRST_STILL], "still or steady")
    if figures:
        means = np.mean(figures, axis=0)
        print("mean PSNR as it is, true, found, 1:", "  ".join(f"{value:.2f}" for value in means))
        lost = [true - found for _, true, found, _ in figures]
        print(f"lost by the found gamma, dB: mean {np.mean(lost):.3f}, at most {max(lost):.3f}, of {len(lost)} clips")


def summary(results: list[tuple[int, float, Calibration]], title: str) -> None:
    """Print the accuracy over a group of clips."""
    if not results:
        return
    inside = [found.low <= gamma <= found.high for _, gamma, found in results]
    sure = [(gamma, found) for _, gamma, found in results if found.determined]
    print(f"{title}: {len(results)} clips, {len(sure)} determined, interval holds the truth in {np.mean(inside):.0%}")
    if sure:
        errors = np.array([abs(found.gamma - gamma) for gamma, found in sure])
        right = np.mean([found.scan == "top-down" for _, found in sure])
        held = np.mean([found.low <= gamma <= found.high for gamma, found in sure])
        print(
            f"  determined: median error {np.median(errors):.4f}, 95 % {np.quantile(errors, 0.95):.4f}, "
            f"largest {errors.max():.4f}, interval holds it in {held:.0%}, scan right in {right:.0%}"
        )


if __name__ == "__main__":
    main()
