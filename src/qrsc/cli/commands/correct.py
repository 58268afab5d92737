"""`qrsc correct`: rolling-shutter frames in, straight frames out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, FusionOption, InstantOption, MotionOption, ScanOption, WarpOption


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
