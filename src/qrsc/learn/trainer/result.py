"""What a training gives: the network, its weights on disk, and its scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from torch import nn

Network = TypeVar("Network", bound=nn.Module)
Score = TypeVar("Score")


@dataclass(frozen=True)
class TrainingResult(Generic[Network, Score]):
    """A trained network and how well it does on samples that it was not trained on.

    Attributes:
        network: with the exponential moving average of its weights.
        weights: the file that they were saved in.
        held_out: how many samples were scored.
        scores: of the network and of what it is compared with, by name.
        heading: what the scores are, for the summary.
        table: the scores as text, for the summary.
    """

    network: Network
    weights: Path
    held_out: int
    scores: Mapping[str, Score]
    heading: str
    table: str

    def summary(self) -> str:
        """The scores as a table, and where the weights are."""
        return f"{self.heading}\n\n{self.table}\n\nwrote {self.weights}"
