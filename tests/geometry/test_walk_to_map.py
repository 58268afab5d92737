from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap, of the extra sfm, is not installed")

SCRIPT = Path(__file__).parents[2] / "examples" / "walk_to_map.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    sys.path.insert(0, str(SCRIPT.parent))  # as when it is run: it imports the file beside it
    spec = importlib.util.spec_from_file_location("walk_to_map", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["walk_to_map"] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SCRIPT.parent))
    return module


def test_the_example_at_a_small_size(example: ModuleType, tmp_path: Path) -> None:
    scores, maps = example.run_scene(tmp_path, 100, style="walking", gamma=0.8, frames=6, size=(240, 320), always=True)
    assert set(scores) == set(example.WAYS)
    # Six small frames are too few for poses to compare; the keypoints are not.
    keypoints = {}
    for way in ("raw", "corrected", "flow", "true"):
        with pycolmap.Database.open(tmp_path / f"{way}.db") as database:
            keypoints[way] = np.concatenate([database.read_keypoints(number + 1)[:, :2] for number in range(6)])
    before, after = (np.hypot(*(keypoints[way] - keypoints["true"]).T) for way in ("raw", "corrected"))
    moved = (keypoints["corrected"] != keypoints["raw"]).any(1)
    assert moved.mean() > 0.5
    assert np.median(after[moved]) < 0.2 * np.median(before[moved])
    by_flow = np.hypot(*(keypoints["flow"] - keypoints["true"]).T)
    assert np.median(by_flow) < 0.5 * np.median(before)
    assert scores["corrected"] is not None
    assert scores["corrected"].registered == 6
    results = [("0", scores)]
    assert "| **median of 1** | corrected | 6 |" in example.table(results)
    assert example.error_plot(results).std() > 0
    assert example.clouds(maps).std() > 0


def test_pose_errors_ignore_the_choice_of_the_world(example: ModuleType) -> None:
    generator = np.random.default_rng(0)
    rotations = np.stack([np.linalg.qr(generator.normal(size=(3, 3)))[0] for _ in range(5)])
    rotations *= np.linalg.det(rotations)[:, None, None]
    centres = generator.normal(size=(5, 3))
    turn = rotations[0]
    moved = rotations @ turn.T, 3.0 * centres @ turn.T + [1.0, 2.0, 3.0]
    assert example.pose_errors(*moved, rotations, centres) == pytest.approx((0.0, 0.0), abs=1e-4)
    off = centres.copy()
    off[0, 0] += 0.1
    assert example.pose_errors(rotations, off, rotations, centres)[1] > 0.1
