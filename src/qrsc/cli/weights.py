"""`qrsc weights`: the weights that come with the package, and their model cards."""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors


@readable_errors
def weights(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show the whole model card of these weights.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the model cards as JSON.")] = False,
) -> None:
    """List the weights of the package and verify their files. Exits with code 1 if a file is damaged."""
    from qrsc.weights.describe import describe_weights

    lines, intact = describe_weights(name, as_json=as_json)
    typer.echo(lines)
    if not intact:
        raise typer.Exit(1)
