"""The options of the training of the fusion networks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from qrsc.learn.trainer.schedule import Schedule, StepSchedule
from qrsc.learn.trainer.training_options import Option, TrainingOptions
from qrsc.names import AlignmentMotion, FusionNetworkName, Interpolation, LayoutName, Split

if TYPE_CHECKING:
    from qrsc.learn.fusion.losses import Scaling, TermName


@dataclass(frozen=True)
class FusionTrainingOptions(TrainingOptions):
    """How to train a fusion network; see `TrainingOptions` for what is not listed here.

    The defaults are our own recipe; `FusionTrainingOptions.published()` is the paper's.

    Attributes:
        architecture: options of the network, by name, that differ from its defaults.
        scaling: `balanced` scales all losses but the first to its size, as the paper does; `proportional` adds the
            logarithms of the losses of every sample.
        stepwise: let the learning rate fall in the paper's steps instead of as a cosine.
        fewer: also train on batches that show fewer than three frames.
        teacher_weight: weight of the teacher's result beside the truth.
    """

    network: Annotated[FusionNetworkName, Option("The paper's network or the lightweight one.")] = "rsa2"
    steps: Annotated[int, Option("Optimiser steps of the whole training.", at_least=1, by_recipe=True)] = 100_000
    batch: Annotated[int, Option("Samples per step and device.", at_least=1, by_recipe=True)] = 16
    size: Annotated[tuple[int, int], Option("Size of the rendered frames.", metavar="WxH")] = (320, 384)
    crop: Annotated[
        tuple[int, int] | None, Option("Size of the random crops that a step sees, multiples of 16.", metavar="WxH")
    ] = (256, 256)
    loss: Annotated[
        "tuple[TermName, ...] | None",
        Option(
            "Loss terms: charbonnier, mse, laplacian, census, ssim or perceptual.", metavar="TERM,...", by_recipe=True
        ),
    ] = None
    unseen_weight: Annotated[
        float,
        Option(
            "Weight of an extra loss on the pixels that are not visible in the centre frame.",
            at_least=0.0,
            by_recipe=True,
        ),
    ] = 1.0
    flow: Annotated[
        str, Option("Optical flow as in `qrsc correct`, or `true` for true flow with simulated errors.", metavar="NAME")
    ] = "raft-rs"
    motion: Annotated[
        AlignmentMotion, Option("Motion model that corrects the frames to one instant; none leaves them uncorrected.")
    ] = "path"
    interpolation: Annotated[
        Interpolation, Option("How corrected frames are sampled, in training and when the weights are used.")
    ] = "bicubic"
    keep_grain: Annotated[
        bool, Option("Give the truth noise of its own, like that of the frames: the network keeps it, else removes it.")
    ] = False
    data: Annotated[Path | None, Option("Also train on this data set, in windows of five frames.", metavar="ROOT")] = (
        None
    )
    layout: Annotated[LayoutName | None, Option("File layout of the data set.")] = None
    split: Annotated[Split | None, Option("Use only this split of the data set.")] = None
    share: Annotated[
        float,
        Option("Share of the samples that come from the data set; the others are rendered.", at_least=0.0, at_most=1.0),
    ] = 0.5
    teacher: Annotated[
        str | None, Option("Also learn from the results of this fusion network (distillation).", metavar="NAME|FILE")
    ] = None
    peak: Annotated[float, Option("Peak learning rate.", by_recipe=True)] = 5e-4
    pool: Annotated[int, Option("Rendered samples kept on the device.", at_least=1)] = 1536
    uses: Annotated[float, Option("How often a sample is drawn on average before it is replaced.")] = 4.0
    architecture: Mapping[str, Any] = field(default_factory=dict)
    # No measurable difference: a narrow rsa2-lite after 250 steps, gain over the mean on 64 held-out samples in three
    # pairs of runs, balanced +0.53, +0.51, +0.48 dB, proportional +0.48, +0.41, +0.51.
    scaling: "Scaling" = "balanced"
    stepwise: bool = False
    fewer: bool = True
    teacher_weight: float = 0.5

    @classmethod
    def published(cls, samples: int = 20_000, **given: Any) -> "FusionTrainingOptions":
        """The paper's recipe: 80 epochs of batches of 4, learning rate 1e-4, a tenth of it after every 25 epochs.

        Args:
            samples: in an epoch; here samples are rendered without end.
            given: options that differ from the recipe.
        """
        from qrsc.learn.fusion.losses import PUBLISHED

        recipe = cls(
            architecture={"validity": False, "prior": False, "mask_width": 1, "calm": False},
            loss=PUBLISHED,
            batch=4,
            steps=80 * samples // 4,
            peak=1e-4,
            stepwise=True,
            fewer=False,
            unseen_weight=0.0,
            interpolation="bilinear",
        )
        if given.get("network", "rsa2") != "rsa2":
            raise ValueError("--paper is the recipe of the network rsa2; leave out one of --paper and --network.")
        return replace(recipe, **given)

    def schedule(self) -> Schedule:
        """The learning rate over the whole training."""
        kind = StepSchedule if self.stepwise else Schedule
        return kind(self.all_minutes, self.steps, self.peak)
