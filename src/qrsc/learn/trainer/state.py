"""Training states on disk: safetensors files of at most 15 MB and a list of them; no pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qrsc.weights import WeightsError, file_sha256, read_weights, verify

LARGEST = 15 * 2**20  # bytes per file
LIST = "state.json"


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
    listing = json.loads(path.read_text(encoding="utf-8"))
    parts: dict[str, dict[str, Tensor]] = {part: {} for part in _STORED}
    for name, digest in listing["files"].items():
        verify(folder / name, digest)
        for key, value in read_weights(folder / name).items():
            part, _, own = key.partition(".")
            parts[part][own] = value.float()
    return TrainingState(int(listing["step"]), float(listing["minutes"]), **parts)


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
