"""What `qrsc correct`, `batch` and `slowmo` share: options, each with its type and help text, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qrsc.cli.errors import echo_note
from qrsc.cli.options import (
    BorderOption,
    DeviceOption,
    InstantOption,
    MotionOption,
    ProgressOption,
    ScanOption,
    UnsureOption,
    WarpOption,
)
from qrsc.names import PresetName

if TYPE_CHECKING:
    from qrsc.video.result import VideoResult

Source = Annotated[Path, typer.Argument(metavar="INPUT", help="Video or folder of images.", show_default=False)]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="OUTPUT", help="Video or folder to write.")]
Gamma = Annotated[
    float | None,
    typer.Option(metavar="RATIO", show_default=False, help="The same in frame intervals, 0 to 1."),
]
Readout = Annotated[float | None, typer.Option(metavar="MS", show_default=False, help="Readout time in milliseconds.")]
Percent = Annotated[
    float | None, typer.Option(metavar="PERCENT", show_default=False, help="Readout time in % of the frame interval.")
]
Camera = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="A camera from the table (qrsc cameras).")
]
Fps = Annotated[
    float | None,
    typer.Option(metavar="RATE", show_default=False, help="Frame rate, for a folder or if the file's is wrong."),
]
Scan = Annotated[
    ScanOption | None,
    typer.Option(metavar="DIRECTION", show_default=False, help="top-down, bottom-up, left-right, right-left, as seen."),
]
Start = Annotated[
    float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="Start at this time, in seconds.")
]
End = Annotated[
    float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="Stop at this time, in seconds.")
]
Duration = Annotated[
    float | None, typer.Option(metavar="S", show_default=False, help="Stop after so many seconds, instead of --end.")
]
Motion = Annotated[
    MotionOption,
    typer.Option(metavar="NAME", show_default=False, help="Motion model: linear, quadratic, cubic or path*."),
]
Fusion = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="none, mean, coherent, rsa2-lite*, rsa2 or FILE."),
]
Denoise = Annotated[
    bool,
    typer.Option("--denoise", show_default=False, help="Remove noise, and some fine detail with it: fusion coherent."),
]
Flow = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default=False, help="Optical flow: dis, raft-rs, raft-rs+dis...; by device*."),
]
Scale = Annotated[
    float | None, typer.Option(metavar="FRACTION", show_default=False, help="Resolution of the optical flow, 0 to 1.")
]
Device = Annotated[DeviceOption, typer.Option(metavar="NAME", show_default=False, help="auto*, cpu, cuda or mps.")]
Codec = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="h264, hevc, vp9, av1, prores, ffv1, ...")
]
Crf = Annotated[
    float | None,
    typer.Option(metavar="Q", show_default=False, help="Quality: lower is better; 0 is lossless, except in AV1."),
]
PixFmt = Annotated[
    str | None, typer.Option(metavar="NAME", show_default=False, help="Pixel format; the same as the input*.")
]
Preset = Annotated[str | None, typer.Option(metavar="NAME", show_default=False, help="Encoder preset, such as slow.")]
Progress = Annotated[
    ProgressOption, typer.Option(metavar="HOW", show_default=False, help="auto*, bar, json (lines on stdout) or none.")
]
Fast = Annotated[bool, typer.Option("--fast", show_default=False, help="Fastest: DIS flow, mean of three frames.")]
Best = Annotated[
    bool,
    typer.Option("--best", show_default=False, help="Slowest: network flow refined by DIS, full-size fields."),
]
At = Annotated[
    InstantOption | None,
    typer.Option(metavar="ROW", show_default=False, help="Show the first, middle* or last row's instant."),
]
Strength = Annotated[
    float,
    typer.Option(metavar="FRACTION", min=0.0, max=1.0, show_default=False, help="How much to correct: 0 to 1*."),
]
Border = Annotated[
    BorderOption,
    typer.Option(metavar="HOW", show_default=False, help="fill*, crop, crop-only, repeat, transparent."),
]
Margin = Annotated[
    float,
    typer.Option(metavar="FRACTION", show_default=False, help="What crop cuts off each side: 0.04*."),
]
Warp = Annotated[WarpOption, typer.Option(metavar="NAME", show_default=False, help="invert*, splat or negate.")]
Unsure = Annotated[
    UnsureOption,
    typer.Option(metavar="NAME", show_default=False, help="Uncertain regions use linear* motion, or the input."),
]
Verify = Annotated[
    bool | None,
    typer.Option("--verify/--no-verify", show_default=False, help="Read the output again; as far as 5 % of time*."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", show_default=False, help="Replace files that exist.")]
Progressive = Annotated[
    bool,
    typer.Option("--progressive", show_default=False, help="Frames stored as two fields come from one exposure."),
]
Always = Annotated[
    bool,
    typer.Option("--always", show_default=False, help="Correct even if the result looks worse than the input."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", show_default=False, help="Say what would be done, its time and size; write nothing."),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", show_default=False, help="Print nothing but errors and warnings.")
]

# Names of options that differ from those of the library's arguments.
_RENAMED = {"readout": "readout_ms", "pix_fmt": "pixel_format", "preset": "encoder_preset"}


def run(work: Callable[..., VideoResult], verb: str, arguments: Mapping[str, Any]) -> None:
    """Call a function of the library with the arguments of its command, and print the result.

    Args:
        work: `correct_video` or `slowmo_video`.
        verb: what was done with the frames, for the summary.
        arguments: of the command, by name.
    """
    from qrsc.cli.progress import reporting, show_result

    given = dict(arguments)
    progress, quiet = given.pop("progress"), given.pop("quiet")
    options = library_options(given)
    with reporting("none" if quiet else progress) as report:
        result = work(**options, progress=report, on_note=None if quiet else echo_note)
    show_result(result, verb, as_json=progress == "json", quiet=quiet)


def library_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the library that options of a command stand for."""
    options = {_RENAMED.get(name, name): value for name, value in given.items() if name not in ("fast", "best")}
    options["preset"] = chosen_preset(given["fast"], given["best"])
    return options


def chosen_preset(fast: bool, best: bool) -> PresetName:
    """The preset that the two switches stand for."""
    if fast and best:
        raise ValueError("choose one of --fast and --best.")
    return "fast" if fast else "best" if best else "default"
