from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from typer.testing import CliRunner

from qrsc.calibrate.grey_frames import open_clip
from qrsc.cli.app import app
from qrsc.geometry import find_motion
from qrsc.geometry.camera_motion import CameraMotion
from qrsc.geometry.export import export_clip
from qrsc.geometry.find_motion import find_camera_motion
from qrsc.geometry.motion_report import motion_text
from qrsc.geometry.rotations import rotation_matrices, rotation_vectors
from qrsc.media.image_folder import read_frame, write_frame
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import Readout, Scan
from qrsc.video.readout import ReadoutOptions

Array = npt.NDArray[np.float64]
SIZE, FRAMES, GAMMA = (240, 320), 16, 0.7


def shaken_world() -> World:
    """A scene filmed from a shaking hand; see `qrsc.simulate.camera.styles`."""
    generator = torch.Generator().manual_seed(4)
    textures = texture_library(generator, resolution=128)
    return sample_scenes(1, SIZE, "hand shake", generator, textures=textures, frames=FRAMES, speed=6.0)


@pytest.fixture(scope="module")
def world() -> World:
    return shaken_world()


def write_clip(folder: Path, world: World, readout: Readout) -> Path:
    for number in range(FRAMES):
        write_frame(folder / f"{number:03d}.png", render_rs(world.scene, readout, number)[0])
    return folder


@pytest.fixture(scope="module")
def clip(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("shake"), world, Readout(GAMMA))


def turn_errors(found: Array, times: Array, world: World) -> Array:
    """`[T, 3]`, degrees by which rotations from the camera `[T, 3, 3]` differ from the truth, after the best turn."""
    true = world.camera.pose(torch.tensor(times))[0][0].numpy().transpose(0, 2, 1)
    left, _, right = np.linalg.svd(np.einsum("tij,tkj->ik", true, found))
    turn = left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right
    return np.degrees(rotation_vectors(true.transpose(0, 2, 1) @ turn @ found))


def rms(errors: Array) -> float:
    return float(np.sqrt((errors**2).sum(1).mean()))


def integrated(rows: list[list[float]], fps: float) -> tuple[Array, Array]:
    """Times in frame intervals and rotations `[T, 3, 3]` in the camera's axes, as Gyroflow integrates a log."""
    axes = np.diag([1.0, -1.0, -1.0])  # Gyroflow's y is up and z towards the viewer
    times, turned, current = [], [], np.eye(3)
    for before, (second, gx, gy, gz) in zip([rows[0], *rows[:-1]], rows, strict=True):
        current = current @ rotation_matrices(np.array([-gy, gx, gz]) * (second - before[0]))
        times.append(second * fps + 0.5 * GAMMA)
        turned.append(axes @ current @ axes)
    return np.array(times), np.stack(turned)


