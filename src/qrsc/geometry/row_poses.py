"""Poses of a frame's first and last row, from the poses at one instant of each frame."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from qrsc.geometry.colmap_database import frame_numbers, import_pycolmap
from qrsc.geometry.rotations import rotation_matrices, rotation_vectors
from qrsc.media.image_folder import natural_key
from qrsc.timing import Instant, Readout

Array = npt.NDArray[np.float64]
FURTHEST = 3.0  # frame intervals: poses further apart say nothing of the motion within one frame


@dataclass(frozen=True)
class FramePoses:
    """Poses of the frames of a clip, each at one instant.

    Attributes:
        names: of the images, in the order of time.
        times: `[N]`, when each frame starts, in frame intervals.
        rotations: `[N, 3, 3]`, from the world to the camera.
        positions: `[N, 3]`, of the camera in the world.
        intrinsics: `[N, 3, 3]`, camera matrices without the lens.
    """

    names: list[str]
    times: Array
    rotations: Array
    positions: Array
    intrinsics: Array


def read_poses(folder: Path, size: tuple[int, int]) -> FramePoses:
    """The poses of a COLMAP model of a clip with frames of `size`, height and width."""
    pycolmap = import_pycolmap()
    if not any((folder / f"images.{suffix}").is_file() for suffix in ("bin", "txt")):
        raise ValueError(f"{folder} is not a COLMAP model: it has neither images.bin nor images.txt.")
    try:
        model = pycolmap.Reconstruction(folder)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"COLMAP cannot read the model {folder}: {' '.join(str(error).split())}") from error
    images = sorted((each for each in model.images.values() if each.has_pose), key=lambda each: natural_key(each.name))
    if len(images) < 2:
        raise ValueError(f"the model {folder} has {len(images)} posed images; the motion within a frame needs two.")
    cameras = [model.cameras[image.camera_id] for image in images]
    other = next(((each.height, each.width) for each in cameras if (each.height, each.width) != size), None)
    if other is not None:
        raise ValueError(
            f"the model {folder} is of images of {other[1]}x{other[0]}, the clip's frames are {size[1]}x{size[0]}: "
            "give the model that was mapped from this clip, at its full size."
        )
    names = [image.name for image in images]
    poses = [image.cam_from_world() for image in images]
    return FramePoses(
        names,
        np.array(frame_numbers(names), dtype=np.float64),
        np.stack([pose.rotation.matrix() for pose in poses]),
        np.stack([image.projection_center() for image in images]),
        np.stack([camera.calibration_matrix() for camera in cameras]),
    )


def row_poses(poses: FramePoses, readout: Readout, at: Instant) -> tuple[Array, Array]:
    """World-to-camera matrices `[N, 4, 4]` of the first and the last row of each frame.

    Rotation and position follow a parabola through the poses before, of and after the frame, as points do; at the ends
    of a clip, and beside a gap, a straight line.
    """
    wait = -readout.gamma * {"first": 0.0, "middle": 0.5, "last": 1.0}[at]  # from the instant to the first row
    starts, ends = (np.tile(np.eye(4), (len(poses.names), 1, 1)) for _ in range(2))
    for index in range(len(poses.names)):
        velocity, acceleration = _kinematics(poses, index)
        for target, time in ((starts, wait), (ends, wait + readout.gamma)):
            moved = velocity * time + 0.5 * acceleration * time**2  # [6], turn of the camera and way in the world
            rotation = rotation_matrices(moved[:3]).T @ poses.rotations[index]
            target[index, :3, :3] = rotation
            target[index, :3, 3] = -rotation @ (poses.positions[index] + moved[3:])
    return starts, ends


def _kinematics(poses: FramePoses, index: int) -> tuple[Array, Array]:
    """Velocity and acceleration `[6]` of a frame: turn about the camera's own axes, and position in the world."""
    near = []
    for other in (index - 1, index + 1):
        if 0 <= other < len(poses.times) and abs(poses.times[other] - poses.times[index]) <= FURTHEST:
            turn = poses.rotations[index] @ poses.rotations[other].T  # from the other camera to this one
            way = poses.positions[other] - poses.positions[index]
            near.append((poses.times[other] - poses.times[index], np.concatenate([rotation_vectors(turn), way])))
    if not near:
        return np.zeros(6), np.zeros(6)
    if len(near) == 1:
        ((time, shift),) = near
        return shift / time, np.zeros(6)
    (before, shift_before), (after, shift_after) = near
    acceleration = 2.0 * (shift_after / after - shift_before / before) / (after - before)
    return shift_after / after - 0.5 * acceleration * after, acceleration
