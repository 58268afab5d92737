"""Optical flow between frames: one protocol, and the estimators that follow it, by name."""

from __future__ import annotations

from collections.abc import Callable

from qrsc.flow.dis import DisFlow
from qrsc.flow.protocol import FlowEstimator, FlowPair

__all__ = ["FLOWS", "DisFlow", "FlowEstimator", "FlowPair", "load_flow"]

_ESTIMATORS: dict[str, Callable[[], FlowEstimator]] = {
    "dis": lambda: DisFlow("medium"),
    "dis-fast": lambda: DisFlow("fast"),
    "dis-ultrafast": lambda: DisFlow("ultrafast"),
}

FLOWS: tuple[str, ...] = tuple(_ESTIMATORS)


def load_flow(name: str = "dis") -> FlowEstimator:
    """A flow estimator by name: `dis` (OpenCV's Dense Inverse Search, medium preset), `dis-fast`, `dis-ultrafast`."""
    if name not in _ESTIMATORS:
        raise ValueError(f"unknown flow {name!r}; choose one of {', '.join(FLOWS)}.")
    return _ESTIMATORS[name]()
