"""Training pairs from random worlds: any readout, any scan, slow and fast motion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from qrsc.learn.flow.pairs import FlowPairs, render_pairs
from qrsc.simulate.camera.styles import MIXED, draw_speeds
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.paint.photographs import load_photographs, varied
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import SCANS, Readout

GAMMAS = (0.1, 1.0)
# Part of the batches with motion blur, and the longest exposure in frame intervals.
BLURRED_SHARE = 0.15
LONGEST_EXPOSURE = 0.4


@dataclass
class WorldPairs:
    """Renders pairs of random worlds; call it with a generator.

    Attributes:
        textures: on the device that pairs shall be rendered on.
        size: `(height, width)` of the frames.
        scenes: worlds a call.
        frames: consecutive frames of each; a call gives `scenes (frames - 1)` pairs.
        progress: how much of the training is done, 0 to 1; speeds grow from a third to all of the usual until half of
            it, so that matching is learned where it is easy.
    """

    textures: TextureLibrary
    size: tuple[int, int]
    scenes: int = 8
    frames: int = 3
    progress: Callable[[], float] = lambda: 1.0

    def __call__(self, generator: torch.Generator) -> FlowPairs:
        """New pairs."""
        gamma, scan, blur, exposure = torch.rand(4, generator=generator).tolist()
        readout = Readout(GAMMAS[0] + (GAMMAS[1] - GAMMAS[0]) * gamma, SCANS[int(scan * len(SCANS))])
        hurry = min(1.0, 1.0 / 3.0 + 4.0 / 3.0 * self.progress())
        speed = hurry * draw_speeds(self.scenes, self.size[1], generator)
        world = sample_scenes(
            self.scenes, self.size, MIXED, generator, textures=self.textures, frames=self.frames, speed=speed
        )
        blurred = LONGEST_EXPOSURE * exposure if blur < BLURRED_SHARE else 0.0
        return render_pairs(world.scene, readout, range(self.frames), exposure=blurred)


def training_textures(
    photographs: Path | None, device: torch.device | str, *, variety: int = 8, varieties: int = 160, seed: int = 0
) -> TextureLibrary:
    """What the worlds are covered with: painted textures, and parts of the photographs of a folder if there is one.

    Args:
        variety: painted textures of each kind.
        varieties: textures made from the photographs.
    """
    generator = torch.Generator().manual_seed(seed)
    pictures = []
    if photographs is not None:
        pictures = varied(load_photographs(photographs, longest=768), varieties, generator)
    return texture_library(generator, photographs=pictures, variety=variety).to(device)
