from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.media.image_folder import read_frame, write_frame

HEIGHT, WIDTH, FRAMES, GAMMA = 192, 256, 40, 0.7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A textured plane filmed from an unsteady hand: every row is cut out of it at the place of its time."""
    path = tmp_path_factory.mktemp("clip")
    noise = np.random.default_rng(0).normal(size=(HEIGHT + 80, WIDTH + 80)).astype(np.float32)
    plane = np.clip(0.5 + 2.2 * cv2.GaussianBlur(noise, (0, 0), 3.0), 0, 1)
    x, y = np.meshgrid(np.arange(WIDTH, dtype=np.float32), np.arange(HEIGHT, dtype=np.float32))
    for number in range(FRAMES):
        time = number + GAMMA * y / HEIGHT
        right = 40 + 10 * np.sin(0.9 * time) + 6 * np.sin(0.53 * time + 1.0)
        down = 40 + 8 * np.sin(0.7 * time + 2.0) + 5 * np.sin(1.3 * time)
        seen = cv2.remap(plane, (x + right).astype(np.float32), (y + down).astype(np.float32), cv2.INTER_CUBIC)
        write_frame(path / f"{number:03d}.png", torch.from_numpy(seen).expand(3, -1, -1))
    return path


def test_calibrate_finds_the_readout_of_pictures(folder: Path, tmp_path: Path) -> None:
    plot, sheet = tmp_path / "curve.png", tmp_path / "sheet.png"
    options = ["--json", "--fps", "25", "--plot", str(plot), "--sweep", str(sheet)]
    result = CliRunner().invoke(app, ["calibrate", str(folder), *options])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert {"gamma", "low", "high", "readout_ms", "scan", "determined", "reason"} <= set(found)
    assert found["determined"] is True
    assert found["scan"] == "top-down"
    assert found["gamma"] == pytest.approx(GAMMA, abs=0.03)
    assert found["low"] <= GAMMA <= found["high"]
    assert found["readout_ms"] == pytest.approx(found["gamma"] * 40.0, abs=0.01)
    assert read_frame(plot).frame.shape == (3, 360, 640)
    assert read_frame(sheet).frame.shape == (3, 2 * HEIGHT + 4, 3 * WIDTH + 8)


def test_calibrate_says_when_a_clip_does_not_tell(folder: Path, tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.png").write_bytes((folder / "000.png").read_bytes())
    result = CliRunner().invoke(app, ["calibrate", str(tmp_path)])
    assert result.exit_code == 3
    assert "not determined" in result.stdout
    assert "stands still" in result.stdout
    assert json.loads(CliRunner().invoke(app, ["calibrate", str(tmp_path), "--json"]).stdout)["gamma"] is None


def test_calibrate_refuses_what_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["calibrate", str(tmp_path / "none.mp4")])
    assert result.exit_code == 2


def test_cameras_lists_and_filters() -> None:
    result = CliRunner().invoke(app, ["cameras", "hero5 black", "--fps", "30", "--size", "2704x1520"])
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2
    assert "30.03" in result.stdout
    rows = json.loads(CliRunner().invoke(app, ["cameras", "hero5 black", "--json"]).stdout)
    assert {row["model"] for row in rows} == {"HERO5 Black"}
    assert CliRunner().invoke(app, ["cameras", "qqqqzzzz"]).exit_code == 2


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_cameras_does_not_list_others_for_an_unknown_one(options: list[str]) -> None:
    result = CliRunner().invoke(app, ["cameras", "iphone 13", *options])
    assert result.exit_code == 2
    assert result.output.startswith("error: the camera 'iphone 13' is not known; nearest: Apple iPhone 12, ")
