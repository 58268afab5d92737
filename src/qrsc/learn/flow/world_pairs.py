"""Training pairs from random scenes with any readout, any scan direction, slow and fast motion."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from qrsc.learn.flow.pairs import FlowPairs, render_pairs
from qrsc.learn.pool.world_settings import LONGEST_EXPOSURE
from qrsc.simulate.camera.styles import MIXED, draw_speeds
from qrsc.simulate.paint.library import TextureLibrary
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import SCANS, Readout

GAMMAS = (0.1, 1.0)
BLURRED_SHARE = 0.15  # of the calls render motion blur


@dataclass
class WorldPairs:
    """Renders pairs of frames of random scenes; call it with a generator.

    Attributes:
        textures: on the device that renders.
        size: `(height, width)` of the frames.
        scenes: rendered per call.
        frames: consecutive frames of each; a call gives `scenes (frames - 1)` pairs.
        progress: share of the training that is done, 0 to 1. Speeds grow from a third of the usual at the start to the
            usual ones at half of the training, so that matching is learned where it is easy.
    """

    textures: TextureLibrary
    size: tuple[int, int]
    scenes: int = 8
    frames: int = 3
    progress: float = 1.0

    def __call__(self, generator: torch.Generator) -> FlowPairs:
        """Render new pairs."""
        gamma, scan, blur, exposure = torch.rand(4, generator=generator).tolist()
        readout = Readout(GAMMAS[0] + (GAMMAS[1] - GAMMAS[0]) * gamma, SCANS[int(scan * len(SCANS))])
        speed_factor = min(1.0, 1.0 / 3.0 + 4.0 / 3.0 * self.progress)
        speed = speed_factor * draw_speeds(self.scenes, self.size[1], generator)
        world = sample_scenes(
            self.scenes, self.size, MIXED, generator, textures=self.textures, frames=self.frames, speed=speed
        )
        blurred = LONGEST_EXPOSURE * exposure if blur < BLURRED_SHARE else 0.0
        return render_pairs(world.scene, readout, range(self.frames), exposure=blurred)
