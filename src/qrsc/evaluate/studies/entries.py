"""The parts of a study: data sets, and the variants that are scored on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qrsc.data.dataset import TruthInstant
from qrsc.data.layouts import Split, get_layout
from qrsc.evaluate.metrics.metric_table import DEFAULT_METRICS
from qrsc.learn.fusion.alignment import AlignmentMotion
from qrsc.names import FusionNetworkName as Kind
from qrsc.timing import Readout


@dataclass(frozen=True)
class DataEntry:
    """A data set of a study.

    Attributes:
        name: in the tables.
        root: its folder; None is the simulator's fixed set of that name.
        layout: its layout on disk, as for `qrsc evaluate`.
        split, list_file, readout: as for `qrsc evaluate`.
        scenes: use only this many sequences, from the first on.
        size: `(height, width)` at which a fixed set is rendered.
    """

    name: str
    root: Path | None = None
    layout: str = "sim"
    split: Split | None = None
    list_file: Path | None = None
    readout: Readout | None = None
    scenes: int | None = None
    size: tuple[int, int] | None = None

    @property
    def published_as(self) -> str:
        """The data set's name in publications; empty if it is not a public one."""
        if self.layout == "acc":
            return "ACC"
        return "" if self.layout in ("plain", "sim") else get_layout(self.layout).title


@dataclass(frozen=True)
class Variant:
    """A row of a study: a method by its name, or frames corrected in some way and fused by a network.

    Attributes:
        name: in the tables.
        method: as for `qrsc evaluate`; None if it is a network.
        weights: of the network: a file, or a name from the package.
        motion: the model by which frames are corrected before fusion; `none` leaves them uncorrected, with zero fields.
        frames: window of 3, 4 or 5 frames, of which the inner ones are fused.
        kind: of the network, `rsa2` or `rsa2-lite`; None takes it from the weights.
        network: options that differ from the network's defaults. Weights of another network are refused.
        trained_here: the study trains these weights where they are missing.
        paper: the row of the paper that this one is compared with.
        trained_on: the data set that the weights were trained on.
    """

    name: str
    method: str | None = None
    weights: Path | str | None = None
    motion: AlignmentMotion = "quadratic"
    frames: int = 5
    kind: Kind | None = None
    network: Mapping[str, Any] = field(default_factory=dict)
    trained_here: bool = False
    paper: str | None = None
    trained_on: str | None = None

    @property
    def missing(self) -> Path | None:
        """The weights file that does not exist; None if the variant can be scored."""
        return self.weights if isinstance(self.weights, Path) and not self.weights.is_file() else None


@dataclass(frozen=True)
class Manifest:
    """What a study's file says.

    Attributes:
        path: of the file.
        sets, variants: in the order of the file.
        charts: names of the variants in each chart, by its title.
        training: settings of the training, by their names; see `qrsc.evaluate.studies.study_training`.
        flow: by name; None chooses by the device.
        at: the instant of the truth.
        metrics: from `qrsc.evaluate.metrics.metric_table.METRICS`.
    """

    path: Path
    sets: tuple[DataEntry, ...]
    variants: tuple[Variant, ...]
    charts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    flow: str | None = None
    at: TruthInstant = "middle"
    metrics: tuple[str, ...] = DEFAULT_METRICS[:3]
