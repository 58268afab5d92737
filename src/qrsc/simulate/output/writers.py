"""Write simulated clips: as sequences in the layouts of the public data sets, as plain folders, or as videos.

A sequence is written completely or not at all. Beside its pictures there may be

- `clip.json`: gamma, scan and offset (videos, and layouts that do not fix the readout);
- `truth.npz`: one array per name and frame, `flow_next/00003` for that of frame 3; the names are those of
  `qrsc.simulate.render.clip.TRUTH_NAMES`. Arrays are read from disk one by one. Flows, fields and motion are stored as
  float32, or as float16, which halves the file and rounds a flow by under 0.05 %; poses and intrinsics are float64,
  visibility is bool;
- `truth.json`: the meaning of the arrays, and how the clip was made.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from qrsc.backend.progress import Stage
from qrsc.data.layouts import Layout, LayoutName, Split, frame_path, get_layout, index_sequences, write_clip_file
from qrsc.files.arrays import ArrayArchive
from qrsc.media.atomic import atomic_folder
from qrsc.media.image_folder import SUFFIXES as PICTURE_SUFFIXES
from qrsc.media.image_folder import list_frames, read_frame, write_frame
from qrsc.media.mp4 import write_video
from qrsc.media.outputs import require_writable
from qrsc.names import OutputLayout as OutputLayout
from qrsc.simulate.render.clip import TRUTH_NAMES, ClipFrame
from qrsc.timing import Readout, Scan

OUTPUT_LAYOUTS: tuple[OutputLayout, ...] = get_args(OutputLayout)
OWN_LAYOUTS: tuple[OutputLayout, ...] = ("plain", "sim", "video")  # with files that state readout and truth
DEFAULT_GAMMA = 0.8  # of layouts that do not fix it
TRUTH_FILE = "truth.npz"
NOTES_FILE = "truth.json"
TEST_SHARE = 0.2


class TruthWriter:
    """Writes `truth.npz` frame by frame, with at most one frame in memory.

    Args:
        path: the file.
        precision: of flows, fields and motion: `torch.float32` or `torch.float16`.
    """

    def __init__(self, path: Path, precision: torch.dtype = torch.float32) -> None:
        if precision not in (torch.float32, torch.float16):
            raise ValueError(f"ground truth is stored as torch.float32 or torch.float16, not as {precision}.")
        self._path = path
        self._precision = precision
        self._archive: zipfile.ZipFile | None = None

    def __enter__(self) -> TruthWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._archive is not None:
            self._archive.close()

    def add(self, number: int, truth: Mapping[str, Tensor]) -> None:
        """Add the ground truth of one frame; the file is created with the first frame that has any."""
        if truth and self._archive is None:
            # Level 1 packs float32 fields to 68 %; level 6 takes 2.7 times as long for 67 % (float16: 55 and 51 %).
            self._archive = zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        for name, value in truth.items():
            stored = value.to(self._precision) if value.dtype == torch.float32 else value
            assert self._archive is not None  # opened above, because there is at least one array
            with self._archive.open(f"{name}/{number:05d}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(stored.cpu().numpy()), allow_pickle=False)


def read_truth(folder: Path, name: str, number: int, size: tuple[int, int] | None = None) -> Tensor:
    """Read one array of a sequence's `truth.npz`; float16 becomes float32, poses and intrinsics stay float64.

    Args:
        size: `(H, W)` that the last two dimensions must have; any if None.

    Raises:
        ValueError: the file is damaged, has no such array, or one of another size.
    """
    path = folder / TRUTH_FILE
    with ArrayArchive(path) as arrays:
        key = f"{name}/{number:05d}"
        if key not in arrays.names:
            names = sorted({entry.split("/")[0] for entry in arrays.names})
            raise ValueError(f"{path} has no {name!r} for frame {number}; it has {', '.join(names[:20]) or 'nothing'}.")
        stored = arrays.array(key)
        if size is not None and stored.shape[-2:] != tuple(size):
            raise ValueError(f"{stored.where} has the shape {stored.shape}; the frames are {size[1]}x{size[0]}.")
        value = torch.from_numpy(stored.read())
    return value.float() if value.dtype == torch.float16 else value


def write_sequence(
    folder: Path,
    layout_name: LayoutName,
    frames: Iterable[ClipFrame],
    readout: Readout,
    *,
    notes: Mapping[str, object] | None = None,
    precision: torch.dtype = torch.float32,
    force: bool = False,
) -> int:
    """Write a clip as one sequence of a layout.

    Args:
        folder: of the sequence.
        layout_name: one of `qrsc.data.layouts.LAYOUTS`.
        frames: of a clip; pictures that the layout has no name for are left out.
        readout: of the clip; for the layout of a public data set, it must be that of the data set.
        notes: how the clip was made, for `truth.json`.
        precision: of the ground truth, see `TruthWriter`.
        force: replace an existing sequence of this layout.

    Returns:
        How many frames were written.

    Raises:
        FileExistsError: the folder is not empty, and `force` was not given or it is not a sequence of this layout.
    """
    layout = get_layout(layout_name)
    require_layout_readout(layout_name, readout)
    with _replacing(folder, layout_name, force) as work:
        count = _write_frames(work, layout, frames, precision)
        if count == 0:
            raise ValueError(f"there are no frames for {folder}: a sequence needs at least one.")
        if layout.readout is None:
            write_clip_file(work, readout)
        if layout.marker is not None:
            (work / layout.marker).write_text(f"simulated, gamma {readout.gamma:g}, {count} frames\n", encoding="utf-8")
        if notes is not None:
            _write_notes(work, notes)
    return count


def write_videos(
    folder: Path,
    frames: Iterable[ClipFrame],
    readout: Readout,
    fps: float,
    *,
    notes: Mapping[str, object] | None = None,
    force: bool = False,
) -> int:
    """Write a clip as `rolling.mp4`, `first.mp4` and `middle.mp4`, with the files beside it but without masks.

    The arguments are those of `write_sequence`, and the frame rate of the videos.
    """
    with _replacing(folder, "video", force) as work:
        # Frames are stored on disk first: three encoders read them one after the other, and memory stays bounded.
        waiting = work / ".frames"
        count = write_sequence(waiting, "sim", _without_masks(frames), readout, notes=notes)
        for part, name in (("RS", "rolling"), ("GS_first", "first"), ("GS_middle", "middle")):
            if (waiting / part).is_dir():
                stored = (read_frame(path).frame for path in list_frames(waiting / part))
                write_video(work / f"{name}.mp4", stored, fps)
        for path in waiting.iterdir():
            if path.is_file():
                shutil.move(path, work / path.name)
        shutil.rmtree(waiting)
    return count


def write_clip(
    folder: Path,
    layout_name: OutputLayout,
    frames: Iterable[ClipFrame],
    readout: Readout,
    *,
    fps: float,
    notes: Mapping[str, object],
    force: bool = False,
    stage: Stage,
) -> int:
    """Write a clip in any layout.

    Args:
        folder, layout_name, frames, readout, fps, notes, force: as for `write_sequence` and `write_videos`.
        stage: advances with every frame.

    Returns:
        How many frames were written.
    """
    frames = _counted(frames, stage)
    if layout_name == "video":
        return write_videos(folder, frames, readout, fps, notes=notes, force=force)
    own = notes if layout_name in OWN_LAYOUTS else None
    return write_sequence(folder, layout_name, frames, readout, notes=own, force=force)


def sequence_folder(layout_name: OutputLayout, index: int, count: int) -> Path:
    """Path of sequence `index` of `count`, relative to the root of the data set.

    The public data sets are split. If there is more than one sequence, the last fifth, at least one, is the test set.
    """
    if layout_name not in OUTPUT_LAYOUTS:
        raise ValueError(f"unknown layout {layout_name!r}; choose one of {', '.join(OUTPUT_LAYOUTS)}.")
    name = f"{index:04d}"
    if layout_name in OWN_LAYOUTS:
        return Path(name)
    held_out = max(1, math.ceil(TEST_SHARE * count)) if count > 1 else 0
    split: Split = "test" if index >= count - held_out else "train"
    return Path(split, "simtown", name) if layout_name == "carla" else Path(split, name)


def choose_layout_readout(layout_name: OutputLayout, gamma: float | None, scan: Scan) -> Readout:
    """The readout of new clips: gamma is that of the layout, or `DEFAULT_GAMMA`, if None."""
    own = None if layout_name == "video" else get_layout(layout_name).readout
    usual = DEFAULT_GAMMA if own is None else own.gamma
    readout = Readout(usual if gamma is None else gamma, scan)
    if layout_name != "video":
        require_layout_readout(layout_name, readout)
    return readout


def require_outputs(
    folder: Path | None, picture: Path | None = None, *, inputs: Sequence[Path] = (), overwrite: bool = False
) -> None:
    """Refuse outputs that cannot or must not be written, before anything is rendered.

    Args:
        folder: for the sequences, if there is one.
        picture: for the contact sheet, if there is one.
        inputs: files and folders that are read, and never touched.
        overwrite: sequences and pictures of the same names may be replaced.
    """
    if folder is not None and folder.is_file():
        raise FileExistsError(f"{folder} is a file; a folder for the clips was expected.")
    if folder is not None and folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise FileExistsError(
            f"the folder {folder} is not empty. Choose another one, or give --force: sequences of the same names are "
            "then replaced."
        )
    if picture is not None and (picture.suffix.lower() not in PICTURE_SUFFIXES or picture.is_dir()):
        raise ValueError(f"{picture} cannot be a picture; choose a file name ending in {', '.join(PICTURE_SUFFIXES)}.")
    require_writable({"OUT": folder, "--preview": picture}, inputs=inputs, overwrite=overwrite, how="--force")


def require_layout_readout(layout_name: LayoutName, readout: Readout) -> None:
    """Refuse a readout that differs from the layout's own: the files of a public data set cannot state it."""
    layout = get_layout(layout_name)
    if layout.readout is not None and layout.readout != readout:
        own = layout.readout
        raise ValueError(
            f"{layout.title} is read with gamma = {own.gamma:g}, {own.scan}, and its files cannot say otherwise; got "
            f"gamma = {readout.gamma:g}, {readout.scan}. Leave gamma and scan out, or choose the layout sim or plain."
        )


