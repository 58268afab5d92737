"""Networks small enough for tests, saved as training saves them, and figures made up for tables."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from qrsc.evaluate.run.scores import FrameScore
from qrsc.fusion.networks import build_network

TINY_LITE: dict[str, Any] = {"widths": [8, 8, 8], "depths": [1, 1, 1], "calm": False}
TINY_RSA2: dict[str, Any] = {
    "calm": False,
    "stem": 4,
    "widths": [8, 8, 8, 8],
    "depths": [1, 1, 1, 1],
    "heads": [1, 1, 1, 1],
    "features": 8,
    "taps": 3,
}


def save_tiny(path: Path, kind: str = "rsa2-lite", options: dict[str, Any] | None = None, **notes: str) -> Path:
    """An untrained network as a file of weights."""
    torch.manual_seed(0)
    network = build_network(kind, options or (TINY_LITE if kind == "rsa2-lite" else TINY_RSA2))
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"kind": kind, "options": json.dumps(asdict(network.options)), **notes}
    save_file({name: value.contiguous() for name, value in network.state_dict().items()}, path, metadata=told)
    return path


def scored(title: str, method: str, **figures: float) -> list[FrameScore]:
    """Two frames, their mean the figures."""
    return [
        FrameScore(title, "0000", number, "middle", method, {name: value + off for name, value in figures.items()})
        for number, off in enumerate((-0.125, 0.125))
    ]
