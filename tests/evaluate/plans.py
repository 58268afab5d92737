"""A plan of an evaluation on the simulated sequences of the tests."""

from __future__ import annotations

from pathlib import Path

from qrsc.data.dataset import index_data
from qrsc.evaluate.run.plan import Plan


def plan(root: Path, **changes: object) -> Plan:
    """Score the input and `qrs` by their PSNR, unless told otherwise."""
    settings: dict[str, object] = {"methods": ("rs", "qrs"), "metrics": ("psnr",), "sequences": index_data(root, "sim")}
    return Plan(root.name, **(settings | changes))  # type: ignore[arg-type]  # settings by name
