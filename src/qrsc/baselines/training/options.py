"""The options of the training of the baselines."""

import math
from dataclasses import dataclass, replace
from typing import Annotated

from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.training_options import Option, RunOptions


@dataclass(frozen=True)
class BaselineTrainingOptions(RunOptions):
    """How to train the networks among the baselines; see `RunOptions` for what is not listed here.

    Attributes:
        clip: largest norm of the gradient of a network; larger ones are scaled down to it.
    """

    batch: Annotated[int, Option("Samples per step, the same for all networks.", at_least=1)] = 8
    size: Annotated[tuple[int, int], Option("Size of the rendered frames.", metavar="WxH")] = (320, 448)
    crop: Annotated[
        int,
        Option(
            "Width of the random crops that a step sees, a multiple of 32. They keep the full height, and so the time "
            "of every row.",
            at_least=32,
        ),
    ] = 256
    scenes: Annotated[int, Option("Scenes rendered at a time.", at_least=1)] = 8
    uses: Annotated[float, Option("How often a sample is drawn on average before it is replaced.")] = 4.0
    rate: Annotated[float, Option("Factor on the learning rate that the authors of each network recommend.")] = 1.0
    peak: Annotated[
        float | None, Option("Peak learning rate of all networks, in place of the recommended ones times --rate.")
    ] = None
    flow: Annotated[
        str, Option("Optical flow as in `qrsc correct`, for the networks that do not find their own.", metavar="NAME")
    ] = "raft-rs"
    features: Annotated[
        bool,
        Option(
            "Use the loss on the features of VGG-16 that the networks share; it needs the package stlpips_pytorch.",
            names="--features/--no-features",
        ),
    ] = True
    graphs: Annotated[
        bool,
        Option(
            "On a GPU, record the steps as CUDA graphs; else their kernels are launched one by one.",
            names="--graphs/--no-graphs",
        ),
    ] = True
    limit: Annotated[
        float | None,
        Option(
            "Minutes from the start of the command until the last step: --minutes is shortened by what the start takes."
        ),
    ] = None
    report: Annotated[float, Option("Print the losses every this many seconds.")] = 30.0
    clip: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.limit is not None and self.limit <= 0:
            raise ValueError(f"limit must be over 0; got {self.limit:g}.")
        for name in ("rate", "report"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be over 0; got {getattr(self, name):g}.")
        if self.peak is not None and self.peak <= 0:
            raise ValueError(f"peak must be over 0; got {self.peak:g}.")
        height, width = self.size
        if height % 32 or self.crop % 32 or self.crop > width:
            raise ValueError(
                "the height of --size and --crop must be multiples of 32, and --crop at most the width of --size; got "
                f"{width}x{height} and {self.crop}."
            )

    def shortened(self, spent: float) -> "BaselineTrainingOptions":
        """The same where this many minutes have gone by since the command began: the run ends by `limit`."""
        if self.limit is None:
            return self
        left = max(self.limit - spent, 1e-3)
        return replace(self, minutes=min(left, math.inf if self.minutes is None else self.minutes))

    def schedule(self, recommended: float) -> Schedule:
        """The learning rate of a network with this recommended one over the whole training."""
        return Schedule(self.all_minutes, self.steps, self.peak or self.rate * recommended)
