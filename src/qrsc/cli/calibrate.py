"""`qrsc calibrate`: the readout of a camera from its clip."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import SoughtScanOption

UNDETERMINED = 3


@readable_errors
def calibrate(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="A video, or a folder of images.")],
    scan: Annotated[
        SoughtScanOption | None,
        typer.Option(
            show_default=False,
            help="Direction of the stored frames. Found along their shorter side if not given; any: along both sides.",
        ),
    ] = None,
    camera: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Look around this camera's readout.")
    ] = None,
    fps: Annotated[float | None, typer.Option(show_default=False, help="Frame rate of the recording.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="The residual curve as a picture.")] = None,
    sweep: Annotated[
        Path | None, typer.Option(metavar="PNG", help="A sheet of one frame corrected at several gammas.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace pictures that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Find the readout time of a camera in its clip. Ends with code 3 if the clip does not determine it."""
    from qrsc.cli.calibrate_work import calibrate_source

    text, determined = calibrate_source(
        source,
        scan=scan,
        camera=camera,
        fps=fps,
        plot=plot,
        sweep=sweep,
        overwrite=overwrite,
        as_json=as_json,
        quiet=quiet,
    )
    typer.echo(text)
    if not determined:
        raise typer.Exit(UNDETERMINED)
