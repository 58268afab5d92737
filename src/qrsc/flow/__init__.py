"""Optical flow between frames: one protocol, and the estimators that follow it, by name."""

from __future__ import annotations

from collections.abc import Callable

from qrsc.flow.dis import DisFlow
from qrsc.flow.neural import shipped_flow
from qrsc.flow.protocol import FlowEstimator, FlowPair
from qrsc.flow.refined import RefinedFlow

__all__ = ["FLOWS", "DisFlow", "FlowEstimator", "FlowPair", "load_flow"]

_ESTIMATORS: dict[str, Callable[[], FlowEstimator]] = {
    "dis": lambda: DisFlow("medium"),
    "dis-fast": lambda: DisFlow("fast"),
    "dis-ultrafast": lambda: DisFlow("ultrafast"),
    "raft-rs": lambda: shipped_flow("raft-rs"),
    "raft-rs+dis": lambda: RefinedFlow(shipped_flow("raft-rs")),
}

FLOWS: tuple[str, ...] = tuple(_ESTIMATORS)


def load_flow(name: str = "dis") -> FlowEstimator:
    """A flow estimator by name.

    `dis` is OpenCV's Dense Inverse Search (medium preset), with `dis-fast` and `dis-ultrafast`; `raft-rs` is the flow
    network with the package's own weights, and `raft-rs+dis` the same refined by a search.
    """
    if name not in _ESTIMATORS:
        raise ValueError(f"unknown flow {name!r}; choose one of {', '.join(FLOWS)}.")
    return _ESTIMATORS[name]()
