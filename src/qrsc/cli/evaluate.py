"""`qrsc evaluate`: methods scored on a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, EvaluateLayoutOption, ScanOption, SplitOption, TruthOption


@readable_errors
def evaluate(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Data set, one of its splits, or one sequence.")],
    layout: Annotated[
        EvaluateLayoutOption,
        typer.Option(help="How it lies on disk; all: ROOT holds Carla-RS/, Fastec-RS/, BS-RSC/, any of them."),
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
    metrics: Annotated[
        str, typer.Option(metavar="NAMES", help="psnr, ssim, masks, fields, lpips, warping; commas between.")
    ] = "psnr,ssim,masks,fields",
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    list_file: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Frames of the layout acc.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="A table in Markdown.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Also what others published for the set and instant.")
    ] = False,
    per_frame: Annotated[Path | None, typer.Option(metavar="FILE", help="Figures of every frame as CSV.")] = None,
    save_frames: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the corrected frames.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Charts, figures by frame, contact sheet of the worst frames.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the figures of finished sequences, and go on from there.")
    ] = None,
    cache_flow: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep flows from run to run.")] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Pairs of frames whose flows are found at a time. By device if not given.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    device: Annotated[DeviceOption, typer.Option(help="Where tensors live.")] = "auto",
) -> None:
    """Score methods on a data set and print a table of figures, the paper's beside ours."""
    from qrsc.backend.device import choose_device
    from qrsc.cli.evaluate_work import Options, choose_format, evaluate_data
    from qrsc.data.layouts import given_readout
    from qrsc.flow import default_flow

    chosen = choose_device(device)
    form = choose_format(as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)
    options = Options(
        layout=layout,
        split=split,
        list_file=list_file,
        methods=methods,
        folders=method or [],
        at=at,
        window=window,
        readout=given_readout(gamma, scan),
        flow=flow or default_flow(chosen),
        metrics=metrics,
        device=chosen,
        batch=batch,
        resume=resume,
        flow_folder=cache_flow,
        save_frames=save_frames,
    )
    typer.echo(
        evaluate_data(root, options, form=form, published=published, per_frame=per_frame, plots=plots, quiet=quiet)
    )
