"""`qrsc calibrate`: the readout time of a camera, estimated from a clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import readable_errors
from qrsc.cli.options import SoughtScanOption

UNDETERMINED = 3  # exit code


@readable_errors
def calibrate(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Video or folder of images.")],
    scan: Annotated[
        SoughtScanOption | None,
        typer.Option(
            show_default=False,
            help="Direction in the picture as seen; found along its shorter side if not given, any: along both.",
        ),
    ] = None,
    camera: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="Search near the known readout time of this camera."),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(show_default=False, help="Frame rate of the recording, for a folder or if the file's is wrong."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Write a plot of the residual curve.")] = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Write a sheet of one frame, corrected with several gammas.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing pictures.")] = False,
    progressive: clip.Progressive = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Estimate the readout time of a camera from a clip. Exits with code 3 if the clip does not determine it."""
    from qrsc.calibrate.calibrate_video import calibrate_video
    from qrsc.cli.progress import reporting

    with reporting("none" if quiet or as_json else "auto") as progress:
        report = calibrate_video(
            source,
            scan=scan,
            camera=camera,
            fps=fps,
            plot=plot,
            sweep=sweep,
            overwrite=overwrite,
            progressive=progressive,
            progress=progress,
        )
    typer.echo(json.dumps(report.figures(), indent=2) if as_json else report.text())
    if not report.calibration.determined:
        raise typer.Exit(UNDETERMINED)
