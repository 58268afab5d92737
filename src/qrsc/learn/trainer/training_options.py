"""The options that every training takes, each stated once: name, type, default, limits and help.

The command `qrsc train` builds its command-line options from these fields. Nothing here imports torch, so that
`qrsc --help` answers at once. Annotations are not postponed in the modules of options: the command reads the types.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from qrsc.learn.trainer.schedule import Schedule


@dataclass(frozen=True)
class Option:
    """What a field of a dataclass is as a command-line option; stands in the annotation of the field.

    Attributes:
        help: what the option means; the documentation of the field.
        at_least, at_most: limits of its value on the command line.
        metavar: stands for its value in the help.
        names: on the command line, where they are not the name of the field.
        by_recipe: the default depends on the recipe: the command line shows none, and leaves the field as the recipe
            has it.
    """

    help: str
    at_least: float | None = None
    at_most: float | None = None
    metavar: str | None = None
    names: str | None = None
    by_recipe: bool = False


@dataclass(frozen=True)
class RunOptions:
    """The options of everything that is trained on rendered samples. The help of each field says what it means.

    Attributes:
        decay: of the exponential moving average of the weights, per step.

    Raises:
        ValueError: a value is out of range.
    """

    minutes: Annotated[
        float | None, Option("Stop this run after this many minutes; continue it later with --resume.")
    ] = None
    total_minutes: Annotated[
        float | None,
        Option("Minutes of the whole training, over which the learning rate decays; --minutes if not given."),
    ] = None
    steps: Annotated[int, Option("Optimiser steps of the whole training.", at_least=1)] = 100_000
    batch: Annotated[int, Option("Samples per step and device.", at_least=1)] = 16
    size: Annotated[tuple[int, int], Option("Size of the rendered frames.", metavar="WxH")] = (384, 512)
    textures: Annotated[
        Path | None, Option("Photographs to use as textures, in addition to painted ones.", metavar="FOLDER")
    ] = None
    resume: Annotated[bool, Option("Continue from the training state in OUT.")] = False
    scenes: Annotated[int, Option("Scenes rendered at a time.", at_least=1)] = 16
    pool: Annotated[int, Option("Rendered samples kept on the device.", at_least=1)] = 2048
    uses: Annotated[float, Option("How often a sample is drawn on average before it is replaced.")] = 2.0
    seed: Annotated[int, Option("Random seed of the initialisation and the data.", at_least=0)] = 0
    decay: float = 0.999

    def __post_init__(self) -> None:
        for name in ("minutes", "total_minutes", "uses"):
            _require_positive(name, getattr(self, name))

    @property
    def run_minutes(self) -> float:
        """Minutes after which this run stops; infinite if it has no limit."""
        return math.inf if self.minutes is None else self.minutes

    @property
    def all_minutes(self) -> float:
        """Minutes of the whole training, all runs together; infinite if it has no limit."""
        return self.run_minutes if self.total_minutes is None else self.total_minutes


@dataclass(frozen=True)
class TrainingOptions(RunOptions):
    """The options of the trainings of our own networks.

    Raises:
        ValueError: two options contradict each other, or a value is out of range.
    """

    start: Annotated[
        str | None, Option("Initialise with these weights instead of random ones.", metavar="NAME|FILE")
    ] = None
    peak: Annotated[float, Option("Peak learning rate.")] = 5e-4
    compiled: Annotated[
        bool | None, Option("Use torch.compile; if not given, on a GPU only.", names="--compile/--no-compile")
    ] = None
    devices: Annotated[int, Option("Number of GPUs per machine.", at_least=1)] = 1
    nodes: Annotated[
        int,
        Option("Number of machines; start the command on each, as Lightning's documentation describes.", at_least=1),
    ] = 1
    tensorboard: Annotated[bool, Option("Also write TensorBoard logs to OUT.")] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.resume and self.start is not None:
            raise ValueError("--resume goes on from the state in OUT and --start begins from other weights; give one.")
        _require_positive("peak", self.peak)

    def schedule(self) -> Schedule:
        """The learning rate over the whole training."""
        return Schedule(self.all_minutes, self.steps, self.peak)


def _require_positive(name: str, value: float | None) -> None:
    if value is not None and value <= 0:
        raise ValueError(f"{name.replace('_', ' ')} must be over 0; got {value:g}.")
