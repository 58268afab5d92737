"""Training samples of the fusion from random scenes, corrected with flows that have the errors of real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.flow import ConfidentFlows, FlowEstimator, FlowPair
from qrsc.fusion import AlignedFrames
from qrsc.learn.fusion.alignment import Alignment, AlignmentMotion, clip_flows
from qrsc.learn.fusion.samples import FusionSamples, join_samples
from qrsc.learn.pool.augment import in_bytes
from qrsc.learn.pool.world_settings import LONGEST_EXPOSURE
from qrsc.simulate.camera.sensor import Sensor, apply_sensor, sample_sensor
from qrsc.simulate.paint.library import TextureLibrary
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.render.surfaces import Scene
from qrsc.simulate.render.truth import distortion_field, rs_flow
from qrsc.simulate.scene.worlds import sample_scenes
from qrsc.timing import SCANS, Readout
from qrsc.warp import Interpolation, backward_warp

# Most scenes move smoothly, with the speeds and readouts of the test sets: the network can learn only what neighbouring
# frames or the content of the frame can correct. On 18 samples of mixed styles with speeds of 0.8 to 10 % of the width,
# exact flows instead of estimated ones did not change the mean fusion (32.8 dB), while exact fields would give 36.5:
# most of the squared error is motion between frames that no quadratic model follows. With speeds up to 40 % of the
# width (a fifth of the samples was above 10 %) hopeless samples of 19 dB outweighed those of 35 to 40 dB a hundredfold.
STYLE_SHARES = {
    "driving": 0.3,
    "walking": 0.2,
    "panning": 0.1,
    "roll": 0.08,
    "zoom": 0.07,
    "drone": 0.05,
    "hand shake": 0.2,
}
SPEEDS = (0.6, 10.0)  # per cent of the width per frame interval, log-uniform between the two
GAMMAS = (0.25, 1.0)
TRUE_FLOW_SHARE = 0.4  # of the calls use the true flow with simulated errors instead of an estimate
# The kind of clip whose frames a call shows: three frames, or two at the start or the end of the clip. The motion is
# estimated from the frames of that clip alone: flow to one side at its ends, a camera path from two to seven frames.
CLIP_SHARES = {"whole": 0.6, "three": 0.1, "end": 0.15, "pair": 0.15}
INNER_SHARES = {"whole": 0.85, "three": 0.15}  # the same for samples of three frames only
MIDDLE_SHARE = 0.75  # of the calls have the middle row as target instant, the others any that is closest to this frame
# An error of 5 % in gamma costs up to 1.7 dB that no fusion recovers.
GAMMA_OFF_SHARE = 0.2
GAMMA_ERROR = 0.02  # relative standard deviation of the error of gamma
BLURRED_SHARE = 0.08  # of the calls have motion blur; each takes as long as five others
# Real frames are softer, noisy and compressed. There sharper sampling costs 0.15 to 0.5 dB, while it gains 0.7 dB on
# simulated clips without camera effects. The network has to tell the two apart.
CAMERA_SHARE = 0.5  # of the calls simulate lens, sensor and compression
CAMERA_EFFECTS = ("blur", "noise", "compression")
NOISE = 0.025  # largest standard deviation of the noise of the others
MISPLACED = 3.0  # pixels, typical displacement of motion boundaries at the largest simulated flow error


@dataclass
class WorldSamples:
    """Renders samples of random scenes; call it with a generator.

    Attributes:
        textures: on the device that renders.
        size: `(height, width)` of the frames.
        flow: estimates flows; None uses true flow with simulated errors for all samples.
        scenes: rendered per call.
        frames: consecutive frames of each, 5 or more; a call gives `scenes (frames - 4)` samples of three frames.
        speed: factor on the usual image speeds.
        styles: share of the calls for each camera motion of `qrsc.simulate.camera.styles.STYLES`.
        speeds: range in per cent of the width per frame interval, log-uniform.
        gammas: range of the readout ratio, uniform.
        camera: share of the calls that simulate lens, sensor and compression.
        effects: what the camera adds, of `qrsc.simulate.camera.sensor.EFFECTS`.
        noise: largest standard deviation of the noise of the other calls.
        grainy_truth: the truth has noise like the frames, but of its own. A network trained with noisy frames and a
            clean truth learns to denoise, and removes fine detail with the noise.
        clips: share of the calls for each kind of clip; see `CLIP_SHARES`.
        motion: the motion model that corrects the frames to one instant; see `Alignment`.
        interpolation: of the frames.
    """

    textures: TextureLibrary
    size: tuple[int, int]
    flow: FlowEstimator | None = None
    scenes: int = 8
    frames: int = 7
    speed: float = 1.0
    styles: Mapping[str, float] = field(default_factory=lambda: STYLE_SHARES)
    speeds: tuple[float, float] = SPEEDS
    gammas: tuple[float, float] = GAMMAS
    camera: float = CAMERA_SHARE
    effects: Sequence[str] = CAMERA_EFFECTS
    noise: float = NOISE
    grainy_truth: bool = False
    clips: Mapping[str, float] = field(default_factory=lambda: CLIP_SHARES)
    motion: AlignmentMotion = "path"
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        if self.frames < 5:
            raise ValueError(f"a sample needs five frames, three and their neighbours; got {self.frames}.")
        if not set(self.clips) <= set(CLIP_SHARES):
            raise ValueError(f"clips are one or more of {', '.join(CLIP_SHARES)}; got {', '.join(self.clips)}.")

    @torch.no_grad()
    def __call__(self, generator: torch.Generator) -> FusionSamples:
        """Render new samples."""
        rand = dict(zip(_DRAWN, torch.rand(len(_DRAWN), generator=generator).tolist(), strict=True))
        normal = float(torch.randn((), generator=generator))
        low, high = self.gammas
        readout = Readout(low + (high - low) * rand["gamma"], SCANS[int(rand["scan"] * len(SCANS))])
        tau = 0.5 * readout.gamma + (0.0 if rand["middle"] < MIDDLE_SHARE else rand["tau"] - 0.5)
        exposure = LONGEST_EXPOSURE * rand["exposure"] if rand["blur"] < BLURRED_SHARE else 0.0
        speed = self.speed * _speeds(self.scenes, self.size[1], self.speeds, generator)
        style = _chosen(self.styles, rand["style"])
        scene = sample_scenes(
            self.scenes, self.size, style, generator, textures=self.textures, frames=self.frames, speed=speed
        ).scene
        frames = torch.stack(
            [render_rs(scene, readout, k, exposure=exposure, exposures=5) for k in range(self.frames)], 1
        )
        filmed = rand["camera"] < self.camera
        camera = sample_sensor(self.scenes, self.frames, generator, effects=self.effects if filmed else ())
        noise = self.noise * rand["noise"] ** 2
        frames = in_bytes(apply_sensor(frames, camera, generator) if filmed else _noisy(frames, noise, generator))
        flows: list[ConfidentFlows] = []
        if self.motion == "none":
            pass  # frames are not corrected
        elif self.flow is None or rand["true flow"] < TRUE_FLOW_SHARE:
            flows = _true_flows(scene, readout, self.frames, generator)
        else:
            flows = clip_flows(frames, self.flow)
        off = 1.0 + GAMMA_ERROR * normal if rand["gamma off"] < GAMMA_OFF_SHARE else 1.0
        taken = Readout(min(1.0, readout.gamma * off), readout.scan)

        def clip(first: int, last: int) -> Alignment:
            part = frames[:, first : last + 1], flows[first:last]
            return Alignment(*part, taken, motion=self.motion, interpolation=self.interpolation)

        shown = _chosen(self.clips, rand["clip"])
        side = 0 if shown in ("whole", "three") else -1 if rand["side"] < 0.5 else 1
        whole = clip(0, self.frames - 1) if shown == "whole" else None
        parts = []
        for centre in range(2, self.frames - 2):
            before, after = (centre - 1 if side <= 0 else centre), (centre + 1 if side >= 0 else centre)
            first = before if shown in ("three", "pair") or side > 0 else 0
            last = after if shown in ("three", "pair") or side < 0 else self.frames - 1
            align = clip(first, last) if whole is None else whole
            aligned = align(range(before - first, after + 1 - first), centre - before, tau)
            aligned = _completed(aligned, side)
            truth = render_gs(scene, centre + tau, exposure=exposure, exposures=5)
            truth = _through_camera(truth, camera, generator, self.grainy_truth)
            if self.grainy_truth and not filmed:
                truth = _noisy(truth, noise, generator)
            parts.append(
                FusionSamples(
                    aligned.frames,
                    aligned.correction_fields,
                    aligned.valid,
                    aligned.time_distance,
                    torch.full((self.scenes,), taken.gamma, device=frames.device),
                    truth,
                    distortion_field(scene, readout, centre, centre + tau)[1],
                    torch.full((self.scenes,), side, device=frames.device),
                )
            )
        return join_samples(parts)


_DRAWN = (
    "gamma",
    "scan",
    "middle",
    "tau",
    "exposure",
    "blur",
    "noise",
    "true flow",
    "gamma off",
    "clip",
    "side",
    "style",
    "camera",
)


def _speeds(batch: int, width: int, shares: tuple[float, float], generator: torch.Generator) -> Tensor:
    """Random image speeds in pixels per frame interval, from a range in per cent of the width: `[B]`."""
    low, high = (math.log(0.01 * width * share) for share in shares)
    return torch.exp(low + (high - low) * torch.rand(batch, generator=generator, dtype=torch.float64))


def _chosen(shares: Mapping[str, float], drawn: float) -> str:
    """A name drawn by the shares, for a uniform random number between 0 and 1."""
    total = 0.0
    for name, share in shares.items():
        total += share
        if drawn < total:
            return name
    return list(shares)[-1]  # the shares may add up to slightly less than 1


def _completed(aligned: AlignedFrames, side: int) -> AlignedFrames:
    """Three frames: a black one that is not valid replaces a missing neighbour; see `FusionSamples.side`."""
    if side == 0:
        return aligned

    def padded(values: Tensor) -> Tensor:
        blank = torch.zeros_like(values[:, :1])
        return torch.cat([values, blank] if side < 0 else [blank, values], 1)

    return AlignedFrames(
        padded(aligned.frames),
        padded(aligned.correction_fields),
        padded(aligned.valid),
        padded(aligned.time_distance),
        1,
        aligned.gamma,
    )


def _noisy(frames: Tensor, noise: float, generator: torch.Generator) -> Tensor:
    """Frames `[B, N, 3, H, W]` with noise whose standard deviation grows with the square root of the signal."""
    seed = int(torch.randint(2**31, (), generator=generator))
    grain = torch.randn(frames.shape, generator=torch.Generator(frames.device).manual_seed(seed), device=frames.device)
    return frames + noise * (0.3 + frames.clamp_min(0.0).sqrt()) * grain


def _through_camera(picture: Tensor, camera: Sensor, generator: torch.Generator, grainy: bool) -> Tensor:
    """The true frame `[B, 3, H, W]` with the lens blur of the camera, with its noise if grainy, not compressed."""
    kept = replace(camera, quality=None, video=None) if grainy else Sensor(blur=camera.blur)
    if all(getattr(kept, each.name) is None for each in fields(kept)):
        return picture
    return apply_sensor(picture[:, None], kept, generator)[:, 0]


def _true_flows(scene: Scene, readout: Readout, count: int, generator: torch.Generator) -> list[ConfidentFlows]:
    """True flows between neighbouring frames, with simulated errors."""
    forward = [rs_flow(scene, readout, k, k + 1)[0] for k in range(count - 1)]
    backward = [rs_flow(scene, readout, k + 1, k)[0] for k in range(count - 1)]
    strength = torch.rand(scene.batch, generator=generator).to(scene.device)
    pairs = zip(_degraded(forward, strength, generator), _degraded(backward, strength, generator), strict=True)
    return [ConfidentFlows(FlowPair(there, back), None, None) for there, back in pairs]


def _degraded(flows: Sequence[Tensor], strength: Tensor, generator: torch.Generator) -> list[Tensor]:
    """Flows `[B, 2, H, W]` with errors like those of an estimate: smooth noise, partly proportional to the motion, and
    displaced and blurred motion boundaries.

    Args:
        strength: of the errors, `[B]`, 0 to 1.
    """
    strong = strength.reshape(-1, 1, 1, 1).square()
    results = []
    for flow in flows:
        coarse, fine, place = (_smooth_noise(flow, cells, generator) for cells in (32, 8, 16))
        # Sample the flow at displaced positions: this changes it at motion boundaries only.
        moved = backward_warp(flow, MISPLACED * strong * place).image
        blurred = F.avg_pool2d(F.pad(moved, (2, 2, 2, 2), mode="replicate"), 5, 1)
        moved = torch.lerp(moved, blurred, (2.0 * strong).clamp(max=1.0))
        length = torch.linalg.vector_norm(moved, dim=1, keepdim=True)
        results.append(moved + strong * ((0.8 + 0.04 * length) * coarse + 0.5 * fine))
    return results


def _smooth_noise(like: Tensor, cell: int, generator: torch.Generator) -> Tensor:
    """Smooth noise: unit-variance noise on a grid with this spacing in pixels, upsampled to `[B, 2, H, W]`."""
    height, width = like.shape[-2:]
    small = torch.randn(len(like), 2, -(-height // cell) + 1, -(-width // cell) + 1, generator=generator)
    return F.interpolate(small.to(like), size=(height, width), mode="bicubic", align_corners=False)
