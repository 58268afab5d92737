"""From several frames corrected to one instant to one frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import torch

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import CoherentFusion
from qrsc.fusion.mean import mean_fusion
from qrsc.names import FusionName, Interpolation
from qrsc.warp import Warped
from qrsc.weights import shipped_weights

__all__ = [
    "FUSIONS",
    "AlignedFrames",
    "CoherentFusion",
    "Fusion",
    "FusionName",
    "default_fusion",
    "load_fusion",
    "mean_fusion",
    "wanted_interpolation",
]

Fusion = Callable[[AlignedFrames], Warped]

_NAMES: tuple[FusionName, ...] = get_args(FusionName)
# Those that can be used: a network is there once its weights come with the package.
FUSIONS: tuple[FusionName, ...] = tuple(
    name for name in _NAMES if name in ("none", "mean", "coherent") or name in shipped_weights()
)


def wanted_interpolation(fusion: Fusion | None, frames: int) -> Interpolation:
    """How frames should be sampled that a fusion gets so many of; softly if it does not say."""
    wanted: Interpolation = getattr(fusion, "interpolation", "bilinear")
    return getattr(fusion, "interpolation_alone", wanted) if frames == 1 else wanted


def default_fusion(device: torch.device) -> FusionName:
    """The name of the fusion that is used where none is asked for, for frames on a device.

    A GPU can afford the paper's network; on a processor that takes 15 times as many operations as its light sibling.
    """
    return "rsa2" if device.type == "cuda" else "rsa2-lite"


def load_fusion(name: str) -> Fusion | None:
    """A fusion by name.

    `none` is None: each frame is corrected from itself alone. `mean` needs no network, nor does `coherent`, which keeps
    the detail that frames agree on; `rsa2` is the paper's network, with the package's own weights, and `rsa2-lite` its
    light sibling for a CPU.
    """
    if name not in _NAMES:
        raise ValueError(f"unknown fusion {name!r}; choose one of {', '.join(_NAMES)}.")
    if name == "none":
        return None
    if name == "mean":
        return mean_fusion
    if name == "coherent":
        return CoherentFusion()
    from qrsc.fusion.networks import shipped_fusion

    return shipped_fusion(name)
