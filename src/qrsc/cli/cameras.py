"""`qrsc cameras`: the table of readout times."""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def cameras(
    query: Annotated[str, typer.Argument(metavar="[QUERY]", help="Name, or parts of it.", show_default=False)] = "",
    size: Annotated[str | None, typer.Option(metavar="WxH", help="Only modes of this picture size.")] = None,
    fps: Annotated[float | None, typer.Option(help="Only modes of this frame rate.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON.")] = False,
) -> None:
    """List cameras with known readout times: starting points, from public lens profiles."""
    from qrsc.cli.cameras_work import camera_table

    typer.echo(camera_table(query, size=size, fps=fps, as_json=as_json))
