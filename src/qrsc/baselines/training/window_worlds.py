"""Training windows from random scenes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor

from qrsc.baselines.training.samples import WindowSamples, join_windows
from qrsc.flow import FlowEstimator
from qrsc.learn.fusion.alignment import clip_flows
from qrsc.learn.fusion.world_samples import CAMERA_EFFECTS, NOISE, SPEEDS, STYLE_SHARES
from qrsc.learn.pool.augment import in_bytes
from qrsc.simulate.camera.sensor import Sensor, apply_sensor, sample_sensor
from qrsc.simulate.paint.library import TextureLibrary
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import Readout

_Kind = TypeVar("_Kind")
# Shares of the calls by their readout ratio, from and to: the published networks are trained at 1 alone, the readout of
# Carla-RS and Fastec-RS; that of BS-RSC is 0.45.
GAMMA_SHARES: Mapping[tuple[float, float], float] = {(1.0, 1.0): 0.4, (0.4, 0.6): 0.3, (0.25, 1.0): 0.3}
CAMERA_SHARE = 0.4  # of the calls simulate lens, sensor and compression


@dataclass
class WindowWorlds:
    """Renders windows of random scenes; call it with a generator.

    Speeds and styles of motion are those of the samples that our own fusion networks are trained with. The scan is
    top-down, which the networks are made for, and frames have no motion blur.

    Attributes:
        textures: on the device that renders.
        size: `(height, width)` of the frames.
        flow: finds the flows between the previous and the current frame, once for all networks.
        scenes: rendered per call.
        frames: consecutive frames of each, 3 or more; a call gives `scenes (frames - 2)` windows.
        gammas: shares of the calls by readout ratio.
        camera: share of the calls that simulate a camera.
    """

    textures: TextureLibrary
    size: tuple[int, int]
    flow: FlowEstimator
    scenes: int = 8
    frames: int = 5
    gammas: Mapping[tuple[float, float], float] = field(default_factory=lambda: GAMMA_SHARES)
    camera: float = CAMERA_SHARE

    def __post_init__(self) -> None:
        if self.frames < 3:
            raise ValueError(f"a window has three frames; got {self.frames}.")

    @torch.no_grad()
    def __call__(self, generator: torch.Generator) -> WindowSamples:
        """Render new windows."""
        place, filmed, noise = torch.rand(3, generator=generator).tolist()
        low, high = _drawn(self.gammas, generator)
        readout = Readout(low + (high - low) * place)
        low, high = (math.log(0.01 * self.size[1] * share) for share in SPEEDS)
        speed = torch.exp(low + (high - low) * torch.rand(self.scenes, generator=generator, dtype=torch.float64))
        scene = sample_scenes(
            self.scenes,
            self.size,
            _drawn(STYLE_SHARES, generator),
            generator,
            textures=self.textures,
            frames=self.frames,
            speed=speed,
        ).scene
        effects = CAMERA_EFFECTS if filmed < self.camera else ()
        camera = sample_sensor(self.scenes, self.frames, generator, effects=effects)
        frames = torch.stack([render_rs(scene, readout, number) for number in range(self.frames)], 1)
        frames = apply_sensor(frames, camera, generator) if effects else _noisy(frames, NOISE * noise**2, generator)
        frames = in_bytes(frames)
        flows = clip_flows(frames, self.flow)

        def truth(time: float) -> Tensor:
            """The true frame with the lens blur of the camera."""
            picture = render_gs(scene, time)
            if camera.blur is None:
                return picture
            return apply_sensor(picture[:, None], Sensor(blur=camera.blur), generator)[:, 0]

        middles = [truth(number + 0.5 * readout.gamma) for number in range(self.frames - 1)]
        gamma = torch.full((self.scenes,), readout.gamma, device=frames.device)
        return join_windows(
            [
                WindowSamples(
                    frames[:, number - 1 : number + 2],
                    torch.stack(tuple(flows[number - 1].flows), 1),
                    gamma,
                    middles[number - 1],
                    truth(float(number)),
                    middles[number],
                )
                for number in range(1, self.frames - 1)
            ]
        )


def _drawn(shares: Mapping[_Kind, float], generator: torch.Generator) -> _Kind:
    """One of the kinds, with these shares."""
    weights = torch.tensor(list(shares.values()))
    return list(shares)[int(torch.multinomial(weights, 1, generator=generator))]


def _noisy(frames: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Frames `[B, N, 3, H, W]` with noise whose standard deviation grows with the square root of the signal."""
    seed = int(torch.randint(2**31, (), generator=generator))
    grain = torch.randn(frames.shape, generator=torch.Generator(frames.device).manual_seed(seed), device=frames.device)
    return frames + noise * (0.3 + frames.clamp_min(0.0).sqrt()) * grain
