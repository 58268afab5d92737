"""Render a clip frame by frame: what a camera records of a scene, with ground truth.

Convention
    Pictures are `[3, H, W]`, RGB in [0, 1]; fields and flows `[2, H, W]` (dx, dy) in pixels; masks `[1, H, W]`, bool.
    Frame `k` starts its readout at time `k`. `first` and `middle` are the instants at which the first and the middle
    row are exposed. A mask is defined on the global-shutter grid: it is true where the point seen there is also visible
    in the rolling-shutter frame of the same number, so that a correction of that frame alone can recover it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from qrsc.data.layouts import Kind
from qrsc.simulate.camera.motion_paths import Camera
from qrsc.simulate.camera.sensor import Sensor, apply_sensor
from qrsc.simulate.render.rows import render_gs, render_rs, row_times
from qrsc.simulate.render.surfaces import Scene
from qrsc.simulate.render.truth import correction_field, distortion_field, rs_flow, rs_kinematics
from qrsc.timing import Readout

KINDS: tuple[Kind, ...] = get_args(Kind)
TruthGroup = Literal["flows", "fields", "motion", "camera"]
TRUTH_GROUPS: tuple[TruthGroup, ...] = get_args(TruthGroup)

# The meaning of each array of the ground truth, as also written to `truth.json`.
TRUTH_NAMES: dict[TruthGroup, dict[str, str]] = {
    "flows": {
        "flow_prev": "[2, H, W] px, from the rolling-shutter frame to the previous one; not in the first frame",
        "flow_prev_visible": "[1, H, W] bool, the point is seen there",
        "flow_next": "[2, H, W] px, from the rolling-shutter frame to the next one; not in the last frame",
        "flow_next_visible": "[1, H, W] bool, the point is seen there",
    },
    "fields": {
        "correction_field_first": "[2, H, W] px, RS to GS at the first row's instant, on the RS grid",
        "correction_field_first_visible": "[1, H, W] bool, the point is seen in the GS frame",
        "distortion_field_first": "[2, H, W] px, GS at the first row's instant to RS, on the GS grid",
        "distortion_field_first_visible": "[1, H, W] bool, the point is seen in the RS frame",
        "correction_field_middle": "[2, H, W] px, RS to GS at the middle row's instant, on the RS grid",
        "correction_field_middle_visible": "[1, H, W] bool, the point is seen in the GS frame",
        "distortion_field_middle": "[2, H, W] px, GS at the middle row's instant to RS, on the GS grid",
        "distortion_field_middle_visible": "[1, H, W] bool, the point is seen in the RS frame",
    },
    "motion": {
        "depth": "[1, H, W] m along the optical axis, on the RS grid; 0 where there is nothing",
        "velocity": "[2, H, W] px per frame interval, on the RS grid",
        "acceleration": "[2, H, W] px per frame interval squared, on the RS grid",
    },
    "camera": {
        "row_time": "[N] absolute times of the N rows (columns of a sideways scan), in frame intervals",
        "rotation": "[N, 3, 3] from the world to the camera (x right, y down, z ahead), at the time of each row",
        "position": "[N, 3] of the camera in the world, m, at the time of each row",
        "intrinsics": "[N, 3, 3] camera matrix, px, at the time of each row",
    },
}


@dataclass(frozen=True)
class ClipFrame:
    """One frame with its ground truth.

    Attributes:
        number: of the frame; its readout starts at that time.
        pictures: by kind: `[3, H, W]`, masks `[1, H, W]` bool. The rolling-shutter frame is always included.
        truth: by the names in `TRUTH_NAMES`; empty if none was requested.
    """

    number: int
    pictures: dict[Kind, Tensor]
    truth: dict[str, Tensor] = field(default_factory=dict)


@torch.no_grad()
def render_clip(
    scene: Scene,
    readout: Readout,
    frames: int,
    *,
    kinds: Collection[Kind] = KINDS,
    truth: Collection[TruthGroup] = (),
    camera: Camera | None = None,
    exposure: float = 0.0,
) -> Iterator[ClipFrame]:
    """Generate the frames of a clip on the scene's device.

    Args:
        scene: one scene (a batch of 1).
        readout: of its camera.
        frames: length of the clip, which starts at time 0.
        kinds: of pictures to render; the rolling-shutter frame is always included.
        truth: groups of `TRUTH_NAMES` to compute.
        camera: of the scene; required for the group `camera`.
        exposure: exposure time of each row and of the ground truth, in frame intervals; over 0 gives motion blur.
    """
    if scene.batch != 1:
        raise ValueError(f"a clip shows one scene, got a batch of {scene.batch}.")
    if frames < 1:
        raise ValueError(f"a clip needs at least one frame, got {frames}.")
    unknown = sorted(set(truth) - set(TRUTH_GROUPS))
    if unknown:
        raise ValueError(f"unknown truth {', '.join(unknown)}; choose from {', '.join(TRUTH_GROUPS)}.")
    if camera is None and "camera" in truth:
        raise ValueError("the truth group camera needs the camera of the scene, but no camera was given.")
    for number in range(frames):
        pictures: dict[Kind, Tensor] = {"rolling": render_rs(scene, readout, number, exposure=exposure)[0]}
        values: dict[str, Tensor] = {}
        if "flows" in truth:
            values |= _flows(scene, readout, number, frames)
        for at, picture, mask in _INSTANTS:
            time = number + readout.instant(at)
            if picture in kinds:
                pictures[picture] = render_gs(scene, time, exposure=exposure)[0]
            if mask in kinds or "fields" in truth:
                fields = _fields(scene, readout, number, time, at, with_correction="fields" in truth)
                if mask in kinds:
                    pictures[mask] = fields[f"distortion_field_{at}_visible"]
                if "fields" in truth:
                    values |= fields
        if "motion" in truth:
            motion = rs_kinematics(scene, readout, number)
            values |= {
                "depth": motion.depth[0],
                "velocity": motion.velocity[0],
                "acceleration": motion.acceleration[0],
            }
        if "camera" in truth and camera is not None:
            values |= _camera_truth(camera, row_times(scene, readout, number).flatten())
        yield ClipFrame(number, pictures, values)


@torch.no_grad()
def recorded(frames: Iterable[ClipFrame], sensor: Sensor, generator: torch.Generator) -> Iterator[ClipFrame]:
    """Apply a sensor to frames; the ground truth gets the same colours, but no blur, noise or compression.

    Args:
        frames: from `render_clip`.
        sensor: of one clip (a batch of 1) at least as long as this one.
        generator: for the noise.
    """
    clean = sensor.without_damage()
    before: Tensor | None = None
    for frame in frames:
        pictures = dict(frame.pictures)
        for kind, picture in frame.pictures.items():
            if not kind.endswith("_mask"):
                chosen = (sensor if kind == "rolling" else clean).at_frames([frame.number])
                pictures[kind] = apply_sensor(picture[None, None], chosen, generator, before)[0, 0]
        before = pictures["rolling"][None]
        yield replace(frame, pictures=pictures)


_INSTANTS: tuple[tuple[Literal["first", "middle"], Kind, Kind], ...] = (
    ("first", "first", "first_mask"),
    ("middle", "middle", "middle_mask"),
)


def _flows(scene: Scene, readout: Readout, number: int, frames: int) -> dict[str, Tensor]:
    values: dict[str, Tensor] = {}
    for step, name in ((-1, "flow_prev"), (1, "flow_next")):
        if 0 <= number + step < frames:
            flow, visible = rs_flow(scene, readout, number, number + step)
            values |= {name: flow[0], f"{name}_visible": visible[0]}
    return values


def _fields(
    scene: Scene, readout: Readout, number: int, time: float, at: str, *, with_correction: bool
) -> dict[str, Tensor]:
    values: dict[str, Tensor] = {}
    if with_correction:
        field, visible = correction_field(scene, readout, number, time)
        values |= {f"correction_field_{at}": field[0], f"correction_field_{at}_visible": visible[0]}
    field, visible = distortion_field(scene, readout, number, time)
    return values | {f"distortion_field_{at}": field[0], f"distortion_field_{at}_visible": visible[0]}


def _camera_truth(camera: Camera, times: Tensor) -> dict[str, Tensor]:
    rotation, position = camera.pose(times)
    return {
        "row_time": times,
        "rotation": rotation[0],
        "position": position[0],
        "intrinsics": camera.intrinsics(times)[0],
    }
