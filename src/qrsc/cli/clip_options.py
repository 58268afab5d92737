"""Options that `qrsc correct` and `qrsc slowmo` have in common, each with its type and its line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.options import DeviceOption, MotionOption, ProgressOption, ScanOption
from qrsc.names import PresetName

SourceGiven = Annotated[Path, typer.Argument(metavar="INPUT", help="Video, or folder of images.", show_default=False)]
OutputGiven = Annotated[Path, typer.Option("--output", "-o", metavar="OUTPUT", help="Video or folder to write.")]
GammaGiven = Annotated[
    float | None, typer.Option(metavar="RATIO", show_default=False, help="Readout time / frame interval, 0 to 1.")
]
ReadoutGiven = Annotated[
    float | None, typer.Option(metavar="MS", show_default=False, help="Readout time in milliseconds.")
]
PercentGiven = Annotated[
    float | None, typer.Option(metavar="PERCENT", show_default=False, help="Readout time in % of the frame interval.")
]
CameraGiven = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="A camera whose readout is known.")
]
FpsGiven = Annotated[
    float | None, typer.Option(metavar="RATE", show_default=False, help="Frames per second, for a folder.")
]
ScanGiven = Annotated[
    ScanOption | None,
    typer.Option(metavar="WAY", show_default=False, help="top-down, bottom-up, left-right, right-left."),
]
StartGiven = Annotated[
    float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="Begin there, in seconds.")
]
EndGiven = Annotated[
    float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="End there, in seconds.")
]
MotionGiven = Annotated[
    MotionOption, typer.Option(metavar="NAME", show_default=False, help="linear, quadratic, cubic or path*.")
]
FlowGiven = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="dis, raft-rs, raft-rs+dis, ...; by device*.")
]
ScaleGiven = Annotated[
    float | None, typer.Option(metavar="PART", show_default=False, help="Size at which flow is found, 0 to 1.")
]
DeviceGiven = Annotated[DeviceOption, typer.Option(metavar="NAME", show_default=False, help="auto*, cpu, cuda or mps.")]
CodecGiven = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="h264, hevc, vp9, av1, prores, ffv1, ...")
]
CrfGiven = Annotated[
    float | None, typer.Option(metavar="Q", show_default=False, help="Quality: smaller is better, 0 without loss.")
]
PixFmtGiven = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="Pixel format; that of the input*.")
]
PresetGiven = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="The encoder's preset, such as slow.")
]
ProgressGiven = Annotated[
    ProgressOption, typer.Option(metavar="HOW", show_default=False, help="auto*, bar, json (lines on stdout) or none.")
]
FastGiven = Annotated[
    bool, typer.Option("--fast", show_default=False, help="Quickest: flow by a search, the mean of three frames.")
]
BestGiven = Annotated[
    bool,
    typer.Option("--best", show_default=False, help="Slowest: a search behind the network, fields at full size."),
]


def choose_preset_name(fast: bool, best: bool) -> PresetName:
    """The preset that the two switches stand for."""
    if fast and best:
        raise ValueError("choose one of --fast and --best.")
    return "fast" if fast else "best" if best else "default"
