"""`qrsc weights`: what comes with the package, and where it is from."""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def weights(
    name: Annotated[str | None, typer.Argument(help="Show the whole card of these.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Cards as JSON.")] = False,
) -> None:
    """List the weights of the package, check their files, and say where they come from; fails if one is damaged."""
    from qrsc.cli.weights_work import describe_weights

    lines, well = describe_weights(name, as_json=as_json)
    typer.echo(lines)
    if not well:
        raise typer.Exit(1)
