from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.geometry.export import export_clip
from qrsc.geometry.formats import gsplat_views, kalibr_chain, odm_settings
from qrsc.geometry.rotations import rotation_matrices
from qrsc.geometry.row_poses import FramePoses, row_poses
from qrsc.media.image_folder import read_frame, write_frame
from qrsc.timing import SCANS, Readout
from qrsc.video.correct import correct_video
from qrsc.video.readout import ReadoutOptions

HEIGHT, WIDTH, FRAMES, GAMMA = 120, 160, 9, 0.8
GIVEN = ReadoutOptions(gamma=GAMMA, fps=25.0)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A textured plane filmed from an unsteady hand."""
    folder = tmp_path_factory.mktemp("clip")
    noise = np.random.default_rng(0).normal(size=(HEIGHT + 60, WIDTH + 60)).astype(np.float32)
    plane = np.clip(0.5 + 2.0 * cv2.GaussianBlur(noise, (0, 0), 2.5), 0, 1)
    x, y = np.meshgrid(np.arange(WIDTH, dtype=np.float32), np.arange(HEIGHT, dtype=np.float32))
    for number in range(FRAMES):
        time = number + GAMMA * y / HEIGHT
        right, down = 30 + 9 * np.sin(0.9 * time), 30 + 6 * np.sin(0.7 * time + 1.0)
        seen = cv2.remap(plane, (x + right).astype(np.float32), (y + down).astype(np.float32), cv2.INTER_CUBIC)
        write_frame(folder / f"{number:03d}.png", torch.from_numpy(seen).expand(3, -1, -1))
    return folder


def test_opencv_applies_the_st_maps_as_correct_does(clip: Path, tmp_path: Path) -> None:
    openexr = pytest.importorskip("OpenEXR", reason="OpenEXR, of the extra export, is not installed")
    export_clip(clip, tmp_path / "maps", "stmap", GIVEN, preset="fast")
    correct_video(clip, tmp_path / "straight", gamma=GAMMA, preset="fast", fusion="none", border="repeat", verify=False)
    maps = sorted((tmp_path / "maps").iterdir())
    assert [path.name for path in maps[:2]] == ["stmap.000000.exr", "stmap.000001.exr"]
    assert len(maps) == FRAMES
    worst, moved = math.inf, 0.0
    for number, path in enumerate(maps):
        with openexr.File(str(path)) as file:
            pixels = file.channels()["RGB"].pixels
        frame = read_frame(clip / f"{number:03d}.png").frame.permute(1, 2, 0).numpy()
        straight = read_frame(tmp_path / "straight" / f"{number:03d}.png").frame.permute(1, 2, 0).numpy()
        across, down = pixels[..., 0] * WIDTH - 0.5, (1.0 - pixels[..., 1]) * HEIGHT - 0.5
        applied = cv2.remap(frame, across, down, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
        error = float(np.mean((np.clip(applied, 0, 1) - straight)[4:-4, 4:-4] ** 2))
        worst = min(worst, -10 * math.log10(error))
        moved = max(moved, float(np.abs(applied - frame).mean()))
    assert moved > 0.02
    assert worst > 45.0  # dB


def test_arrays(clip: Path, tmp_path: Path) -> None:
    path = export_clip(clip, tmp_path / "clip.npz", "npz", GIVEN, preset="fast", focal=200.0)
    with np.load(path) as arrays:
        assert arrays["correction_field_000004"].shape[0] == 2
        assert arrays["frame_times"].tolist() == list(range(FRAMES))
        np.testing.assert_allclose(arrays["row_times"], GAMMA * np.arange(HEIGHT) / HEIGHT)
        assert arrays["rotation"].shape == (FRAMES, 3, 3)
        assert arrays["position"].shape == (FRAMES, 3)
        assert arrays["standard_error"].shape == (FRAMES, 6)
        assert arrays["zoom_standard_error"].shape == (FRAMES,)
        about = json.loads(str(arrays["about"]))
        middle = arrays["correction_field_000004"]
    assert about["gamma"] == GAMMA
    assert about["scan"] == "top-down"
    assert np.abs(middle[:, middle.shape[1] // 2]).mean() < np.abs(middle[:, 2]).mean()  # the middle row hardly moves


def test_kalibr_has_the_line_delay() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    chain = yaml.safe_load(kalibr_chain(Readout(0.6), 30.0, (480, 640), 500.0))
    assert chain["cam0"]["line_delay"] == pytest.approx(0.6 / 30 / 480)
    assert chain["cam0"]["intrinsics"] == [500.0, 500.0, 319.5, 239.5]
    assert chain["cam0"]["resolution"] == [640, 480]
    backwards = yaml.safe_load(kalibr_chain(Readout(0.6, "bottom-up"), 30.0, (480, 640), None))
    assert backwards["cam0"]["line_delay"] == pytest.approx(-0.6 / 30 / 480)
    with pytest.raises(ValueError, match="turn its frames by a quarter"):
        kalibr_chain(Readout(0.6, "left-right"), 30.0, (480, 640), None)


def test_odm_has_the_readout_in_milliseconds() -> None:
    settings = json.loads(odm_settings(Readout(0.6), 30.0))
    assert settings == {"rolling-shutter": True, "rolling-shutter-readout": 20.0}
    with pytest.raises(ValueError, match="read top-down, and this clip is read bottom-up"):
        odm_settings(Readout(0.6, "bottom-up"), 30.0)


# --- gsplat ---


def pose_at(time: float) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """World to camera, and position: an accelerated turn about one axis on an accelerated way."""
    turn = rotation_matrices(np.array([0.3, -0.5, 0.2]) * (0.05 * time + 0.01 * time**2))
    return turn.T, np.array([0.3 * time + 0.05 * time**2, 0.02 * time**2, 0.5 * time])


@pytest.mark.parametrize("at", ["first", "middle", "last"])
def test_poses_of_the_first_and_the_last_row(at: Any) -> None:
    readout = Readout(0.8)
    poses = [pose_at(number + readout.instant(at)) for number in range(5)]
    rotations, positions = (np.stack(each) for each in zip(*poses, strict=True))
    known = FramePoses(
        [f"{n}.png" for n in range(5)], np.arange(5.0), rotations, positions, np.tile(np.eye(3), (5, 1, 1))
    )
    starts, ends = row_poses(known, readout, at)
    for number in (1, 2, 3):
        for found, time in ((starts, number), (ends, number + 0.8)):
            rotation, position = pose_at(time)
            np.testing.assert_allclose(found[number, :3, :3], rotation, atol=1e-6)
            np.testing.assert_allclose(found[number, :3, :3].T @ -found[number, :3, 3], position, atol=1e-6)


@pytest.mark.parametrize("scan", SCANS)
def test_gsplat_views(scan: Any) -> None:
    matrices = np.tile(np.eye(4), (2, 1, 1))
    text = gsplat_views(
        ["a", "b"], matrices, 2 * matrices, Readout(0.5, scan), np.tile(np.eye(3), (2, 1, 1)), (480, 640)
    )
    views = json.loads(text)
    first, last = (
        {"top": "top", "bottom": "bottom", "left": "left", "right": "right"}[scan.split("-")[0]],
        scan.split("-")[1],
    )
    ends = {"down": "bottom", "up": "top", "right": "right", "left": "left"}
    assert views["arguments"]["rolling_shutter"] == f"ROLLING_{first}_TO_{ends[last]}".upper()
    assert views["frames"][1]["viewmat_rs"] == (2 * np.eye(4)).tolist()
    assert views["arguments"]["width"] == 640


def test_gsplat_needs_a_model(clip: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder of a COLMAP model"):
        export_clip(clip, tmp_path / "views.json", "gsplat", GIVEN)
    pytest.importorskip("pycolmap", reason="pycolmap, of the extra sfm, is not installed")
    with pytest.raises(ValueError, match=r"neither images\.bin nor images\.txt"):
        export_clip(clip, tmp_path / "views.json", "gsplat", GIVEN, poses=tmp_path)
    assert not (tmp_path / "views.json").exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A COLMAP model of four images of 1024x768."""
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap, of the extra sfm, is not installed")
    options = pycolmap.SyntheticDatasetOptions()
    options.num_rigs, options.num_cameras_per_rig, options.num_frames_per_rig, options.num_points3D = 1, 1, 4, 20
    made = pycolmap.synthesize_dataset(options)
    (tmp_path / "model").mkdir()
    made.write(tmp_path / "model")
    return tmp_path / "model"


