"""The commands of `qrsc`, gathered.

Nothing here imports torch or a module that does: `qrsc --help` answers in a fifth of a second because the work is
imported by the command that does it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc import __version__
from qrsc.cli.ablate import ablate
from qrsc.cli.batch import BatchCommand, batch
from qrsc.cli.calibrate import calibrate
from qrsc.cli.cameras import cameras
from qrsc.cli.correct import correct
from qrsc.cli.data import data
from qrsc.cli.demo import demo
from qrsc.cli.evaluate import evaluate
from qrsc.cli.export import export
from qrsc.cli.generalise import generalise
from qrsc.cli.motion import motion
from qrsc.cli.points import points
from qrsc.cli.simulate import simulate
from qrsc.cli.slowmo import slowmo
from qrsc.cli.train import train
from qrsc.cli.web import web
from qrsc.cli.weights import weights

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qrsc {__version__}")
        raise typer.Exit


@app.callback()
def qrsc(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Rolling-shutter correction of video: all rows of a frame are brought to one instant."""


app.command()(correct)
app.command(cls=BatchCommand)(batch)
for command in (
    slowmo,
    calibrate,
    cameras,
    points,
    export,
    motion,
    demo,
    evaluate,
    ablate,
    generalise,
    weights,
    web,
):
    app.command()(command)
app.add_typer(simulate, name="simulate")
app.add_typer(data, name="data")
app.add_typer(train, name="train")