@pytest.fixture(scope="module")
def log(clip: Path, world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clip's rotation as Gyroflow reads it."""
    focal = float(world.camera.focal(torch.zeros(1))[0, 0])
    output = tmp_path_factory.mktemp("log") / "clip.gcsv"
    return export_clip(clip, output, "gyroflow", ReadoutOptions(gamma=GAMMA, fps=30.0), focal=focal)


def test_the_rotation_in_a_gyroflow_log(log: Path, world: World) -> None:
    """A hand shake in a scene that nothing fills: such clips have to be under 0.1° each."""
    lines = log.read_text().splitlines()
    assert lines[:2] == ["GYROFLOW IMU LOG", "version,1.3"]
    header = dict(line.split(",", 1) for line in lines[1 : lines.index("t,gx,gy,gz")])
    assert float(header["frame_readout_time"]) == pytest.approx(GAMMA * 1000 / 30, abs=1e-3)
    assert header["frame_readout_direction"] == "0"
    assert header["orientation"] == "XYZ"
    scales = [float(header["tscale"]), *[float(header["gscale"])] * 3]
    rows = [
        [scale * float(value) for scale, value in zip(scales, line.split(","), strict=True)]
        for line in lines[lines.index("t,gx,gy,gz") + 1 :]
    ]
    times, turned = integrated(rows, 30.0)
    within = (times >= 0.0) & (times <= FRAMES - 1 + GAMMA)
    errors = turn_errors(turned[within], times[within], world)
    true = turn_errors(np.tile(np.eye(3), (int(within.sum()), 1, 1)), times[within], world)
    assert rms(true) > 1.0  # the camera turns
    assert rms(errors) < 0.04  # degrees; 0.018, and 0.059 from frame to frame alone


def test_gyroflows_own_reader_reads_the_log(log: Path) -> None:
    parser = pytest.importorskip("telemetry_parser", reason="telemetry-parser, of the extra camera, is not installed")
    read = parser.Parser(str(log)).normalized_imu()
    lines = log.read_text().splitlines()
    samples = [line.split(",") for line in lines[lines.index("t,gx,gy,gz") + 1 :]]
    assert len(read) == len(samples)
    for index in (0, len(read) // 2, len(read) - 1):
        expected = np.degrees([1e-6 * float(value) for value in samples[index][1:]])
        np.testing.assert_allclose(read[index]["gyro"], expected, atol=1e-3)


@pytest.mark.parametrize("scan", ["bottom-up", "right-left"])  # flipped; transposed and flipped
def test_rotation_and_its_standard_errors_in_the_other_scans(world: World, scan: Scan, tmp_path: Path) -> None:
    readout = Readout(GAMMA, scan)
    folder = write_clip(tmp_path, world, readout)
    focal = float(world.camera.focal(torch.zeros(1))[0, 0])
    motion = find_camera_motion(open_clip(folder, 30.0), readout, focal=focal)
    errors = turn_errors(motion.rotations(motion.times), motion.times, world)
    assert rms(errors) < 0.04  # degrees; 0.024 and 0.028, and 0.06 from frame to frame alone
    predicted = np.degrees(motion.standard_errors(motion.times)[:, :3])
    assert 0.2 < float(np.sqrt((predicted**2).mean())) / float(np.sqrt((errors**2).mean())) < 5.0


def test_a_path_that_is_known() -> None:
    """Turning right at a steady rate while moving ahead: a circle."""
    count = 60
    path = np.zeros((count, 6))
    path[:, 1], path[:, 5] = 0.05 * np.arange(count) / 2, 0.1 * np.arange(count) / 2  # two coefficients per frame
    motion = CameraMotion(path, np.stack([path, path]), 20, 300.0, True, 0.5, Readout(0.5), 30.0, (240, 320), 0.1)
    times = np.array([0.0, 4.0, 10.3])
    np.testing.assert_allclose(
        rotation_vectors(motion.rotations(times)), 0.05 * times[:, None] * [0.0, 1.0, 0.0], atol=1e-9
    )
    radius = 0.1 / 0.05
    circle = np.stack([radius * (1 - np.cos(0.05 * times)), 0 * times, radius * np.sin(0.05 * times)], 1)
    np.testing.assert_allclose(motion.positions(times), circle, atol=1e-3)
    np.testing.assert_allclose(motion.zoom(times), np.exp(0.05 * times))
    np.testing.assert_allclose(motion.standard_errors(times), 0.0, atol=1e-12)
    off = np.zeros_like(path)
    off[:, 5] = 0.01 * np.arange(count) / 2  # the spread of two is as large as its standard error
    uncertain = replace(motion, spread=np.stack([path - off, path + off]))
    np.testing.assert_allclose(uncertain.zoom_standard_errors(times), np.exp(0.05 * times) * 0.5 * 0.01 * times)
    lost = replace(motion, weak=(3,)).zoom_standard_errors(times)
    assert lost[0] == 0.0
    assert lost[1] > 0.0


def test_the_command(clip: Path, tmp_path: Path) -> None:
    short, count = tmp_path / "short", 10
    short.mkdir()
    for number in range(count):
        (short / f"{number:03d}.png").symlink_to(clip / f"{number:03d}.png")
    table, plot = tmp_path / "motion.csv", tmp_path / "motion.png"
    command = ["motion", str(short), "--gamma", str(GAMMA), "-o", str(table), "--plot", str(plot), "--per-frame", "2"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "found with the motion" in result.output
    assert "yaw (right): over" in result.output
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == 2 * count
    assert float(rows[1]["time"]) == pytest.approx(0.5 * GAMMA + 0.5)
    assert float(rows[5]["std_ry"]) > 0.0
    assert float(rows[5]["std_zoom"]) > 0.0
    assert read_frame(plot).frame.shape == (3, 660, 760)
    assert CliRunner().invoke(app, command).exit_code == 2  # the files exist
    printed = CliRunner().invoke(app, ["motion", str(short), "--gamma", str(GAMMA), "--focal", "250", "--json"])
    figures = json.loads(printed.stdout)
    assert len(figures["rotation_vector"]) == len(figures["zoom_standard_error"]) == count
    assert figures["focal"] == 250.0


def test_what_has_no_motion(tmp_path: Path) -> None:
    for number in range(3):
        write_frame(tmp_path / f"{number}.png", torch.rand(3, 64, 64))
    with pytest.raises(ValueError, match="at least 8 frames"):
        find_camera_motion(open_clip(tmp_path), Readout(0.5))
    with pytest.raises(ValueError, match="focal length must be positive"):
        find_camera_motion(open_clip(tmp_path), Readout(0.5), focal=-1.0)


def test_a_focal_length_no_camera_has_is_not_believed(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_clip(clip, 30.0)
    fitted = find_motion._fitted
    monkeypatch.setattr(find_motion, "_fitted", lambda *given: replace(fitted(*given), inverse_focal_squared=0.0))
    motion = find_camera_motion(source, Readout(GAMMA))
    assert motion.focal_assumed
    assert motion.focal == float(max(source.size))
    assert "assumed, since the clip does not determine it" in motion_text(motion)
