"""Fusion of several frames corrected to one instant into one frame.

`aligned` is the input of a fusion. `mean`, `denoise` and `coherent` need no network. `rsa2` and `lite` are networks,
built from `blocks` and the operator in `adacof`; `finish` is the last step after them; `networks` runs them on frames
of any size, and loads their weights.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import CoherentFusion
from qrsc.fusion.mean import mean_fusion
from qrsc.names import FusionName, Interpolation
from qrsc.warp import Warped
from qrsc.weights import shipped_weights

__all__ = [
    "DEFAULT_FUSION",
    "FUSIONS",
    "AlignedFrames",
    "CoherentFusion",
    "Fusion",
    "FusionName",
    "load_fusion",
    "mean_fusion",
    "wanted_interpolation",
]

Fusion = Callable[[AlignedFrames], Warped]

# On every device: `rsa2` takes fifteen times as many operations and, on denoised frames, loses fine detail.
DEFAULT_FUSION: FusionName = "rsa2-lite"

_NAMES: tuple[FusionName, ...] = get_args(FusionName)
# The available ones: a network is available if its weights come with the package.
FUSIONS: tuple[FusionName, ...] = tuple(
    name for name in _NAMES if name in ("none", "mean", "coherent") or name in shipped_weights()
)


def wanted_interpolation(fusion: Fusion | None, frames: int) -> Interpolation:
    """How to sample the frames for a fusion of that many frames; bicubically if the fusion does not say.

    Bilinear sampling removes a quarter of the energy of fine detail on real frames; see the lab book.
    """
    wanted: Interpolation = getattr(fusion, "interpolation", "bicubic")
    return getattr(fusion, "interpolation_alone", wanted) if frames == 1 else wanted


def load_fusion(name: str) -> Fusion | None:
    """Load a fusion by name, or a fusion network from a file.

    - `none` is None: each frame is corrected from itself alone;
    - `mean`: the weighted mean of the frames, with the detail that averaging removed restored;
    - `coherent`: the mean with the detail that the frames agree on, which removes noise and fine detail with it;
    - `rsa2-lite`: a small network that keeps fine detail, with the weights of the package; `rsa2`: the paper's network
      on denoised frames;
    - `FILE.safetensors`: the network that `qrsc train fusion` wrote to a file.

    Raises:
        ValueError: the name is unknown.
        WeightsError: the weights file is missing, damaged, or of another network.
    """
    path = Path(name)
    if path.suffix == ".safetensors":
        from qrsc.fusion.networks import fusion_from_file

        return fusion_from_file(path)
    if name not in _NAMES:
        raise ValueError(
            f"unknown fusion {name!r}; choose one of {', '.join(_NAMES)}, or a file of weights (.safetensors)."
        )
    if name == "none":
        return None
    if name == "mean":
        return mean_fusion
    if name == "coherent":
        return CoherentFusion()
    from qrsc.fusion.networks import shipped_fusion

    return shipped_fusion(name)
