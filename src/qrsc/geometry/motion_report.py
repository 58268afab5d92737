"""The camera's motion as a table, a picture and a few words."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from qrsc.geometry.camera_motion import CameraMotion
from qrsc.geometry.rotations import rotation_vectors
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame

Array = npt.NDArray[np.float64]

PANEL = (220, 760)  # pixels
_COLOURS = ((0, 114, 178), (213, 94, 0), (0, 158, 115))  # RGB, told apart by colour-blind readers, too
_INK, _GRID, _WEAK = (26, 30, 36), (216, 222, 230), (238, 240, 243)
ROTATION, TRANSLATION = ("pitch (up)", "yaw (right)", "roll (clockwise)"), ("right", "down", "ahead")


def motion_text(motion: CameraMotion) -> str:
    """What a user wants to know at once."""
    times = motion.times
    degrees = np.degrees(motion.coordinates(times)[:, :3])
    errors = np.degrees(motion.standard_errors(times)[:, :3]).mean(0)
    spans = np.ptp(degrees, axis=0)
    focal = f"focal length {motion.focal:.0f} px, {motion.focal_origin}"
    lines = [f"{motion.frames} frames, {focal}"]
    lines.append(
        f"{motion.tracks} points followed over many frames"
        if motion.tracks
        else "too few points can be followed over many frames: angles are summed up from frame to frame, and drift"
    )
    if motion.weak:
        lines.append(
            f"hardly anything can be followed from {len(motion.weak)} of the frames ({motion.weak_ranges}): what is "
            "found there may be the motion of something near, and standard errors are as large"
        )
    lines += [
        f"{name}: over {span:.2f}° (standard error {error:.3f}°)"
        for name, span, error in zip(ROTATION, spans, errors, strict=True)
    ]
    way = motion.positions(times)
    length = float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
    lines.append(
        f"way: {length:.3g} of the typical distance of the scene; picture enlarged by {_enlarged(motion):+.1%}"
    )
    return "\n".join(lines)


def _enlarged(motion: CameraMotion) -> float:
    zoom = motion.zoom(motion.times)
    return float(zoom[-1] / zoom[0] - 1.0)


def motion_figures(motion: CameraMotion) -> dict[str, object]:
    """The same for JSON: one list per quantity, an entry per frame."""
    times = motion.times
    rotations = motion.rotations(times)
    return {
        "frames": motion.frames,
        "fps": motion.fps,
        "gamma": motion.readout.gamma,
        "scan": motion.readout.scan,
        "focal": motion.focal,
        "focal_given": motion.focal_given,
        "focal_assumed": motion.focal_assumed,
        "tracks": motion.tracks,
        "weak_frames": list(motion.weak),
        "time": times.tolist(),
        "rotation_vector": rotation_vectors(rotations).tolist(),
        "rotation_standard_error": motion.standard_errors(times)[:, :3].tolist(),
        "position": motion.positions(times).tolist(),
        "position_standard_error": motion.standard_errors(times)[:, 3:].tolist(),
        "zoom": motion.zoom(times).tolist(),
        "zoom_standard_error": motion.zoom_standard_errors(times).tolist(),
    }


def write_motion_table(path: Path, motion: CameraMotion, *, per_frame: int = 1, overwrite: bool = False) -> None:
    """A CSV file: time, rotation, position and zoom with standard errors, `per_frame` lines per frame interval."""
    times = motion.readout.instant("middle") + np.arange(motion.frames * per_frame) / per_frame
    rotations, errors = motion.rotations(times), motion.standard_errors(times)
    columns = [times, *rotation_vectors(rotations).T]
    columns += [*motion.positions(times).T, motion.zoom(times), *errors.T, motion.zoom_standard_errors(times)]
    names = [
        "time",
        "rx",
        "ry",
        "rz",
        "x",
        "y",
        "z",
        "zoom",
        *(f"std_{name}" for name in ("rx", "ry", "rz", "x", "y", "z", "zoom")),
    ]
    with atomic_file(path, overwrite=overwrite) as work, work.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([f"{value:.8g}" for value in row] for row in zip(*columns, strict=True))


def write_motion_plot(path: Path, motion: CameraMotion, *, overwrite: bool = False) -> None:
    """A PNG: rotation, way and zoom over time, with bands of two standard errors; weak frames are grey."""
    times = np.linspace(0.0, motion.frames - 1 + motion.readout.gamma, 4 * motion.frames)
    coordinates, errors = motion.coordinates(times), motion.standard_errors(times)
    coordinates = coordinates - coordinates.mean(0)
    zoom, zoom_errors = motion.zoom(times)[:, None], motion.zoom_standard_errors(times)[:, None]
    weak = np.array(motion.weak) + motion.readout.instant("middle")
    panels = [
        _panel("rotation, degrees", times, np.degrees(coordinates[:, :3]), np.degrees(errors[:, :3]), ROTATION, weak),
        _panel("way, typical distances of the scene", times, coordinates[:, 3:], errors[:, 3:], TRANSLATION, weak),
        _panel("zoom or moving ahead, factor", times, zoom, zoom_errors, ("zoom",), weak),
    ]
    pixels = np.concatenate(panels)
    with atomic_file(path, overwrite=overwrite) as work:
        write_frame(work, torch.from_numpy(pixels).permute(2, 0, 1).float() / 255.0)


def _panel(
    title: str, times: Array, values: Array, errors: Array, names: tuple[str, ...], weak: Array
) -> npt.NDArray[np.uint8]:
    """Curves `[T, C]` over times `[T]`; steps of one frame interval that begin at `weak` times are grey."""
    import cv2

    height, width = PANEL
    left, right, top, bottom = 70, width - 20, 40, height - 30
    pixels = np.full((height, width, 3), 255, dtype=np.uint8)
    low, high = float((values - 2 * errors).min()), float((values + 2 * errors).max())
    middle, half = 0.5 * (low + high), max(0.55 * (high - low), 1e-6)

    def across(time: Array) -> Array:
        placed: Array = left + (right - left) * np.clip((time - times[0]) / (times[-1] - times[0]), 0.0, 1.0)
        return placed

    def up(value: Array) -> Array:
        placed: Array = 0.5 * (top + bottom) - 0.5 * (bottom - top) * (value - middle) / half
        return placed

    def places(column: Array) -> npt.NDArray[np.int32]:
        return np.stack([across(times), up(column)], 1).round().astype(np.int32)

    for start, end in zip(across(weak), across(weak + 1.0), strict=True):
        cv2.rectangle(pixels, (round(start), top), (round(end), bottom), _WEAK, -1)
    for tick in _ticks(middle - half, middle + half):
        y = round(float(up(np.array(tick))))
        cv2.line(pixels, (left, y), (right, y), _GRID, 1)
        cv2.putText(pixels, f"{tick:.6g}", (6, y + 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
    for column, colour in zip(range(values.shape[1]), _COLOURS, strict=False):
        edges = [places(values[:, column] + sign * 2 * errors[:, column]) for sign in (-1, 1)]
        band = np.zeros((height, width), dtype=np.uint8)
        cv2.fillPoly(band, [np.concatenate([edges[0], edges[1][::-1]])], 255)
        inside = band > 0
        pixels[inside] = (0.75 * pixels[inside] + 0.25 * np.array(colour)).astype(np.uint8)
    for column, (name, colour) in enumerate(zip(names, _COLOURS, strict=False)):
        cv2.polylines(pixels, [places(values[:, column])], False, colour, 1, cv2.LINE_AA)
        cv2.putText(pixels, name, (330 + 140 * column, 22), cv2.FONT_HERSHEY_SIMPLEX, 0.45, colour, 1, cv2.LINE_AA)
    cv2.putText(pixels, title, (left, 22), cv2.FONT_HERSHEY_SIMPLEX, 0.45, _INK, 1, cv2.LINE_AA)
    caption = f"frames {times[0]:g} to {times[-1]:.1f}" + ("; grey: hardly anything can be followed" * (len(weak) > 0))
    cv2.putText(pixels, caption, (left, height - 8), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
    return pixels


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers from `low` to `high`."""
    rough = (high - low) / 4
    power = 10.0 ** np.floor(np.log10(rough))
    step = power * next(each for each in (1, 2, 5, 10) if each * power >= rough)
    return [float(step * number) for number in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]
