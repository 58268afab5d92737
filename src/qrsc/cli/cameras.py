"""`qrsc cameras`: the table of readout times."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def cameras(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Words in the name of the camera.", show_default=False)
    ] = "",
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Only modes with this frame size.")] = None,
    fps: Annotated[float | None, typer.Option(help="Only modes with this frame rate.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")] = False,
) -> None:
    """List cameras with known readout times. They come from public lens profiles and are starting points only."""
    from qrsc.calibrate.camera_table import find_modes, modes_text, nearest_names
    from qrsc.names import parse_size

    named = find_modes(query)
    if not named:
        raise ValueError(
            f"the camera {query!r} is not known; nearest: {', '.join(nearest_names(query))}. `qrsc cameras` lists all."
        )
    modes = find_modes(query, size=None if size is None else parse_size(size), fps=fps)
    if not modes:
        raise ValueError(f"no mode of {query!r} has this size and frame rate; `qrsc cameras {query!r}` lists all.")
    typer.echo(json.dumps([mode.figures() for mode in modes], indent=2) if as_json else modes_text(modes))
