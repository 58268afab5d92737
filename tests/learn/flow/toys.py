"""A network and scenes that are small enough to be trained in a test."""

from __future__ import annotations

from dataclasses import replace

import torch

from qrsc.learn.flow.pairs import FlowPairs, render_pairs
from qrsc.simulate.camera.curves import polynomial_layers
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.textures import band_limited
from qrsc.simulate.render.surfaces import INFINITE, Scene, Surface, Surfaces
from qrsc.timing import SCANS, Readout

from ...flow.raft_rs.tiny_network import TINY as TINY_NETWORK

TINY = replace(TINY_NETWORK, fine_steps=1)
SIZE = (64, 96)


class LayeredPairs:
    """Renders pairs of a textured background with a rectangle before it, both with random motion."""

    def __init__(self, scenes: int = 4, size: tuple[int, int] = SIZE, fastest: float = 6.0) -> None:
        self.scenes, self.size, self.fastest = scenes, size, fastest
        generator = torch.Generator().manual_seed(5)
        self.colours = build_atlas([band_limited(128, 128, generator) for _ in range(4)])
        self.masks = build_atlas([torch.ones(1, 2, 2)])

    def __call__(self, generator: torch.Generator) -> FlowPairs:
        height, width = self.size
        affine = torch.zeros(self.scenes, 2, 2, 2, 3)
        affine[:, :, 0] = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
        affine[:, :, 1, :, 2] = self.fastest * (2.0 * torch.rand(self.scenes, 2, 2, generator=generator) - 1.0)
        curve = polynomial_layers(affine, torch.tensor([[2.0, 1.0]]).expand(self.scenes, 2))
        scenes = []
        for _ in range(self.scenes):
            s, t, left, top = torch.rand(4, generator=generator).tolist()
            box = (left * 0.5 * width, top * 0.5 * height, (left + 1) * 0.5 * width, (top + 1) * 0.5 * height)
            first, second = torch.randint(4, (2,), generator=generator).tolist()
            texture_map = ((1 / 96, 0.0, s), (0.0, 1 / 96, t))
            scenes.append([Surface(INFINITE, first, texture_map), Surface(box, second, texture_map)])
        scene = Scene(
            self.size, curve, Surfaces.of(scenes), self.colours, self.masks, torch.full((self.scenes, 3), 0.5)
        )
        gamma, scan = torch.rand(2, generator=generator).tolist()
        return render_pairs(scene, Readout(0.1 + 0.9 * gamma, SCANS[int(4 * scan)]), (0, 1))
