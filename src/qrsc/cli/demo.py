"""`qrsc demo`: a demonstration without a clip of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the files.")] = Path(
        "demo"
    ),
    size: Annotated[str, typer.Option(metavar="WxH", help="Frame size.")] = "640x480",
    frames: Annotated[int, typer.Option(min=3, help="Number of frames.")] = 24,
    seed: Annotated[int, typer.Option(help="Random seed of the scene.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no figures.")] = False,
) -> None:
    """Render a rolling-shutter clip and correct it. Writes a before/after video, a still and a report."""
    from qrsc.cli.progress import reporting
    from qrsc.evaluate.demo import run_demo
    from qrsc.names import parse_size

    with reporting("none" if quiet else "auto") as progress:
        result = run_demo(output, size=parse_size(size), frames=frames, seed=seed, progress=progress)
    if not quiet:
        typer.echo(result.summary())