def test_gsplat_from_a_model_on_disk(model: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    for number in range(4):
        write_frame(large / f"{number}.png", torch.full((3, 768, 1024), 0.5))
    path = export_clip(large, tmp_path / "views.json", "gsplat", GIVEN, poses=model)
    views = json.loads(path.read_text())
    assert len(views["frames"]) == 4
    assert len(views["arguments"]["Ks"]) == 4


def test_gsplat_refuses_a_model_of_other_images(clip: Path, model: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"of images of 1024x768, .*: give the model that was mapped from this clip"):
        export_clip(clip, tmp_path / "views.json", "gsplat", GIVEN, poses=model)
    assert not (tmp_path / "views.json").exists()


def test_the_command(clip: Path, tmp_path: Path) -> None:
    output = tmp_path / "odm.json"
    command = ["export", str(clip), "--as", "odm", "-o", str(output), "--gamma", "0.5"]
    asked = CliRunner().invoke(app, command)
    assert asked.exit_code == 2
    assert "add --fps" in asked.output
    done = CliRunner().invoke(app, [*command, "--fps", "25"])
    assert done.exit_code == 0, done.output
    assert json.loads(output.read_text())["rolling-shutter-readout"] == 20.0
    assert CliRunner().invoke(app, [*command[:3], "maya", *command[4:]]).exit_code == 2
