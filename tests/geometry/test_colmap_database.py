from __future__ import annotations

import csv
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.geometry.colmap_database import correct_database
from qrsc.geometry.match_chains import chain_matches
from qrsc.points import FitOptions, Lens
from qrsc.timing import Readout
from tests.points.point_tracks import SIZE, Tracks, quadratic_tracks

pycolmap = pytest.importorskip("pycolmap", reason="pycolmap, of the extra sfm, is not installed")

READOUT = Readout(0.8)
PARAMETERS = (500.0, 320.0, 240.0, -0.08)


def write_database(path: Path, tracks: Tracks, *, model: str = "SIMPLE_RADIAL", verified: bool = False) -> None:
    """Keypoints of every frame in a shuffled order, matched between frames up to two apart."""
    database = pycolmap.Database.open(path)
    parameters = PARAMETERS if model == "SIMPLE_RADIAL" else (500.0, 500.0, 320.0, 240.0, 0.1)
    camera = pycolmap.Camera(model=model, width=SIZE[1], height=SIZE[0], params=parameters)
    number = database.write_camera(camera)
    shuffled = np.random.default_rng(0)
    orders = []
    for index, frame in enumerate(tracks.seen):
        order = shuffled.permutation(np.flatnonzero(tracks.inside[index].numpy()))
        orders.append({int(point): place for place, point in enumerate(order)})
        image = database.write_image(pycolmap.Image(name=f"clip/frame{index + 8}.png", camera_id=number))
        keypoints = np.ones((len(order), 4), np.float32)
        keypoints[:, :2] = frame[order].numpy() + 0.5
        database.write_keypoints(image, keypoints)
    for first, earlier in enumerate(orders):
        for step in (1, 2):
            if first + step < len(orders):
                later = orders[first + step]
                pairs = np.array([(earlier[p], later[p]) for p in earlier if p in later], np.uint32)
                database.write_matches(first + 1, first + step + 1, pairs)
                if verified:
                    geometry = pycolmap.TwoViewGeometry()
                    geometry.inlier_matches = pairs
                    database.write_two_view_geometry(first + 1, first + step + 1, geometry)
    database.close()


@pytest.fixture
def tracks() -> Tracks:
    lens = Lens.from_colmap("SIMPLE_RADIAL", PARAMETERS)
    return quadratic_tracks(READOUT, frames=6, points=120, lens=lens, speed=8.0)


def read(path: Path, what: Callable[[Any], object]) -> Any:
    database = pycolmap.Database.open(path)
    try:
        return what(database)
    finally:
        database.close()


def keypoints_of(path: Path, number: int) -> Any:
    return read(path, lambda database: database.read_keypoints(number))


def test_keypoints_move_and_all_else_stays(tracks: Tracks, tmp_path: Path) -> None:
    source, output, times = tmp_path / "raw.db", tmp_path / "out.db", tmp_path / "times.csv"
    write_database(source, tracks, verified=True)
    before = source.read_bytes()
    report = correct_database(source, output, READOUT, write_times=times, options=FitOptions())
    assert source.read_bytes() == before
    for index, true in enumerate(tracks.true):
        raw, new = (keypoints_of(path, index + 1) for path in (source, output))
        order = np.random.default_rng(0)
        for earlier in range(index + 1):
            shown = order.permutation(np.flatnonzero(tracks.inside[earlier].numpy()))
        seen = tracks.inside.sum(0).numpy()[shown] >= 3
        error = np.hypot(*(new[:, :2] - 0.5 - true[shown].numpy()).T)
        assert error[seen].max() < 0.02
        assert np.hypot(*(raw[:, :2] - new[:, :2]).T)[seen].mean() > 0.5
        np.testing.assert_array_equal(raw[:, 2:], new[:, 2:])
    assert read(output, lambda d: [i.name for i in d.read_all_images()]) == [f"clip/frame{n}.png" for n in range(8, 14)]
    assert read(output, lambda d: d.read_all_cameras()[0].params.tolist()) == list(PARAMETERS)
    assert read(output, lambda d: d.num_matches()) == read(source, lambda d: d.num_matches()) > 0
    assert read(output, lambda d: d.num_verified_image_pairs()) == 0
    assert report.cleared == 9
    assert report.keypoints == int(tracks.inside.sum()) == report.by_tracks + report.unchanged
    assert report.median_shift > 0.5
    assert "9 two-view geometries were cleared: verify the matches again" in report.text()
    rows = list(csv.DictReader(times.open()))
    assert len(rows) == report.keypoints
    first = read(source, lambda d: d.read_keypoints(1))[0, 1] - 0.5
    assert float(rows[0]["alpha"]) == pytest.approx(0.8 * first / SIZE[0], abs=1e-5)
    assert float(rows[0]["row_fraction"]) == pytest.approx(first / SIZE[0], abs=1e-5)


def test_frames_left_out_count_by_the_numbers_in_their_names(tracks: Tracks, tmp_path: Path) -> None:
    source = tmp_path / "raw.db"
    write_database(source, tracks)
    correct_database(source, tmp_path / "a.db", READOUT)
    with sqlite3.connect(source) as connection:
        connection.execute("UPDATE images SET name = 'clip/frame99.png' WHERE image_id = 6")
    correct_database(source, tmp_path / "b.db", READOUT, spacing=1.0)
    same, last = ([keypoints_of(tmp_path / f"{name}.db", number) for name in "ab"] for number in (2, 6))
    np.testing.assert_allclose(same[0], same[1], atol=0.3)  # the path is another one without the last frame
    raw = read(source, lambda d: d.read_keypoints(6))
    np.testing.assert_array_equal(last[1], raw)  # nothing within reach of it


