"""The options of the training of the flow network."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from qrsc.learn.trainer.training_options import Option, TrainingOptions


@dataclass(frozen=True)
class FlowTrainingOptions(TrainingOptions):
    """How to train the flow network; see `TrainingOptions` for what is not listed here.

    Attributes:
        architecture: fields of `qrsc.flow.raft_rs.network.NetworkSize` that differ from its defaults.
    """

    batch: Annotated[int, Option("Pairs per step and device.", at_least=1)] = 12
    size: Annotated[tuple[int, int], Option("Size of the rendered frames, multiples of 16.", metavar="WxH")] = (
        384,
        512,
    )
    peak: Annotated[float, Option("Peak learning rate.")] = 4e-4
    pool: Annotated[int, Option("Rendered pairs kept on the device.", at_least=1)] = 2048
    uses: Annotated[float, Option("How often a pair is drawn on average before it is replaced.")] = 2.0
    architecture: Mapping[str, Any] = field(default_factory=dict)
