"""Optical flow between frames: the protocol (`protocol`), and estimators by name or file (`load_flow`).

`dis` is OpenCV's search, `raft_rs` the flow network of the package, `refined` the network followed by the search,
`adapters` the networks of other packages, `precomputed` flows read from files.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from qrsc.flow.adapters import ptlflow_flow, torchvision_flow
from qrsc.flow.dis import DisFlow
from qrsc.flow.precomputed import PrecomputedFlow
from qrsc.flow.protocol import ClipFlow, ConfidentFlows, EncodingEstimator, FlowEstimator, FlowPair, find_flows
from qrsc.flow.raft_rs.estimator import flow_from_file, shipped_flow
from qrsc.flow.refined import RefinedFlow
from qrsc.flow.search_first import SearchFirstFlow, for_even_light
from qrsc.weights import card, file_sha256

__all__ = [
    "FLOWS",
    "ClipFlow",
    "ConfidentFlows",
    "DisFlow",
    "EncodingEstimator",
    "FlowEstimator",
    "FlowPair",
    "default_flow",
    "find_flows",
    "flow_fingerprint",
    "for_even_light",
    "load_flow",
]

_ESTIMATORS: dict[str, Callable[[], FlowEstimator]] = {
    "dis": lambda: DisFlow("medium"),
    "dis-fast": lambda: DisFlow("fast"),
    "dis-ultrafast": lambda: DisFlow("ultrafast"),
    "raft-rs": lambda: shipped_flow("raft-rs"),
    "raft-rs+dis": lambda: RefinedFlow(shipped_flow("raft-rs")),
    "dis-or-raft-rs": lambda: SearchFirstFlow(RefinedFlow(shipped_flow("raft-rs", brief=True))),
    "raft-rs-full+dis": lambda: RefinedFlow(shipped_flow("raft-rs", thorough=True)),
}

FLOWS: tuple[str, ...] = tuple(_ESTIMATORS)
# The weights from the package that each of them loads.
_SHIPPED_WEIGHTS = dict.fromkeys(("raft-rs", "raft-rs+dis", "raft-rs-full+dis", "dis-or-raft-rs"), "raft-rs")

# Networks of other packages, by the word before the colon; called with the parts before and after the "@".
_ADAPTERS: dict[str, Callable[[str, str | None], FlowEstimator]] = {
    "torchvision": torchvision_flow,
    "ptlflow": ptlflow_flow,
}


def default_flow(device: torch.device) -> str:
    """The name of the default flow for frames on a device.

    The network is most precise at the full resolution of the frames, which is feasible on a GPU. On a CPU most pairs of
    frames need no network: it works, at a reduced resolution and refined by the search, where the search contradicts
    itself.
    """
    return "dis-or-raft-rs" if device.type == "cpu" else "raft-rs"


def load_flow(name: str) -> FlowEstimator:
    """Load a flow estimator by name, or from a file.

    - `dis`, `dis-fast`, `dis-ultrafast`: OpenCV's Dense Inverse Search in its medium, fast and ultrafast presets;
    - `raft-rs`: the flow network with the weights of the package; `raft-rs+dis`: the same refined by a search. On a CPU
      the network works at a reduced resolution; in `raft-rs-full+dis` it works at the resolution used on a GPU;
    - `dis-or-raft-rs`: `dis`; for pairs of frames on which it contradicts itself, the network without its last steps,
      refined by the search;
    - `FILE.safetensors`: the flow network with weights that `qrsc train flow` wrote;
    - `FILE.npz`, or a folder: precomputed flows; see `qrsc.flow.precomputed`;
    - `torchvision:raft_large`, `torchvision:raft_small@C_T_V2`, `ptlflow:gma@things`, ...: networks of these packages;
      see `qrsc.flow.adapters`.

    Raises:
        ValueError: the name is unknown.
        WeightsError: the weights file is missing, damaged, or of another network.
    """
    if name in _ESTIMATORS:
        return _ESTIMATORS[name]()
    package, colon, rest = name.partition(":")
    if colon and package in _ADAPTERS:
        model, _, checkpoint = rest.partition("@")
        return _ADAPTERS[package](model, checkpoint or None)
    path = Path(name)
    if path.suffix == ".safetensors":
        return flow_from_file(path)
    if path.suffix == ".npz" or path.is_dir():
        return PrecomputedFlow(path)
    raise ValueError(
        f"unknown flow {name!r}; choose one of {', '.join(FLOWS)}, a file of weights (.safetensors), a file (.npz) or "
        f"folder of flows, or another package's network such as torchvision:raft_large or ptlflow:gma@things."
    )


def flow_fingerprint(name: str) -> str:
    """A text that changes when the flow of a name does, for keys of caches.

    It holds the name and the SHA-256 of the weights: those of the package, or of a file. For another package's network
    it holds the version of that package, which decides on the weights that a name stands for.
    """
    if name in _SHIPPED_WEIGHTS:
        return f"{name}@{card(_SHIPPED_WEIGHTS[name])['sha256']}"
    package, colon, _ = name.partition(":")
    if colon and package in _ADAPTERS:
        return f"{name}@{_installed_version(package)}"
    path = Path(name)
    return f"{name}@{file_sha256(path)}" if path.is_file() else name


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
