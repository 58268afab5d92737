"""The weights that come with the package: a safetensors file and a model card each, loaded by name and verified."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from qrsc.files.documents import parse_json, read_json, shortened
from qrsc.files.limits import MOST_WEIGHTS_BYTES
from qrsc.weights.architecture import without_memory

FOLDER = Path(__file__).parent
Network = TypeVar("Network", bound=nn.Module)
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class WeightsError(ValueError):
    """Weights that are missing, damaged, or of another network."""


def shipped_weights() -> tuple[str, ...]:
    """Names of the weights in the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.safetensors")))


def card(name: str) -> dict[str, Any]:
    """The model card of weights: kind of network, size, SHA-256, data, training, figures, licence."""
    path = _shipped(name).with_suffix(".json")
    if not path.is_file():
        raise WeightsError(f"the weights {name!r} have no card: {path.name} is missing. Install the package again.")
    content: dict[str, Any] = read_json(path)
    return content


def load_weights(name: str) -> dict[str, Tensor]:
    """Load weights of the package by name, after comparing the file's SHA-256 with its card."""
    path = _shipped(name)
    verify(path, str(card(name)["sha256"]))
    return read_weights(path)


def verify(path: Path, sha256: str) -> None:
    """Raise `WeightsError` unless a file has this SHA-256."""
    found = file_sha256(path)
    if found != sha256:
        raise WeightsError(
            f"{path.name} is damaged or was replaced: its SHA-256 is {found}, its card says {sha256[:64]}. "
            "Install the package again, or name another weights file."
        )


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else _digest(path)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file, on the CPU."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    _require_file(path)
    try:
        return load_file(path)
    except (SafetensorError, ValueError, LookupError, AttributeError) as error:  # the others for unknown dtypes
        raise WeightsError(f"{path} is not a readable safetensors file: {error}.") from error


def read_notes(path: Path) -> dict[str, str]:
    """The metadata of a safetensors file; empty if it has none."""
    from safetensors import SafetensorError, safe_open

    _require_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except SafetensorError as error:
        raise WeightsError(f"{path} is not a readable safetensors file: {error}.") from error


def noted_options(path: Path, notes: Mapping[str, str], key: str) -> dict[str, Any]:
    """The table that the metadata of a safetensors file holds as JSON under a key.

    Raises:
        WeightsError: it is no table.
    """
    try:
        described = parse_json(notes[key], f"{key} in the metadata of {path}")
    except ValueError as error:
        raise WeightsError(str(error)) from error
    if not isinstance(described, dict):
        raise WeightsError(f"{key} in the metadata of {path} must be a table; got {shortened(described)}.")
    return described


def build_strictly(build: Callable[[], Network], weights: Mapping[str, Tensor], origin: str) -> Network:
    """Build a network and load weights into it; names and shapes must match exactly.

    They are compared before the network takes any memory: its description comes from a file like the weights.

    Args:
        build: returns the network, freshly initialised.
        weights, origin: as for `load_strictly`.

    Raises:
        WeightsError: the network cannot be built, or a tensor does not fit.
    """
    try:
        with without_memory():
            planned = build()
    except (TypeError, ValueError, ArithmeticError, RuntimeError) as error:
        raise WeightsError(f"{origin} describes a network that cannot be built: {error}") from error
    _require_fit(planned, weights, origin)
    network = build()
    load_strictly(network, weights, origin)
    return network


def load_strictly(network: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    """Load weights into a network; names and shapes must match exactly.

    Args:
        weights: by parameter name; float64, float32, float16 or bfloat16.
        origin: where they come from, for the error message.

    Raises:
        WeightsError: a tensor is missing, unknown, of another shape or dtype, or not finite. The network is unchanged
            then.
    """
    _require_fit(network, weights, origin)
    own = network.state_dict()
    network.load_state_dict({name: value.to(own[name].dtype) for name, value in weights.items()})


def _require_fit(network: nn.Module, weights: Mapping[str, Tensor], origin: str) -> None:
    own = network.state_dict()
    problems = [f"{name} is missing" for name in own if name not in weights]
    problems += [f"{name[:80]} is not of this network" for name in weights if name not in own]
    for name in own.keys() & weights.keys():
        expected, got = tuple(own[name].shape), tuple(weights[name].shape)
        if expected != got:
            problems.append(f"{name} has the shape {got} instead of {expected}")
        elif weights[name].dtype not in _DTYPES:
            problems.append(f"{name} holds {weights[name].dtype}, not floats of 16 bits or more")
        elif not bool(weights[name].isfinite().all()):
            problems.append(f"{name} holds values that are not finite")
    if problems:
        shown = "; ".join(sorted(problems)[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
        raise WeightsError(f"{origin} does not fit {type(network).__name__}: {shown}. Was it saved from another size?")


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise WeightsError(f"there is no weights file {path}.")
    if path.stat().st_size > MOST_WEIGHTS_BYTES:
        raise WeightsError(f"{path} is too large for a weights file: at most {MOST_WEIGHTS_BYTES >> 20} MB are read.")


def _shipped(name: str) -> Path:
    path = FOLDER / f"{name}.safetensors"
    if name not in shipped_weights():
        known = ", ".join(shipped_weights()) or "none"
        raise WeightsError(f"no weights {name!r} come with the package; there are: {known}.")
    return path


def _digest(path: Path) -> str:
    """For Python 3.10, which has no `hashlib.file_digest`."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
