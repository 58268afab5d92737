"""`qrsc train`: train the networks on simulated scenes and on data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from qrsc.baselines.training import BaselineTrainingOptions
from qrsc.cli.dataclass_options import takes
from qrsc.cli.errors import readable_errors
from qrsc.cli.progress import reporting
from qrsc.learn.flow import FlowTrainingOptions
from qrsc.learn.fusion import FusionTrainingOptions

OutputGiven = Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the weights and the training state.")]
PaperGiven = Annotated[
    bool, typer.Option("--paper", help="Use the paper's network, loss, batch size and learning rates instead of ours.")
]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no scores.")]

train = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Train the networks.")


@train.command()
@readable_errors
@takes(FlowTrainingOptions)
def flow(*, output: OutputGiven, quiet: QuietGiven = False, given: dict[str, Any]) -> None:
    """Train the flow network on scenes rendered during the training."""
    from qrsc.learn.flow import train_flow

    options = FlowTrainingOptions(**given)
    with reporting("none" if quiet else "auto") as progress:
        result = train_flow(output, options, progress=progress)
    if result is not None and not quiet:
        typer.echo(result.summary())


@train.command()
@readable_errors
@takes(FusionTrainingOptions)
def fusion(*, output: OutputGiven, paper: PaperGiven = False, quiet: QuietGiven = False, given: dict[str, Any]) -> None:
    """Train a fusion network on rendered scenes or a data set. Frames are corrected during the training."""
    from qrsc.evaluate.metrics.sample_measures import sample_measures
    from qrsc.learn.fusion import train_fusion

    options = FusionTrainingOptions.published(**given) if paper else FusionTrainingOptions(**given)
    with reporting("none" if quiet else "auto") as progress:
        result = train_fusion(output, options, measures=sample_measures(), progress=progress)
    if result is not None and not quiet:
        typer.echo(result.summary())


@train.command()
@readable_errors
@takes(BaselineTrainingOptions)
def baseline(
    *,
    names: Annotated[
        str, typer.Argument(metavar="NAME", help="dsun, sunet, rssr, cvr, jcd, adarsc, several with commas, or all.")
    ],
    output: OutputGiven,
    quiet: QuietGiven = False,
    given: dict[str, Any],
) -> None:
    """Train networks that the paper compares with, all on the same rendered batches."""
    from qrsc.baselines.learned.networks import named_networks
    from qrsc.baselines.training import train_baselines

    options = BaselineTrainingOptions(**given)
    result = train_baselines(named_networks(names), output, options, say=None if quiet else typer.echo)
    if not quiet:
        typer.echo(result.summary())
