"""`qrsc data`: look at data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DataLayoutOption, SplitOption

data = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at data sets.")


@data.command()
@readable_errors
def check(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Data set, one of its splits, or one sequence.")],
    layout: Annotated[DataLayoutOption, typer.Option(help="How it lies on disk.")],
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    list_file: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Frames of the layout acc.")] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Decode every file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Report sequences, frames, gaps and sizes; fails if something is wrong."""
    from qrsc.cli.data_work import check_data

    lines, well = check_data(root, layout, split=split, list_file=list_file, thorough=thorough, quiet=quiet)
    typer.echo(lines)
    if not well:
        raise typer.Exit(1)


@data.command()
@readable_errors
def acc(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="BS-RSC, or its test folder.")],
    write: Annotated[Path, typer.Option(metavar="FILE", help="Where the list goes.")],
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Readout ratio in place of the data set's own.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a list that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """List the frames of BS-RSC whose motion is not uniform, by their measured acceleration."""
    from qrsc.cli.data_work import choose_acc

    summary = choose_acc(root, write, split=split, gamma=gamma, overwrite=overwrite, quiet=quiet)
    if not quiet:
        typer.echo(summary)
