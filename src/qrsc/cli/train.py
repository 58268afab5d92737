"""`qrsc train`: networks from simulated scenes, or from weights that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import (
    FusedMotionOption,
    FusionNetworkOption,
    InterpolationOption,
    SplitOption,
    TrainLayoutOption,
)

# What both trainings take.
OutputGiven = Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the weights and the training state.")]
MinutesGiven = Annotated[float | None, typer.Option(help="Stop this run after so many; --resume goes on from there.")]
TotalMinutesGiven = Annotated[
    float | None,
    typer.Option(help="Of the whole training, over which the learning rate falls; --minutes if not given."),
]
TexturesGiven = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Photographs to cover surfaces with, besides painted ones.")
]
ResumeGiven = Annotated[bool, typer.Option("--resume", help="Go on from the state in OUT.")]
ScenesGiven = Annotated[int, typer.Option(min=1, help="Worlds rendered at a time.")]
CompiledGiven = Annotated[
    bool | None, typer.Option("--compile/--no-compile", help="Use torch.compile; on a GPU if not given.")
]
DevicesGiven = Annotated[int, typer.Option(min=1, help="GPUs of this machine.")]
NodesGiven = Annotated[int, typer.Option(min=1, help="Machines; start the command on each, as Lightning describes.")]
TensorboardGiven = Annotated[bool, typer.Option("--tensorboard", help="Also log to OUT for TensorBoard.")]
SeedGiven = Annotated[int, typer.Option(min=0, help="Of the first weights and the data.")]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no figures.")]

train = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Train the networks.")


@train.command()
@readable_errors
def flow(
    output: OutputGiven,
    minutes: MinutesGiven = None,
    total_minutes: TotalMinutesGiven = None,
    steps: Annotated[int, typer.Option(min=1, help="Of the whole training.")] = 100_000,
    batch: Annotated[int, typer.Option(min=1, help="Pairs a step and device.")] = 12,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the rendered frames, multiples of 16.")] = "512x384",
    textures: TexturesGiven = None,
    start: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Begin from these weights in place of random ones.")
    ] = None,
    resume: ResumeGiven = False,
    peak: Annotated[float, typer.Option(help="Highest learning rate.")] = 4e-4,
    scenes: ScenesGiven = 16,
    pool: Annotated[int, typer.Option(min=1, help="Rendered pairs kept on the device.")] = 2048,
    uses: Annotated[float, typer.Option(help="How often a pair is drawn on average.")] = 2.0,
    compiled: CompiledGiven = None,
    devices: DevicesGiven = 1,
    nodes: NodesGiven = 1,
    tensorboard: TensorboardGiven = False,
    seed: SeedGiven = 0,
    quiet: QuietGiven = False,
) -> None:
    """Train the flow network on scenes rendered as it goes."""
    from qrsc.cli.train_work import FlowRun, train_flow_network

    run = FlowRun(
        output=output,
        minutes=minutes,
        total_minutes=total_minutes,
        steps=steps,
        batch=batch,
        size=size,
        textures=textures,
        start=start,
        resume=resume,
        peak=peak,
        scenes=scenes,
        pool=pool,
        uses=uses,
        compiled=compiled,
        devices=devices,
        nodes=nodes,
        tensorboard=tensorboard,
        seed=seed,
    )
    summary = train_flow_network(run, quiet=quiet)
    if summary and not quiet:
        typer.echo(summary)


@train.command()
@readable_errors
def fusion(
    output: OutputGiven,
    network: Annotated[FusionNetworkOption, typer.Option(help="The paper's, or its light sibling.")] = "rsa2",
    paper: Annotated[
        bool, typer.Option("--paper", help="The paper's network, losses, batch and learning rates in place of ours.")
    ] = False,
    minutes: MinutesGiven = None,
    total_minutes: TotalMinutesGiven = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of the whole training.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Samples a step and device.")] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the rendered frames.")] = "384x320",
    crop: Annotated[str, typer.Option(metavar="WxH", help="What a step sees of them, multiples of 16.")] = "256x256",
    loss: Annotated[
        str | None, typer.Option(metavar="TERM,...", help="charbonnier, mse, laplacian, census or perceptual.")
    ] = None,
    unseen_weight: Annotated[
        float | None, typer.Option(min=0.0, help="How much pixels count by themselves that the frame does not show.")
    ] = None,
    flow: Annotated[
        str, typer.Option(metavar="NAME", help="Flow as in `qrsc correct`, or `true` for true flows made worse.")
    ] = "raft-rs",
    motion: Annotated[
        FusedMotionOption, typer.Option(help="What frames are brought to one instant by; none leaves them as they are.")
    ] = "path",
    interpolation: Annotated[
        InterpolationOption, typer.Option(help="How corrected frames are sampled, in training and later.")
    ] = "bicubic",
    data: Annotated[
        Path | None, typer.Option(metavar="ROOT", help="Train on this data set, too; five frames a sample.")
    ] = None,
    layout: Annotated[TrainLayoutOption | None, typer.Option(help="How the data set lies on disk.")] = None,
    split: Annotated[SplitOption | None, typer.Option(help="Only this split of it.")] = None,
    share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of the samples from the data set; the others are rendered.")
    ] = 0.5,
    teacher: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Learn from this fusion network's results, too.")
    ] = None,
    textures: TexturesGiven = None,
    start: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Begin from these weights in place of first ones.")
    ] = None,
    resume: ResumeGiven = False,
    peak: Annotated[float | None, typer.Option(help="Highest learning rate.")] = None,
    scenes: ScenesGiven = 16,
    pool: Annotated[int, typer.Option(min=1, help="Rendered samples kept on the device.")] = 1536,
    uses: Annotated[float, typer.Option(help="How often a sample is drawn on average.")] = 4.0,
    compiled: CompiledGiven = None,
    devices: DevicesGiven = 1,
    nodes: NodesGiven = 1,
    tensorboard: TensorboardGiven = False,
    seed: SeedGiven = 0,
    quiet: QuietGiven = False,
) -> None:
    """Train a fusion network on rendered scenes or frames of a data set, corrected with the flow network as it goes."""
    from qrsc.cli.train_work import FusionRun, train_fusion_network

    run = FusionRun(
        output=output,
        network=network,
        paper=paper,
        minutes=minutes,
        total_minutes=total_minutes,
        steps=steps,
        batch=batch,
        size=size,
        crop=crop,
        loss=loss,
        unseen_weight=unseen_weight,
        flow=flow,
        motion=motion,
        interpolation=interpolation,
        data=data,
        layout=layout,
        split=split,
        share=share,
        teacher=teacher,
        textures=textures,
        start=start,
        resume=resume,
        peak=peak,
        scenes=scenes,
        pool=pool,
        uses=uses,
        compiled=compiled,
        devices=devices,
        nodes=nodes,
        tensorboard=tensorboard,
        seed=seed,
    )
    summary = train_fusion_network(run, quiet=quiet)
    if summary and not quiet:
        typer.echo(summary)
