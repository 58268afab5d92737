"""`qrsc evaluate`: methods scored on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import EvaluateLayoutOption, ScanOption, SplitOption, TruthOption
from qrsc.cli.scoring_options import (
    CacheFlowGiven,
    CsvGiven,
    DeviceGiven,
    JsonGiven,
    MarkdownGiven,
    QuietGiven,
    choose_format,
    names_in,
)
from qrsc.evaluate.metrics.metric_table import DEFAULT_METRICS, METRICS


@readable_errors
def evaluate(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Folder of a data set, a split, or a sequence.")],
    layout: Annotated[
        EvaluateLayoutOption,
        typer.Option(help="Layout on disk; all: ROOT holds any of Carla-RS/, Fastec-RS/ and BS-RSC/."),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Comma-separated methods: names, or module:function.")
    ] = "rs,linear,qrs,cubic,multi-qrs",
    method: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DIR", help="Score the frames in DIR, made by another program; repeatable."),
    ] = None,
    at: Annotated[TruthOption, typer.Option(help="Instant of the ground truth.")] = "middle",
    window: Annotated[
        int,
        typer.Option(
            min=1, help="Score only frames in the middle of this many in a row: 5 as in the paper, 1 for all."
        ),
    ] = 1,
    gamma: Annotated[
        float | None, typer.Option(help="Readout time / frame interval, instead of the data set's own.")
    ] = None,
    scan: Annotated[ScanOption | None, typer.Option(help="Readout direction; needs --gamma.")] = None,
    flow: Annotated[
        str | None,
        typer.Option(help="Optical flow; truth: the exact flow of a simulated set. By device if not given."),
    ] = None,
    metrics: Annotated[str, typer.Option(metavar="NAMES", help=f"Comma-separated: {', '.join(METRICS)}.")] = ",".join(
        DEFAULT_METRICS
    ),
    split: Annotated[SplitOption | None, typer.Option(help="Use only this split.")] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="List of frames, for the layout acc.")
    ] = None,
    as_json: JsonGiven = False,
    as_markdown: MarkdownGiven = False,
    as_csv: CsvGiven = False,
    published: Annotated[
        bool, typer.Option("--published", help="Add published figures of other methods for the same set and instant.")
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Add parameters, GFLOP and milliseconds a frame of each method.")
    ] = False,
    baseline_weights: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Weights of dsun, sunet, rssr, cvr, jcd, adarsc and qrsc-paper.")
    ] = None,
    per_frame: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figures of every frame as CSV.")
    ] = None,
    save_frames: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the corrected frames.")] = None,
    plots: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write charts, per-frame plots, and a contact sheet of the worst frames."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Record finished sequences in DIR, and skip those recorded there."),
    ] = None,
    cache_flow: CacheFlowGiven = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Frame pairs per batch of the optical flow. By device if not given.")
    ] = None,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Score methods on a data set. Prints a table, with the paper's figures beside ours."""
    from qrsc.backend.device import choose_device
    from qrsc.baselines.rows import all_methods
    from qrsc.cli.progress import reporting
    from qrsc.data.layouts import given_readout
    from qrsc.evaluate.evaluate_data import evaluate_data
    from qrsc.evaluate.methods.registry import parse_folder

    form = choose_format(as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)
    with reporting("none" if quiet else "auto") as progress:
        evaluation = evaluate_data(
            root,
            layout,
            methods=names_in(methods),
            folders=dict(parse_folder(text) for text in method or []),
            at=at,
            window=window,
            readout=given_readout(gamma, scan),
            flow=flow,
            metrics=names_in(metrics),
            split=split,
            list_file=list_file,
            device=choose_device(device),
            batch=batch,
            resume=resume,
            cache_flow=cache_flow,
            save_frames=save_frames,
            per_frame=per_frame,
            plots=plots,
            table=all_methods(layout, baseline_weights),
            cost=cost,
            progress=progress,
        )
    typer.echo(evaluation.table(form, published=published))
