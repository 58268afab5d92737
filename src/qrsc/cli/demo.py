"""`qrsc demo`: a demonstration without a clip of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.")] = Path(
        "demo"
    ),
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the clip.")] = "640x480",
    frames: Annotated[int, typer.Option(min=3, help="Length of the clip.")] = 24,
    seed: Annotated[int, typer.Option(help="Another seed, another scene.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no figures.")] = False,
) -> None:
    """Render a rolling-shutter clip, correct it from its pixels, and write a before/after video, still and report."""
    from qrsc.cli.progress import reporting
    from qrsc.evaluate.demo import run_demo
    from qrsc.names import parse_size

    with reporting("none" if quiet else "auto") as progress:
        result = run_demo(output, size=parse_size(size), frames=frames, seed=seed, progress=progress)
    if not quiet:
        typer.echo(result.summary())
