"""The table of all methods that `qrsc evaluate` knows by name: those of `evaluate`, and the baselines."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from qrsc.baselines.classical.diffhomo import DiffHomo
from qrsc.baselines.classical.dsfm import CARLA, Dsfm
from qrsc.baselines.classical.row_homography import RowHomography
from qrsc.baselines.learned.networks import NETWORKS
from qrsc.baselines.learned.row import PAPER, LearnedRow, PaperRow, baseline_weights
from qrsc.baselines.videors import VideoRs
from qrsc.evaluate.methods.registry import METHODS, MethodTable


def all_methods(layout: str, weights: Path | None = None) -> MethodTable:
    """Every method by name, for data sets of a layout: that of Carla-RS has known intrinsics, others have guessed ones.

    Args:
        layout: of the data set.
        weights: folder of the networks' weights; see `baseline_weights` for None.

    `dsfm` and `diffhomo` fit a constant acceleration, as published; `-velocity` a constant velocity.
    """
    folder = baseline_weights(weights)
    camera = CARLA if layout == "carla" else None
    return MappingProxyType(
        {
            **METHODS,
            "row-homography": RowHomography(),
            "dsfm": Dsfm(accelerated=True, intrinsics=camera),
            "dsfm-velocity": Dsfm(intrinsics=camera),
            "diffhomo": DiffHomo(accelerated=True),
            "diffhomo-velocity": DiffHomo(),
            "videors": VideoRs(),
            **{name: LearnedRow(name, folder) for name in NETWORKS},
            PAPER: PaperRow(folder),
        }
    )