def _write_frames(folder: Path, layout: Layout, frames: Iterable[ClipFrame], precision: torch.dtype) -> int:
    """Write the pictures and ground truth of all frames; return their number."""
    count = 0
    with TruthWriter(folder / TRUTH_FILE, precision) as truth:
        for frame in frames:
            for kind in layout.names:
                if kind in frame.pictures:
                    path = frame_path(layout, folder, kind, frame.number)
                    path.parent.mkdir(exist_ok=True)
                    write_frame(path, _as_picture(frame.pictures[kind]))
            truth.add(frame.number, frame.truth)
            count += 1
    return count


def _counted(frames: Iterable[ClipFrame], stage: Stage) -> Iterator[ClipFrame]:
    for frame in frames:
        yield frame
        stage.advance()


def _without_masks(frames: Iterable[ClipFrame]) -> Iterator[ClipFrame]:
    for frame in frames:
        pictures = {kind: picture for kind, picture in frame.pictures.items() if not kind.endswith("_mask")}
        yield ClipFrame(frame.number, pictures, frame.truth)


def _as_picture(value: Tensor) -> Tensor:
    """Convert to `[3, H, W]` in 0 to 1; a mask is white where it is true."""
    return value.float().expand(3, -1, -1) if value.dtype == torch.bool else value


