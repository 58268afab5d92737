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
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Data set, one of its splits, or one sequence.")],
    layout: Annotated[
        EvaluateLayoutOption,
        typer.Option(help="Layout on disk; all: ROOT holds Carla-RS/, Fastec-RS/, BS-RSC/, any of them."),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods by name, or module:function; commas between.")
    ] = "rs,linear,qrs,cubic,multi-qrs",
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME=DIR", help="Score frames that another program made; repeatable.")
    ] = None,
    at: Annotated[TruthOption, typer.Option(help="Instant of the truth.")] = "middle",
    window: Annotated[
        int, typer.Option(min=1, help="Score frames in the middle of so many: 5 as the paper does, 1 all.")
    ] = 1,
    gamma: Annotated[float | None, typer.Option(help="Readout ratio in place of the data set's own.")] = None,
    scan: Annotated[ScanOption | None, typer.Option(help="Scan direction, with --gamma.")] = None,
    flow: Annotated[
        str | None,
        typer.Option(help="Optical flow by name; truth: the exact one of simulated sets. By device if not given."),
    ] = None,
    metrics: Annotated[str, typer.Option(metavar="NAMES", help=f"{', '.join(METRICS)}; commas between.")] = ",".join(
        DEFAULT_METRICS
    ),
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    list_file: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Frames of the layout acc.")] = None,
    as_json: JsonGiven = False,
    as_markdown: MarkdownGiven = False,
    as_csv: CsvGiven = False,
    published: Annotated[
        bool, typer.Option("--published", help="Add what others published for the set and instant.")
    ] = False,
    per_frame: Annotated[Path | None, typer.Option(metavar="FILE", help="Figures of every frame as CSV.")] = None,
    save_frames: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the corrected frames.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Charts, figures by frame, contact sheet of the worst frames.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the figures of finished sequences, to continue from.")
    ] = None,
    cache_flow: CacheFlowGiven = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Pairs of frames whose flows are found at a time. By device if not given.")
    ] = None,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Score methods on a data set and print a table of figures, the paper's beside ours."""
    from qrsc.backend.device import choose_device
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
            progress=progress,
        )
    typer.echo(evaluation.table(form, published=published))