def test_chains_have_one_keypoint_in_an_image() -> None:
    contradicting = {(0, 1): np.array([[0, 0], [1, 1], [2, 1]]), (1, 2): np.array([[0, 0]]), (0, 2): np.array([[1, 0]])}
    first, second, third = chain_matches([3, 2, 1], [0.0, 1.0, 2.0], contradicting, reach=3.0)
    assert second.tolist() == [first[0], first[1]]
    assert third.tolist() == [first[0]]
    assert len(set(first.tolist())) == 3
    assert chain_matches([1, 1], [0.0, 5.0], {(0, 1): np.array([[0, 0]])}, reach=3.0)[1].tolist() == [1]


def test_images_correct_keypoints_without_a_track(tmp_path: Path) -> None:
    """A plane that moves evenly, seen by a rolling shutter; the keypoints have no matches."""
    noise = np.random.default_rng(0).normal(size=(200, 260)).astype(np.float32)
    plane = np.clip(128 + 300 * cv2.GaussianBlur(noise, (0, 0), 2.5), 0, 255)
    x, y = np.meshgrid(np.arange(160, dtype=np.float32), np.arange(120, dtype=np.float32))
    (tmp_path / "images").mkdir()
    database = pycolmap.Database.open(tmp_path / "raw.db")
    camera = database.write_camera(pycolmap.Camera(model="SIMPLE_PINHOLE", width=160, height=120, params=[150, 80, 60]))
    for number in range(3):
        right = 20 + 6 * (number + 0.8 * y / 120)
        seen = cv2.remap(plane, (x + right).astype(np.float32), y + 20, cv2.INTER_CUBIC)
        cv2.imwrite(str(tmp_path / "images" / f"{number}.png"), seen)
        image = database.write_image(pycolmap.Image(name=f"{number}.png", camera_id=camera))
        database.write_keypoints(image, np.array([[80.5, 10.5], [80.5, 60.5], [80.5, 110.5]], np.float32))
    database.close()
    report = correct_database(tmp_path / "raw.db", tmp_path / "out.db", READOUT, images=tmp_path / "images")
    assert (report.by_tracks, report.by_images, report.unchanged) == (0, 9, 0)
    moved = read(tmp_path / "out.db", lambda d: d.read_keypoints(2))[:, 0] - 80.5
    rows = torch.tensor([10.0, 60.0, 110.0])
    np.testing.assert_allclose(moved, -6 * (0.4 - 0.8 * rows / 120), atol=0.1)
    with pytest.raises(FileNotFoundError, match="--images is the folder that the names in the database start from"):
        correct_database(tmp_path / "raw.db", tmp_path / "again.db", READOUT, images=tmp_path)
    assert not (tmp_path / "again.db").exists()


def test_what_is_no_database_of_colmap(tracks: Tracks, tmp_path: Path) -> None:
    text, other, newer, unknown = (tmp_path / f"{name}.db" for name in ("text", "other", "newer", "unknown"))
    text.write_text("no database at all, but a text that is long enough to be looked at by SQLite " * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    write_database(newer, tracks)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 9010000")
    write_database(unknown, tracks, model="FOV")
    output = tmp_path / "out.db"
    for path, message in (
        (text, "not a COLMAP database"),
        (other, "no table cameras, images"),
        (newer, r"written by COLMAP 9\.1.*pip install --upgrade pycolmap"),
        (unknown, "unknown camera model 'FOV'; choose one of"),
    ):
        before = path.read_bytes()
        with pytest.raises(ValueError, match=message):
            correct_database(path, output, READOUT)
        assert path.read_bytes() == before
        assert not output.exists()
    with pytest.raises(FileNotFoundError, match="there is no file"):
        correct_database(tmp_path / "absent.db", output, READOUT)
    with pytest.raises(ValueError, match="the original is never touched"):
        correct_database(newer, newer, READOUT)


def test_an_older_database_is_read_and_stays_as_it_is(tracks: Tracks, tmp_path: Path) -> None:
    source = tmp_path / "old.db"
    write_database(source, tracks)
    with sqlite3.connect(source) as connection:
        connection.execute("PRAGMA user_version = 3900")
    before = source.read_bytes()
    assert correct_database(source, tmp_path / "new.db", READOUT).by_tracks > 0
    assert source.read_bytes() == before


def test_the_command(tracks: Tracks, tmp_path: Path) -> None:
    source, output = tmp_path / "raw.db", tmp_path / "out.db"
    write_database(source, tracks)
    command = ["points", str(source), "-o", str(output)]
    result = CliRunner().invoke(app, [*command, "--readout", "26.667", "--fps", "30"])
    assert result.exit_code == 0, result.output
    assert "corrected by their tracks" in result.output
    again = CliRunner().invoke(app, [*command, "--gamma", "0.8"])
    assert again.exit_code == 2
    assert "--overwrite" in again.output
    unsaid = CliRunner().invoke(app, command)
    assert unsaid.exit_code == 2
    assert "give the readout once" in unsaid.output