def _write_notes(folder: Path, notes: Mapping[str, object]) -> None:
    content = dict(notes)
    if (folder / TRUTH_FILE).exists():
        with ArrayArchive(folder / TRUTH_FILE) as stored:
            names = {entry.split("/")[0] for entry in stored.names}
        known = {name: text for group in TRUTH_NAMES.values() for name, text in group.items()}
        content["arrays"] = {name: text for name, text in known.items() if name in names}
    (folder / NOTES_FILE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _replacing(folder: Path, layout_name: OutputLayout, force: bool) -> Iterator[Path]:
    """Yield a folder to fill, which then replaces an existing sequence; nothing but a sequence is ever removed."""
    occupied = folder.is_dir() and any(folder.iterdir())
    if not (occupied and force):
        with atomic_folder(folder) as work:
            yield work
        return
    if not _is_sequence(folder, layout_name):
        raise FileExistsError(
            f"{folder} is not a simulated sequence of the layout {layout_name}, and is not replaced. "
            "Choose another folder, or remove it yourself."
        )
    fresh, old = folder.with_name(f".{folder.name}.fresh"), folder.with_name(f".{folder.name}.old")
    for left_over in (fresh, old):
        shutil.rmtree(left_over, ignore_errors=True)
    with atomic_folder(fresh) as work:
        yield work
    folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old)


def _is_sequence(folder: Path, layout_name: OutputLayout) -> bool:
    if layout_name == "video":
        return (folder / "rolling.mp4").is_file()
    try:
        return any(sequence.folder == folder for sequence in index_sequences(folder, layout_name))
    except (FileNotFoundError, ValueError):
        return False
