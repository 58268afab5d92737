"""`qrsc motion`: the camera's path through a clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import echo_note, readable_errors


@readable_errors
def motion(
    source: clip.Source,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="CSV", show_default=False, help="Table of the path over time."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", show_default=False, help="Plot of the path.")] = None,
    per_frame: Annotated[int, typer.Option(metavar="N", min=1, help="Lines of the table per frame.")] = 1,
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    camera: clip.Camera = None,
    fps: clip.Fps = None,
    scan: clip.Scan = None,
    focal: Annotated[
        float | None, typer.Option(metavar="PX", show_default=False, help="Focal length in pixels, if it is known.")
    ] = None,
    overwrite: clip.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the path of all frames as JSON.")] = False,
    quiet: clip.Quiet = False,
) -> None:
    """Find the camera's path through a clip: rotation, translation up to scale and zoom, with standard errors."""
    from qrsc.cli.progress import reporting
    from qrsc.geometry.export import motion_of_clip
    from qrsc.geometry.motion_report import motion_figures, motion_text, write_motion_plot, write_motion_table
    from qrsc.media.outputs import require_writable
    from qrsc.video.readout import ReadoutOptions

    require_writable({"--output": output, "--plot": plot}, inputs=[source], overwrite=overwrite)
    with reporting("none" if quiet or as_json else "auto") as progress:
        found = motion_of_clip(
            source,
            ReadoutOptions(gamma, readout, percent, camera, fps, scan),
            focal=focal,
            progress=progress,
            on_note=(lambda _: None) if quiet else echo_note,
        )
    if output is not None:
        write_motion_table(output, found, per_frame=per_frame, overwrite=overwrite)
    if plot is not None:
        write_motion_plot(plot, found, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps(motion_figures(found)))
    elif not quiet:
        typer.echo(motion_text(found))
