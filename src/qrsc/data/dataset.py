"""Load any data set as clips of consecutive frames, with the ground truth of each frame that has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from qrsc.data.acc import keep_listed, read_list
from qrsc.data.layouts import FrameFiles, Kind, SequenceFiles, Split, index_sequences
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import read_frame
from qrsc.timing import Readout

TruthInstant = Literal["first", "middle"]  # the instants at which data sets have ground truth
MASKS: dict[TruthInstant, Kind] = {"first": "first_mask", "middle": "middle_mask"}


@dataclass(frozen=True)
class ClipFiles:
    """Consecutive frames of one sequence, without a gap.

    Attributes:
        sequence: name of the sequence.
        folder: of the sequence.
        readout: of its camera.
        frames: their files, in order.
    """

    sequence: str
    folder: Path
    readout: Readout
    frames: tuple[FrameFiles, ...]


@dataclass(frozen=True)
class LoadedFrame:
    """One frame in memory.

    Attributes:
        files: that it was read from.
        rolling: `[3, H, W]`, the rolling-shutter frame.
        truths: by instant, `[3, H, W]`; empty for a frame that is only used as a neighbour.
        masks: by instant, `[1, H, W]` bool: where the ground truth is valid.
    """

    files: FrameFiles
    rolling: Tensor
    truths: dict[TruthInstant, Tensor] = field(default_factory=dict)
    masks: dict[TruthInstant, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A window of frames with the ground truth of its centre frame.

    Attributes:
        frames: `[N, 3, H, W]`, consecutive; the ground truth belongs to frame `N // 2`.
        truth: `[3, H, W]`, the global-shutter frame.
        mask: `[1, H, W]` bool, where the ground truth is valid; all true if the data set has no masks.
        readout: of the camera.
        tau: instant of the ground truth, in frame intervals after the start of the centre frame.
        name: `sequence/number` of the centre frame.
    """

    frames: Tensor
    truth: Tensor
    mask: Tensor
    readout: Readout
    tau: float
    name: str


class Dataset:
    """Windows of consecutive frames with ground truth, in any layout; files are read on access.

    A window never spans a missing frame or two sequences. A frame without a complete window or without ground truth
    is not a sample of its own, but it is still used as a neighbour.

    Args:
        sequences: from `index_data`.
        frames: length N of a window, 1 or more.
        at: the instant of the ground truth.
    """

    def __init__(self, sequences: Sequence[SequenceFiles], *, frames: int = 5, at: TruthInstant = "middle") -> None:
        if frames < 1:
            raise ValueError(f"a window has at least one frame, got {frames}.")
        if at not in MASKS:
            raise ValueError(f"data sets have a truth at {' and '.join(MASKS)}, not at {at!r}.")
        self.frames = frames
        self.at: TruthInstant = at
        self._windows: list[tuple[ClipFiles, int]] = []  # with the index of its first frame in the clip
        for clip in (clip for sequence in sequences for clip in split_at_gaps(sequence)):
            self._windows += [
                (clip, start)
                for start in range(len(clip.frames) - frames + 1)
                if at in clip.frames[start + frames // 2].files
            ]

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> Sample:
        clip, start = self._windows[index]
        window = clip.frames[start : start + self.frames]
        centre = load_frame(window[self.frames // 2], (self.at,))
        frames = [centre.rolling if files is centre.files else load_frame(files).rolling for files in window]
        _require_one_size(frames, clip)
        truth = centre.truths[self.at]
        mask = centre.masks.get(self.at, torch.ones_like(truth[:1], dtype=torch.bool))
        name = f"{clip.sequence}/{centre.files.number:05d}"
        return Sample(torch.stack(frames), truth, mask, clip.readout, clip.readout.instant(self.at), name)

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))


def index_data(
    root: Path,
    layout: str,
    *,
    split: Split | None = None,
    readout: Readout | None = None,
    list_file: Path | None = None,
) -> list[SequenceFiles]:
    """Find the sequences of a data set, ACC included.

    Args:
        root: the data set, one of its splits, or a single sequence.
        layout: one of `qrsc.data.layouts.LAYOUTS`, or `acc`: the frames of BS-RSC that a list names.
        split: only this one; all that exist if None.
        readout: replaces the layout's own.
        list_file: for `acc`, from `qrsc data acc`.
    """
    if (layout == "acc") != (list_file is not None):
        raise ValueError(
            "the layout acc is BS-RSC with a list of frames whose motion is not uniform: each needs the other. "
            "Make a list with: qrsc data acc ROOT --write list.txt"
        )
    if list_file is None:
        return index_sequences(root, layout, split=split, readout=readout)
    sequences = index_sequences(root, "bsrsc", split=split, readout=readout)
    return keep_listed(sequences, read_list(list_file), list_file)


def split_at_gaps(sequence: SequenceFiles) -> list[ClipFiles]:
    """Split a sequence at missing frames, because motion cannot be followed across a gap."""
    runs: list[list[FrameFiles]] = []
    for files in sequence.frames:
        if runs and files.number == runs[-1][-1].number + 1:
            runs[-1].append(files)
        else:
            runs.append([files])
    return [ClipFiles(sequence.name, sequence.folder, sequence.readout, tuple(run)) for run in runs]


def load_frame(
    files: FrameFiles, instants: Sequence[TruthInstant] = (), *, device: torch.device | str | None = None
) -> LoadedFrame:
    """Read a frame, with its ground truth at the given instants where it exists.

    Raises:
        MediaError: a file cannot be read, or ground truth or a mask differs in size from its frame.
    """
    rolling = read_frame(files.files["rolling"], device=device).frame
    truths: dict[TruthInstant, Tensor] = {}
    masks: dict[TruthInstant, Tensor] = {}
    for at in instants:
        if at in files.files:
            truths[at] = _read_like(rolling, files, at, device)
            if MASKS[at] in files.files:
                masks[at] = _read_like(rolling, files, MASKS[at], device)[:1] > 0.5
    return LoadedFrame(files, rolling, truths, masks)


def _read_like(rolling: Tensor, files: FrameFiles, kind: Kind, device: torch.device | str | None) -> Tensor:
    picture = read_frame(files.files[kind], device=device).frame
    if picture.shape != rolling.shape:
        (height, width), (own_height, own_width) = picture.shape[-2:], rolling.shape[-2:]
        raise MediaError(
            f"{files.files[kind]} is {width}x{height}, but its rolling-shutter frame is {own_width}x{own_height}: they "
            "must have one size."
        )
    return picture


def _require_one_size(frames: Sequence[Tensor], clip: ClipFiles) -> None:
    sizes = sorted({f"{frame.shape[-1]}x{frame.shape[-2]}" for frame in frames})
    if len(sizes) > 1:
        raise MediaError(f"all frames of a sequence must have the same size; {clip.folder} has {' and '.join(sizes)}.")
