"""From a simulated rolling-shutter walk to a map: COLMAP with raw, corrected and true keypoints, and with frames.

    python examples/walk_to_map.py OUT --scenes 10

For each scene it renders a clip, finds features and matches with pycolmap, and maps the scene with

    global      features of true global-shutter frames
    raw         features of the rolling-shutter frames, as they were seen
    corrected   the same after `qrsc points`
    flow        the same, each corrected by dense optical flow alone
    true        the same, moved by the simulator's exact field: what no correction can beat
    frames      features of frames that `qrsc.correct` has straightened

Random scenes include some that cannot be mapped at all: without parallax, or filled by things that move. A scene is
used if true global-shutter frames alone give a map with all frames and poses within `MOST_ROTATION` and
`MOST_POSITION`; the others are named in the table. All ways share the options and the random seeds of the mapper.

Poses are compared with the simulator's, at the instant of the middle row, after the best similarity transform. OUT gets
`table.md`, `errors.png` (pose and reprojection errors and points scene by scene) and `clouds.png` (the points of the
first scene from above).
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import pycolmap
import torch
from map_report import WAYS, Maps, Score, Scores, clouds, error_plot, table

import qrsc
from qrsc.geometry.colmap_database import correct_database
from qrsc.geometry.image_flow import correct_with_images
from qrsc.points import Lens
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.render.truth import correction_field
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.warp import sample

MOST_ROTATION, MOST_POSITION = 0.25, 2.0  # degrees, and per cent of the camera's path
SEED = 0


@dataclass(frozen=True)
class Clip:
    """A rendered clip on disk with its true poses."""

    folder: Path
    readout: qrsc.Readout
    size: tuple[int, int]
    focal: float
    rotations: np.ndarray  # [N, 3, 3], world to camera
    positions: np.ndarray  # [N, 3]
    fields: list[torch.Tensor]  # [2, H, W], true correction fields, once they are rendered


def create(folder: Path, seed: int, style: str, gamma: float, frames: int, size: tuple[int, int]) -> tuple[Clip, World]:
    """A random world and its camera."""
    generator = torch.Generator().manual_seed(seed)
    textures = texture_library(generator, resolution=256)
    speed = 0.025 * size[1]  # pixels per frame interval
    world = sample_scenes(1, size, style, generator, textures=textures, frames=frames, speed=speed)
    readout = qrsc.Readout(gamma)
    times = torch.arange(frames, dtype=torch.float64) + readout.instant("middle")
    rotations, positions = world.camera.pose(times)
    focal = float(world.camera.focal(times[:1])[0, 0])
    return Clip(folder, readout, size, focal, rotations[0].numpy(), positions[0].numpy(), []), world


def render_global(clip: Clip, world: World) -> None:
    """Render true global-shutter frames."""
    for number in range(len(clip.positions)):
        frame = render_gs(world.scene, number + clip.readout.instant("middle"))[0]
        _write(clip.folder / "global" / f"{number:04d}.png", frame)


def render_rolling(clip: Clip, world: World) -> None:
    """Render rolling-shutter frames and their true correction fields, and straighten the frames."""
    rolling = []
    for number in range(len(clip.positions)):
        rolling.append(render_rs(world.scene, clip.readout, number)[0])
        field, _ = correction_field(world.scene, clip.readout, number, number + clip.readout.instant("middle"))
        clip.fields.append(field[0])
        _write(clip.folder / "raw" / f"{number:04d}.png", rolling[-1])
    for number, straight in enumerate(qrsc.correct(torch.stack(rolling), clip.readout, preset="fast")):
        _write(clip.folder / "frames" / f"{number:04d}.png", straight)


def _write(path: Path, frame: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = (frame.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    cv2.imwrite(str(path), pixels[..., ::-1])


def build_database(clip: Clip, way: str) -> Path:
    """The database of one way, with matches that are not yet verified; those of moved keypoints need that of `raw`."""
    database, raw = clip.folder / f"{way}.db", clip.folder / "raw.db"
    if way in ("raw", "frames", "global"):
        _features_and_matches(database, clip.folder / way, clip)
    elif way == "corrected":
        correct_database(raw, database, clip.readout)
    else:
        shutil.copyfile(raw, database)
        _move_keypoints(database, _by_flow if way == "flow" else _by_field, clip)
    return database


def _move_keypoints(
    path: Path, move: Callable[[list[np.ndarray], list[str], Clip], list[np.ndarray]], clip: Clip
) -> None:
    """Move all keypoints `[K, 2]` of a database; pixel centres lie at integers for `move`, at halves in COLMAP."""
    with pycolmap.Database.open(path) as database:
        images = sorted(database.read_all_images(), key=lambda each: each.name)
        keypoints = [database.read_keypoints(image.image_id) for image in images]
        places = [each[:, :2].astype(np.float64) - 0.5 for each in keypoints]
        for image, each, moved in zip(
            images, keypoints, move(places, [image.name for image in images], clip), strict=True
        ):
            each[:, :2] = moved + 0.5
            database.update_keypoints(image.image_id, each)
        database.clear_two_view_geometries()


def _by_field(places: list[np.ndarray], names: list[str], clip: Clip) -> list[np.ndarray]:
    moved = []
    for each, field in zip(places, clip.fields, strict=True):
        shift = sample(field.float(), torch.from_numpy(each).float().t().unsqueeze(1)).image[:, 0].t()
        moved.append(each + shift.numpy())
    return moved


def _by_flow(places: list[np.ndarray], names: list[str], clip: Clip) -> list[np.ndarray]:
    height, width = clip.size
    lens = Lens.from_colmap("SIMPLE_PINHOLE", [clip.focal, width / 2, height / 2])
    moved = [each.copy() for each in places]
    correct_with_images(
        [clip.folder / "raw" / name for name in names],
        [(float(number), lens, each) for number, each in enumerate(places)],
        moved,
        [np.zeros(len(each), dtype=np.int64) for each in places],
        clip.readout,
        at="middle",
        flow="dis",
        cancel=None,
    )
    return moved


def _features_and_matches(path: Path, images: Path, clip: Clip) -> None:
    height, width = clip.size
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = "SIMPLE_PINHOLE"
    reader.camera_params = f"{clip.focal},{width / 2},{height / 2}"
    features = pycolmap.FeatureExtractionOptions()
    features.use_gpu = False
    features.num_threads = 1
    features.sift.max_num_features = 2000
    matching = pycolmap.FeatureMatchingOptions()
    matching.use_gpu = False
    matching.num_threads = 1
    pairing = pycolmap.SequentialPairingOptions()
    pairing.overlap = 4
    pairing.quadratic_overlap = False
    pycolmap.extract_features(
        path, images, camera_mode=pycolmap.CameraMode.SINGLE, reader_options=reader, extraction_options=features
    )
    pycolmap.match_sequential(path, matching_options=matching, pairing_options=pairing)


def reconstruct(database: Path, images: Path, output: Path) -> pycolmap.Reconstruction | None:
    """Verify the matches and map the scene; the largest map, or None."""
    pairs = output.with_suffix(".txt")
    output.mkdir(parents=True, exist_ok=True)
    with pycolmap.Database.open(database) as opened:
        numbers, _ = opened.read_all_matches()
        names = {image.image_id: image.name for image in opened.read_all_images()}
        opened.clear_two_view_geometries()
    lines = [" ".join(names[number] for number in pycolmap.pair_id_to_image_pair(pair)) for pair in numbers]
    pairs.write_text("\n".join(lines) + "\n")
    pycolmap.set_random_seed(SEED)
    verification = pycolmap.TwoViewGeometryOptions()
    verification.ransac.random_seed = SEED
    verification.ransac.max_error = 1.5
    pycolmap.verify_matches(database, pairs, verification)
    maps = pycolmap.incremental_mapping(database, images, output, mapper_options())
    return max(maps.values(), key=lambda each: each.num_reg_images()) if maps else None


def mapper_options() -> pycolmap.IncrementalPipelineOptions:
    """Options for short clips of a camera with a known focal length.

    Chosen with true keypoints of other scenes. A walk or a drive moves ahead by little, which is the hardest way to
    begin a map: with COLMAP's own limits, maps of true keypoints end with all frames registered and poses off by 5
    degrees.
    """
    options = pycolmap.IncrementalPipelineOptions()
    options.random_seed = SEED
    options.num_threads = 1
    options.multiple_models = False
    options.ba_refine_focal_length = False
    options.ba_refine_extra_params = False
    options.mapper.abs_pose_refine_focal_length = False
    options.mapper.abs_pose_refine_extra_params = False
    options.mapper.init_max_forward_motion = 1.0
    options.mapper.init_min_tri_angle = 2.0
    options.mapper.init_max_error = 1.5
    options.mapper.filter_min_tri_angle = 0.5
    options.mapper.filter_max_reproj_error = 2.0
    options.triangulation.min_angle = 0.5
    options.triangulation.complete_max_reproj_error = 2.0
    options.triangulation.merge_max_reproj_error = 2.0
    return options


def score(found: pycolmap.Reconstruction | None, clip: Clip) -> Score | None:
    """Compare a map with the truth."""
    if found is None or found.num_reg_images() < 4:
        return None
    numbers, rotations, centres = [], [], []
    # In the order of time: the length of the camera's path depends on it.
    for image in sorted(found.images.values(), key=lambda each: each.name):
        if image.has_pose:
            numbers.append(int(Path(image.name).stem))
            pose = image.cam_from_world()
            rotations.append(pose.rotation.matrix())
            centres.append(image.projection_center())
    return Score(
        found.num_reg_images(),
        found.num_points3D(),
        found.compute_mean_reprojection_error(),
        *pose_errors(np.array(rotations), np.array(centres), clip.rotations[numbers], clip.positions[numbers]),
    )


def pose_errors(
    rotations: np.ndarray, centres: np.ndarray, true_rotations: np.ndarray, true_centres: np.ndarray
) -> tuple[float, float]:
    """Median rotation error in degrees and position error in per cent of the path, after the best similarity."""
    # The turn between the two worlds from the rotations: it stays defined where the camera moves along a line.
    turn = _nearest_rotation(np.einsum("nji,njk->ik", true_rotations, rotations))  # true world from found world
    left = true_rotations @ turn @ rotations.transpose(0, 2, 1)
    angles = np.degrees(np.arccos(np.clip((np.trace(left, axis1=1, axis2=2) - 1) / 2, -1, 1)))
    moved = (centres - centres.mean(0)) @ turn.T
    target = true_centres - true_centres.mean(0)
    scale = (moved * target).sum() / (moved**2).sum()
    length = np.linalg.norm(np.diff(true_centres, axis=0), axis=1).sum()
    return float(np.median(angles)), float(100 * np.median(np.linalg.norm(scale * moved - target, axis=1)) / length)


def _nearest_rotation(matrix: np.ndarray) -> np.ndarray:
    left, _, right = np.linalg.svd(matrix)
    return left @ np.diag([1.0, 1.0, np.linalg.det(left @ right)]) @ right


def usable(value: Score | None, frames: int) -> bool:
    """Whether a scene can be mapped at all, from the score of its true global-shutter frames."""
    return (
        value is not None
        and value.registered == frames
        and value.rotation < MOST_ROTATION
        and value.position < MOST_POSITION
    )


def run_scene(
    folder: Path, seed: int, *, style: str, gamma: float, frames: int, size: tuple[int, int], always: bool = False
) -> tuple[Scores, Maps]:
    """All ways of one scene; `global` alone if it is not usable, unless `always`."""
    clip, world = create(folder, seed, style, gamma, frames, size)
    scores: Scores = {}
    maps: Maps = {}
    render_global(clip, world)
    for way in WAYS:
        if way == "raw":
            if not (always or usable(scores["global"], frames)):
                break
            render_rolling(clip, world)
        images = clip.folder / (way if way in ("frames", "global") else "raw")
        maps[way] = reconstruct(build_database(clip, way), images, clip.folder / f"map-{way}")
        scores[way] = score(maps[way], clip)
    return scores, maps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scenes", type=int, default=10, help="how many usable ones")
    parser.add_argument("--first", type=int, default=0, help="number of the first scene")
    parser.add_argument("--frames", type=int, default=12)
    parser.add_argument("--size", type=int, nargs=2, default=(480, 640), metavar=("H", "W"))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    results: list[tuple[str, Scores]] = []
    for index in itertools.count(chosen.first):
        style = ("walking", "driving")[index % 2]
        gamma = 0.4 + 0.6 * (index % 5) / 4
        name = f"{index} {style[:4]} {gamma:.2f}"
        folder = chosen.out / f"scene-{index}"
        scores, maps = run_scene(
            folder, 100 + index, style=style, gamma=gamma, frames=chosen.frames, size=tuple(chosen.size)
        )
        results.append((name, scores))
        used = sum(len(each) > 1 for _, each in results)
        if len(scores) > 1 and used == 1:
            cv2.imwrite(str(chosen.out / "clouds.png"), clouds(maps))
        (chosen.out / "table.md").write_text(table(results))
        if used:
            cv2.imwrite(str(chosen.out / "errors.png"), error_plot(results))
        if used == chosen.scenes:
            break
    print((chosen.out / "table.md").read_text())


if __name__ == "__main__":
    main()
