"""COLMAP databases with corrected keypoints: what `qrsc points` does.

Convention
    COLMAP's keypoints have pixel centres at halves; those of this package lie at integers.
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.geometry.image_flow import correct_with_images
from qrsc.geometry.match_chains import Matches, Numbers, chain_matches
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import natural_key
from qrsc.media.outputs import require_writable
from qrsc.points import FitOptions, Lens, Observations, correct_observations, joined, observe
from qrsc.timing import Instant, Readout

TABLES = frozenset({"cameras", "images", "keypoints", "matches", "two_view_geometries"})
# As measured on simulated walks and drives: docs/lab/geometry.md.
DATABASE_FIT = FitOptions(path=True, robust=True)

Keypoints = npt.NDArray[np.float32]


@dataclass(frozen=True)
class DatabaseReport:
    """What became of a database.

    Attributes:
        output: the corrected database.
        images: how many it has.
        keypoints: in all images.
        by_tracks: keypoints corrected by the tracks they belong to.
        by_images: keypoints without a track, corrected by optical flow between the images.
        unchanged: keypoints whose motion nothing shows.
        median_shift: of the corrected ones, px.
        cleared: two-view geometries that were verified with the old keypoints, and removed.
    """

    output: Path
    images: int
    keypoints: int
    by_tracks: int
    by_images: int
    unchanged: int
    median_shift: float
    cleared: int

    def text(self) -> str:
        """In words, for the command."""
        lines = [
            f"{self.keypoints} keypoints in {self.images} images: {self.by_tracks} corrected by their tracks, "
            f"{self.by_images} by optical flow, {self.unchanged} unchanged",
            f"median shift {self.median_shift:.2f} px",
        ]
        if self.cleared:
            lines.append(
                f"{self.cleared} two-view geometries were cleared: verify the matches again (colmap "
                "geometric_verifier, or pycolmap.verify_matches) before mapping"
            )
        return "\n".join([*lines, f"wrote {self.output}"])


@dataclass(frozen=True)
class _Image:
    """An image of a clip, with what is known of its keypoints."""

    number: int  # COLMAP's
    name: str
    time: float  # frame intervals
    lens: Lens
    size: tuple[int, int]
    keypoints: Keypoints  # [K, 2 or more], COLMAP's

    @property
    def points(self) -> npt.NDArray[np.float64]:
        """`[K, 2]`, pixel centres at integers."""
        return self.keypoints[:, :2].astype(np.float64) - 0.5


def correct_database(
    source: Path,
    output: Path,
    readout: Readout,
    *,
    at: Instant | float = "middle",
    images: Path | None = None,
    flow: str = "dis",
    spacing: float = 1.0,
    write_times: Path | None = None,
    options: FitOptions = DATABASE_FIT,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> DatabaseReport:
    """Write a COLMAP database whose keypoints lie where the points were at the instant of their frame.

    Images, cameras, descriptors and matches stay as they are. Images of one folder are one clip, in the order of their
    names; numbers in the names count frames. Two-view geometries are cleared: they were verified with the old
    keypoints.

    Args:
        source: the database. It is never touched.
        output: the database to write.
        readout: how the frames were read.
        at: the instant: first, middle, last, or a time after the start of the frame.
        images: folder of the images, to correct keypoints without a track by optical flow.
        flow: its name; see `qrsc.flow.load_flow`.
        spacing: frame intervals of the camera from one frame number to the next: 5 if every fifth frame was kept and
            the kept ones are numbered 1, 2, 3.
        write_times: CSV file for the time of each keypoint's row.
        options: how motions are fitted.
        overwrite: replace outputs that exist.
        progress: called for every image.
        cancel: stops the work; nothing is left behind.
    """
    if not spacing > 0.0:
        raise ValueError(f"spacing must be a positive number of frame intervals, got {spacing!r}.")
    require_writable({"OUTPUT": output, "--write-times": write_times}, inputs=[source], overwrite=overwrite)
    _require_database(source)
    with atomic_file(output, overwrite=overwrite) as work:
        # All of it is read from the copy: opening a database of an older version converts it.
        _copy(source, work)
        with _opened(work) as database:
            clips = _clips(database, spacing)
            stage = Stage("correcting", sum(len(clip) for clip in clips), progress, cancel)
            counts = np.zeros(3, dtype=np.int64)
            shifts, rows = [], []
            for clip in clips:
                corrected, how = _correct_clip(database, clip, readout, at, options)
                if images is not None:
                    correct_with_images(
                        [images / image.name for image in clip],
                        [(image.time, image.lens, image.points) for image in clip],
                        corrected,
                        how,
                        readout,
                        at=at,
                        flow=flow,
                        cancel=cancel,
                    )
                for image, points, ways in zip(clip, corrected, how, strict=True):
                    stage.advance()
                    counts += np.bincount(ways, minlength=3)
                    shifts.append(np.hypot(*(points - image.points).T)[ways > 0])
                    keypoints = image.keypoints.copy()
                    keypoints[:, :2] = points + 0.5
                    database.update_keypoints(image.number, keypoints)
                    rows.append((image, _row_times(image, readout)))
            cleared = database.num_verified_image_pairs()
            database.clear_two_view_geometries()
        if write_times is not None:
            _write_times(write_times, rows, readout, overwrite=overwrite)
    every = np.concatenate(shifts)
    return DatabaseReport(
        output,
        len(rows),
        int(counts.sum()),
        int(counts[1]),
        int(counts[2]),
        int(counts[0]),
        float(np.median(every)) if len(every) else 0.0,
        cleared,
    )


# --- one clip ---


def _correct_clip(
    database: Any, clip: list[_Image], readout: Readout, at: Instant | float, options: FitOptions
) -> tuple[list[npt.NDArray[np.float64]], list[Numbers]]:
    """Corrected points `[K, 2]` of each image, and for each point 1 if it was corrected, 0 if not."""
    corrected = [image.points for image in clip]
    how = [np.zeros(len(image.keypoints), dtype=np.int64) for image in clip]
    tracks = chain_matches(
        [len(image.keypoints) for image in clip],
        [image.time for image in clip],
        _matches(database, clip),
        options.reach,
    )
    chosen, observations = _observations(clip, tracks, readout)
    if observations is None:
        return corrected, how
    found = correct_observations(observations, readout, at=at, options=options)
    position, known = np.asarray(found.position), np.asarray(found.corrected)
    for index, image in enumerate(clip):
        part = (chosen[:, 0] == index) & known
        keypoints = chosen[part, 1]
        corrected[index][keypoints] = image.lens.distorted(torch.from_numpy(position[part])).numpy()
        how[index][keypoints] = 1
    return corrected, how


def _observations(clip: list[_Image], tracks: list[Numbers], readout: Readout) -> tuple[Numbers, Observations | None]:
    """The image and the keypoint `[P, 2]` of each observation of a track over two or more images, and these."""
    lengths = np.bincount(np.concatenate(tracks)) if tracks else np.zeros(0, dtype=np.int64)
    numbers, parts = [], []
    for index, (image, own) in enumerate(zip(clip, tracks, strict=True)):
        kept = np.flatnonzero(lengths[own] > 1)
        if len(kept):
            starts = torch.full((len(kept),), image.time - clip[0].time, dtype=torch.float64)
            track = torch.from_numpy(own[kept])
            points = torch.from_numpy(image.points[kept])
            parts.append(observe(points, starts, track, readout, image.size, image.lens))
            numbers.append(np.stack([np.full(len(kept), index), kept], 1))
    if not parts:
        return np.zeros((0, 2), dtype=np.int64), None
    observations, order = joined(parts)
    return np.concatenate(numbers)[order.numpy()], observations


def _matches(database: Any, clip: list[_Image]) -> dict[tuple[int, int], Matches]:
    """Matches between images of a clip, the verified ones where a pair was verified."""
    place = {image.number: index for index, image in enumerate(clip)}
    found = {}
    for index, first in enumerate(clip):
        for second in clip[index + 1 :]:
            if second.time - first.time > DATABASE_FIT.reach:
                break
            pair = (first.number, second.number)
            if database.exists_two_view_geometry(*pair):
                matches = np.asarray(database.read_two_view_geometry(*pair).inlier_matches)
            elif database.exists_matches(*pair):
                matches = np.asarray(database.read_matches(*pair))
            else:
                continue
            if len(matches):
                found[place[first.number], place[second.number]] = matches.reshape(-1, 2)
    return found


# --- the database ---


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pycolmap = import_pycolmap()
    try:
        database = pycolmap.Database.open(path)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"COLMAP cannot open {path.name}: {error}") from error
    with closing(database):
        yield database


def _copy(source: Path, target: Path) -> None:
    """Copy a database with what other programs have written to it last, which may lie in a file beside it (WAL)."""
    with closing(_read_only(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)


def import_pycolmap() -> Any:
    """The package `pycolmap`, or an error that says how to install it."""
    try:
        import pycolmap
    except ImportError as error:
        raise ValueError(f"COLMAP databases need pycolmap ({error}): pip install 'qrsc[sfm]'.") from error
    return pycolmap


def _require_database(path: Path) -> None:
    """Refuse what is not a COLMAP database, or one of a newer version than pycolmap knows."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}.")
    pycolmap = import_pycolmap()
    try:
        with closing(_read_only(path)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            [(version,)] = connection.execute("PRAGMA user_version").fetchall()
    except sqlite3.DatabaseError as error:
        raise ValueError(
            f"{path} is not a COLMAP database ({error}); give the file that colmap feature_extractor writes."
        ) from error
    missing = sorted(TABLES - tables)
    if missing:
        raise ValueError(
            f"{path} is not a COLMAP database: it has no table {', '.join(missing)}. Give the file that colmap "
            "feature_extractor writes, usually database.db."
        )
    known = _version_number(pycolmap.__version__)
    if version >= 1_000_000 and version // 10_000 > known // 10_000:
        written = f"{version // 1_000_000}.{version // 10_000 % 100}"
        raise ValueError(
            f"{path} was written by COLMAP {written}, which is newer than pycolmap {pycolmap.__version__} here: "
            "pip install --upgrade pycolmap."
        )


def _version_number(text: str) -> int:
    """COLMAP's number for a version such as 4.2.1: 4020100."""
    parts = [int(part) for part in re.findall(r"\d+", text)[:3]]
    return parts[0] * 1_000_000 + parts[1] * 10_000 + (parts[2] if len(parts) > 2 else 0) * 100


def _clips(database: Any, spacing: float) -> list[list[_Image]]:
    """The images of each folder, in the order of time."""
    cameras = {camera.camera_id: camera for camera in database.read_all_cameras()}
    folders: dict[str, list[Any]] = {}
    for image in database.read_all_images():
        folders.setdefault(str(PurePosixPath(image.name).parent), []).append(image)
    if not folders:
        raise ValueError("the database has no images; extract features first (colmap feature_extractor).")
    clips = []
    for stored in folders.values():
        stored.sort(key=lambda image: natural_key(image.name))
        times = [spacing * number for number in frame_numbers([image.name for image in stored])]
        clip = []
        for image, time in zip(stored, times, strict=True):
            camera = cameras[image.camera_id]
            lens = Lens.from_colmap(camera.model.name, camera.params)
            clip.append(
                _Image(
                    image.image_id,
                    image.name,
                    time,
                    lens,
                    (camera.height, camera.width),
                    np.asarray(database.read_keypoints(image.image_id)),
                )
            )
        clips.append(clip)
    return clips


def frame_numbers(names: list[str]) -> list[int]:
    """The number of each frame: the last number of its name, if these grow; else their order."""
    found = [re.findall(r"\d+", PurePosixPath(name).stem) for name in names]
    if all(found):
        numbers = [int(each[-1]) for each in found]
        if all(second > first for first, second in pairwise(numbers)):
            return [number - numbers[0] for number in numbers]
    return list(range(len(names)))


# --- times ---


def _row_times(image: _Image, readout: Readout) -> npt.NDArray[np.float64]:
    rows = torch.from_numpy(image.points[:, 0 if readout.sideways else 1])
    return readout.row_time(rows, *image.size).numpy()


def _write_times(
    path: Path, rows: list[tuple[_Image, npt.NDArray[np.float64]]], readout: Readout, *, overwrite: bool
) -> None:
    """One line per keypoint: when its row was exposed, since the frame's start and as a part of the readout."""
    with atomic_file(path, overwrite=overwrite) as work, work.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "keypoint", "frame_time", "alpha", "row_fraction"])
        for image, alphas in rows:
            for number, alpha in enumerate(alphas.tolist()):
                fraction = (alpha - readout.offset) / readout.gamma if readout.gamma else 0.0
                writer.writerow([image.name, number, f"{image.time:g}", f"{alpha:.6f}", f"{fraction:.6f}"])
