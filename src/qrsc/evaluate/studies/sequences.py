"""The sequences of a study's data sets; fixed sets are rendered if they do not exist yet."""

from __future__ import annotations

from collections.abc import Callable

import torch

from qrsc.data.dataset import index_data
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.studies.entries import DataEntry
from qrsc.simulate.output.sets import SCENES, SIZE, prepare_set


def to_render(entry: DataEntry) -> int:
    """The number of scenes that `sequences_of` may have to render."""
    return 0 if entry.root is not None else entry.scenes or SCENES


def sequences_of(
    entry: DataEntry, device: torch.device | str = "cpu", advance: Callable[[str], None] = lambda step: None
) -> list[SequenceFiles]:
    """The sequences of a data set that a study scores.

    Args:
        device: where a fixed set is rendered.
        advance: called after each of `to_render` scenes, with a word for what is being done.
    """
    if entry.root is not None:
        found = index_data(
            entry.root, entry.layout, split=entry.split, readout=entry.readout, list_file=entry.list_file
        )
        return found[: entry.scenes]
    scenes = entry.scenes or SCENES
    root = prepare_set(entry.name, scenes, size=entry.size or SIZE, device=device, advance=advance)
    return index_data(root, "sim")[:scenes]
