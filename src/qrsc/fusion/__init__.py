"""From several frames corrected to one instant to one frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.mean import mean_fusion
from qrsc.warp import Warped

__all__ = ["FUSIONS", "AlignedFrames", "Fusion", "FusionName", "load_fusion", "mean_fusion"]

Fusion = Callable[[AlignedFrames], Warped]
FusionName = Literal["none", "mean"]

FUSIONS: tuple[FusionName, ...] = get_args(FusionName)


def load_fusion(name: FusionName) -> Fusion | None:
    """A fusion by name; None for `none`, which corrects each frame from itself alone."""
    if name not in FUSIONS:
        raise ValueError(f"unknown fusion {name!r}; choose one of {', '.join(FUSIONS)}.")
    return mean_fusion if name == "mean" else None
