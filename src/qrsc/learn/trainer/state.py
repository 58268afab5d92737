"""Training states on disk: safetensors files of at most 15 MB and a list of them; no pickle."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.files.documents import read_json, shortened
from qrsc.weights import WeightsError, file_sha256, read_weights, verify

LARGEST = 15 * 2**20  # bytes per file
LIST = "state.json"
_FILE = re.compile(r"state-\d+-\d+\.safetensors")


@dataclass(frozen=True)
class TrainingState:
    """Everything that is needed to resume a training.

    Attributes:
        step: optimiser steps taken.
        minutes: spent on them.
        network: the weights, float32.
        average: their exponential moving average, which is what is shipped.
        first_moments, second_moments: of the gradients, as Adam keeps them, by the names of the weights. They are
            stored in bfloat16, which has the range of float32; the estimates are less accurate than its 3 digits.
    """

    step: int
    minutes: float
    network: dict[str, Tensor]
    average: dict[str, Tensor]
    first_moments: dict[str, Tensor]
    second_moments: dict[str, Tensor]


_STORED = {
    "network": torch.float32,
    "average": torch.float16,
    "first_moments": torch.bfloat16,
    "second_moments": torch.bfloat16,
}


def save_state(folder: Path, state: TrainingState) -> None:
    """Write a state in place of the previous one. The list is written last: an interrupted call keeps the old state."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    old = set(folder.glob("state-*.safetensors"))
    flat: dict[str, Tensor] = {}
    for part, dtype in _STORED.items():
        for name, value in getattr(state, part).items():
            flat[f"{part}.{name}"] = value.detach().to("cpu", dtype).contiguous()
    files: dict[str, str] = {}
    for number, tensors in enumerate(_split(flat), start=1):
        path = folder / f"state-{state.step}-{number}.safetensors"
        save_file(tensors, path)
        files[path.name] = file_sha256(path)
    listing = {"step": state.step, "minutes": state.minutes, "files": files}
    partial = folder / f"{LIST}.partial"
    partial.write_text(json.dumps(listing, indent=2) + "\n", encoding="utf-8")
    partial.replace(folder / LIST)
    for path in old:
        if path.name not in files:
            path.unlink()


def load_state(folder: Path) -> TrainingState:
    """The state that was last saved in a folder.

    Raises:
        WeightsError: there is none, or a file is damaged.
    """
    path = folder / LIST
    if not path.is_file():
        raise WeightsError(f"there is no training state in {folder}: {LIST} is missing.")
    step, minutes, files = _checked_listing(path)
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _STORED}
    for name, digest in files.items():
        verify(folder / name, digest)
        for key, value in read_weights(folder / name).items():
            part, _, own = key.partition(".")
            if part not in parts or value.dtype not in _STORED.values():
                raise WeightsError(f"{folder / name} holds {key[:80]} as {value.dtype}, which is no training state.")
            parts[part][own] = value.float()
    _require_one_network(parts, folder)
    return TrainingState(step, minutes, **parts)


def _require_one_network(parts: dict[str, dict[str, Tensor]], folder: Path) -> None:
    """Raise unless all parts of a state are finite, and have the names and shapes of its weights."""
    weights = parts["network"]
    for part, tensors in parts.items():
        for name, value in tensors.items():
            if name not in weights or value.shape != weights[name].shape or not bool(value.isfinite().all()):
                raise WeightsError(f"the training state in {folder} is damaged: {part}.{name[:80]} does not fit.")
    if parts["first_moments"].keys() != parts["second_moments"].keys():
        raise WeightsError(f"the training state in {folder} is damaged: some moments are missing.")


def _checked_listing(path: Path) -> tuple[int, float, dict[str, str]]:
    """Step, minutes, and the files by name with their SHA-256, from the list of a state."""
    try:
        listing = read_json(path)
    except ValueError as error:
        raise WeightsError(str(error)) from error
    held: dict[str, Any] = listing if isinstance(listing, dict) else {}
    step, minutes, files = (held.get(key, -1) for key in ("step", "minutes", "files"))
    numbers = type(step) is int and 0 <= step < 2**53 and type(minutes) in (int, float) and 0 <= minutes < 2**53
    if not numbers or not isinstance(files, dict):
        raise WeightsError(f"{path} is damaged: step, minutes and files were expected. Start the training anew.")
    for name, digest in files.items():
        if not _FILE.fullmatch(name) or not isinstance(digest, str):
            raise WeightsError(f"{path} is damaged: {shortened(name)} is no file of a training state.")
        if not (path.parent / name).is_file():
            raise WeightsError(f"{path.parent / name} is missing, which {path.name} lists. Start the training anew.")
    return step, float(minutes), files


def _split(tensors: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Tensors in groups of at most `LARGEST` bytes, in their order."""
    groups: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, value in tensors.items():
        if size + value.nbytes > LARGEST and groups[-1]:
            groups.append({})
            size = 0
        groups[-1][name] = value
        size += value.nbytes
    return groups
