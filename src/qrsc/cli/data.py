"""`qrsc data`: check data sets, and list the frames of ACC."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DataLayoutOption, SplitOption

data = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check data sets, and list the frames of ACC.")


@data.command()
@readable_errors
def check(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Folder of a data set, a split, or a sequence.")],
    layout: Annotated[DataLayoutOption, typer.Option(help="Layout on disk.")],
    split: Annotated[SplitOption | None, typer.Option(help="Use only this split.")] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="List of frames, for the layout acc.")
    ] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Decode every file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Report sequences, frames, gaps and sizes. Exits with code 1 if there are problems."""
    from qrsc.cli.progress import reporting
    from qrsc.data.check import check_data, report_lines

    with reporting("none" if quiet else "auto") as progress:
        reports = check_data(root, layout, split=split, list_file=list_file, thorough=thorough, progress=progress)
    typer.echo("\n".join(report_lines(reports)))
    if any(report.problems for report in reports):
        raise typer.Exit(1)


@data.command()
@readable_errors
def acc(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Folder of BS-RSC, or of its test split.")],
    write: Annotated[Path, typer.Option(metavar="FILE", help="File for the list.")],
    split: Annotated[SplitOption | None, typer.Option(help="Use only this split.")] = None,
    gamma: Annotated[
        float | None, typer.Option(help="Readout time / frame interval, instead of the data set's own.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing list.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """List the frames of BS-RSC whose motion is not uniform. They are chosen by their measured acceleration."""
    from qrsc.cli.progress import reporting
    from qrsc.data.acc import choose_acc

    with reporting("none" if quiet else "auto") as progress:
        found = choose_acc(root, write, split=split, gamma=gamma, overwrite=overwrite, progress=progress)
    if not quiet:
        largest = found.largest
        typer.echo(
            f"{found.chosen} of {found.measured} frames in {write}; the largest mean acceleration is "
            f"{largest.mean:.1f} px/frame^2, in {largest.sequence}/{largest.number:05d}"
        )
