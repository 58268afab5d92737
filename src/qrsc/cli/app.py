"""The commands and their options.

Nothing here imports torch or a module that does: `qrsc --help` answers in a fifth of a second because the work is
imported by the command that does it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from qrsc import __version__
from qrsc.cli.errors import readable_errors

ScanOption = Literal["top-down", "bottom-up", "left-right", "right-left"]
InstantOption = Literal["first", "middle", "last"]
MotionOption = Literal["linear", "quadratic", "cubic"]
FusionOption = Literal["none", "mean"]
WarpOption = Literal["invert", "splat", "negate"]
DeviceOption = Literal["auto", "cpu", "cuda", "mps"]

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
    """Rolling-shutter correction of video: every row of a frame brought to one instant."""


@app.command()
@readable_errors
def correct(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of images: the frames of one clip.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the frames go, same names.")],
    gamma: Annotated[float | None, typer.Option(help="Readout time / frame interval, 0 to 1.")] = None,
    readout: Annotated[float | None, typer.Option(metavar="MS", help="Readout time in ms; needs --fps.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frame rate of the recording, for --readout.")] = None,
    percent: Annotated[float | None, typer.Option(help="Readout time in per cent of the frame interval.")] = None,
    scan: Annotated[ScanOption, typer.Option(help="Which way the rows are read in the pictures.")] = "top-down",
    tau: Annotated[float | None, typer.Option(help="Target instant in frame intervals from the frame's start.")] = None,
    at: Annotated[InstantOption | None, typer.Option(help="Target instant by row; middle if not given.")] = None,
    motion: Annotated[MotionOption, typer.Option(help="How points are taken to move.")] = "quadratic",
    fusion: Annotated[FusionOption, typer.Option(help="How corrected neighbours are merged.")] = "mean",
    warp: Annotated[WarpOption, typer.Option(help="How frames are moved to the instant.")] = "invert",
    frames: Annotated[int, typer.Option(min=3, max=5, help="Frames used for each output frame.")] = 5,
    flow: Annotated[str, typer.Option(help="Optical flow by name.")] = "dis",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of the same names.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
    device: Annotated[DeviceOption, typer.Option(help="Where tensors live.")] = "auto",
) -> None:
    """Correct a folder of images. Give the readout once: --gamma, --percent, or --readout with --fps."""
    from qrsc.cli.correct import choose_device, choose_readout, choose_tau, correct_folder
    from qrsc.pipeline import Corrector

    chosen = choose_readout(gamma=gamma, readout_ms=readout, fps=fps, percent=percent, scan=scan)
    corrector = Corrector(
        chosen, tau=choose_tau(chosen, tau, at), motion=motion, fusion=fusion, warp=warp, flow=flow, frames=frames
    )
    summary = correct_folder(source, output, corrector, device=choose_device(device), overwrite=overwrite, quiet=quiet)
    if not quiet:
        typer.echo(summary)


@app.command()
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
    from qrsc.cli.demo import show_demo

    summary = show_demo(output, size=size, frames=frames, seed=seed, quiet=quiet)
    if not quiet:
        typer.echo(summary)
