"""`qrsc export`: the correction and the camera's motion for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import echo_note, readable_errors
from qrsc.cli.options import ExportFormatOption, InstantOption


@readable_errors
def export(
    source: clip.Source,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUTPUT", help="File, or folder for stmap.")],
    format: Annotated[
        ExportFormatOption,
        typer.Option("--as", metavar="FORMAT", help="gyroflow, stmap, kalibr, odm, gsplat or npz.", show_default=False),
    ],
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    camera: clip.Camera = None,
    fps: clip.Fps = None,
    scan: clip.Scan = None,
    at: Annotated[
        InstantOption, typer.Option(metavar="ROW", help="Instant of fields and poses: first, middle or last row.")
    ] = "middle",
    focal: Annotated[
        float | None, typer.Option(metavar="PX", show_default=False, help="Focal length in pixels, if it is known.")
    ] = None,
    poses: Annotated[
        Path | None,
        typer.Option(metavar="MODEL", show_default=False, help="For gsplat: COLMAP model from corrected keypoints."),
    ] = None,
    fast: clip.Fast = False,
    best: clip.Best = False,
    overwrite: clip.Overwrite = False,
    quiet: clip.Quiet = False,
) -> None:
    """Write the readout, the correction or the camera's motion in the format of another program."""
    from qrsc.cli.progress import reporting
    from qrsc.geometry.export import export_clip
    from qrsc.video.readout import ReadoutOptions

    with reporting("none" if quiet else "auto") as progress:
        written = export_clip(
            source,
            output,
            format,
            ReadoutOptions(gamma, readout, percent, camera, fps, scan),
            at=at,
            focal=focal,
            poses=poses,
            preset=clip.chosen_preset(fast, best),
            overwrite=overwrite,
            progress=progress,
            on_note=(lambda _: None) if quiet else echo_note,
        )
    if not quiet:
        typer.echo(f"wrote {written}")
