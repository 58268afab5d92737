"""`qrsc points`: a COLMAP database in, one with corrected keypoints out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import readable_errors
from qrsc.cli.options import InstantOption, ScanOption


@readable_errors
def points(
    source: Annotated[Path, typer.Argument(metavar="DATABASE", help="COLMAP database.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DATABASE", help="COLMAP database to write.")],
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    fps: Annotated[
        float | None, typer.Option(metavar="RATE", show_default=False, help="Frame rate, to go with --readout.")
    ] = None,
    scan: Annotated[
        ScanOption,
        typer.Option(metavar="DIRECTION", help="top-down, bottom-up, left-right or right-left, in the images."),
    ] = "top-down",
    at: Annotated[
        InstantOption, typer.Option(metavar="ROW", help="Instant of the first, middle or last row.")
    ] = "middle",
    spacing: Annotated[
        float, typer.Option(metavar="N", help="Frames of the camera from one frame number to the next.")
    ] = 1.0,
    images: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", show_default=False, help="Correct keypoints without a track, too, by optical flow."
        ),
    ] = None,
    flow: Annotated[str, typer.Option(metavar="NAME", help="That optical flow.")] = "dis",
    write_times: Annotated[
        Path | None,
        typer.Option(metavar="CSV", show_default=False, help="Also write the row time of each keypoint."),
    ] = None,
    overwrite: clip.Overwrite = False,
    quiet: clip.Quiet = False,
) -> None:
    """Move the keypoints of a COLMAP database to the instant of their frame.

    Matches, cameras and images stay; verify the matches again before mapping.
    """
    from qrsc.cli.progress import reporting
    from qrsc.geometry.colmap_database import correct_database
    from qrsc.geometry.given_readout import given_readout

    chosen = given_readout(readout_ms=readout, gamma=gamma, percent=percent, fps=fps, scan=scan)
    with reporting("none" if quiet else "auto") as progress:
        report = correct_database(
            source,
            output,
            chosen,
            at=at,
            images=images,
            flow=flow,
            spacing=spacing,
            write_times=write_times,
            overwrite=overwrite,
            progress=progress,
        )
    if not quiet:
        typer.echo(report.text())
