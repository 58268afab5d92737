"""`qrsc correct`: rolling-shutter video in, straight video out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.clip_options import (
    BestGiven,
    CameraGiven,
    CodecGiven,
    CrfGiven,
    DeviceGiven,
    EndGiven,
    FastGiven,
    FlowGiven,
    FpsGiven,
    GammaGiven,
    MotionGiven,
    OutputGiven,
    PercentGiven,
    PixFmtGiven,
    PresetGiven,
    ProgressGiven,
    ReadoutGiven,
    ScaleGiven,
    ScanGiven,
    SourceGiven,
    StartGiven,
    choose_preset_name,
)
from qrsc.cli.errors import echo_note, readable_errors
from qrsc.cli.options import (
    BorderOption,
    InstantOption,
    UnsureOption,
    WarpOption,
)

EXAMPLES = """Take the jello out of a video.

\b
  qrsc correct clip.mp4 -o straight.mp4                      readout found in the clip
  qrsc correct clip.mp4 -o straight.mp4 --readout 16         readout time of 16 ms
  qrsc correct clip.mp4 -o straight.mp4 --gamma 0.5 --fast   quick, half a frame interval
  qrsc correct clip.mp4 -o out.mp4 --compare both.mp4        before and after side by side
  qrsc correct frames/ -o straight/ --gamma 0.8              a folder of images

The output's name says whether it is a video (.mp4 .mov .mkv .webm .avi .ts) or a folder of images. Sound, subtitles,
timestamps, rotation and colour tags are kept, and the input is never touched. Give the readout once, or have it found.
A star marks what is taken if nothing is said.
"""


@readable_errors
def correct(
    source: SourceGiven,
    output: OutputGiven,
    gamma: GammaGiven = None,
    readout: ReadoutGiven = None,
    percent: PercentGiven = None,
    camera: CameraGiven = None,
    fps: FpsGiven = None,
    scan: ScanGiven = None,
    at: Annotated[
        InstantOption | None,
        typer.Option(metavar="ROW", show_default=False, help="Show the first, middle* or last row's instant."),
    ] = None,
    tau: Annotated[
        float | None,
        typer.Option(metavar="TIME", show_default=False, help="The same as frame intervals from the start."),
    ] = None,
    strength: Annotated[
        float,
        typer.Option(metavar="PART", min=0.0, max=1.0, show_default=False, help="Part of the correction, 0 to 1*."),
    ] = 1.0,
    border: Annotated[
        BorderOption, typer.Option(metavar="HOW", show_default=False, help="fill*, crop, repeat or transparent.")
    ] = "fill",
    margin: Annotated[
        float, typer.Option(metavar="PART", show_default=False, help="What crop cuts off each side: 0.04* of it.")
    ] = 0.04,
    start: StartGiven = None,
    end: EndGiven = None,
    fast: FastGiven = False,
    best: BestGiven = False,
    motion: MotionGiven = "path",
    fusion: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False, help="none, mean, coherent, rsa2-lite*, rsa2 (* GPU) or FILE."
        ),
    ] = None,
    flow: FlowGiven = None,
    warp: Annotated[
        WarpOption, typer.Option(metavar="NAME", show_default=False, help="invert*, splat or negate.")
    ] = "invert",
    unsure: Annotated[
        UnsureOption,
        typer.Option(metavar="NAME", show_default=False, help="Unsure regions fade to: linear* motion, input."),
    ] = "linear",
    frames: Annotated[
        int,
        typer.Option(metavar="N", min=3, max=5, show_default=False, help="Frames looked at for each one: 3, 4 or 5*."),
    ] = 5,
    scale: ScaleGiven = None,
    device: DeviceGiven = "auto",
    codec: CodecGiven = None,
    crf: CrfGiven = None,
    pix_fmt: PixFmtGiven = None,
    preset: PresetGiven = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Also write before and after side by side.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", show_default=False, help="Replace what has the output's name.")
    ] = False,
    progress: ProgressGiven = "auto",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", show_default=False, help="Print nothing but errors and warnings.")
    ] = False,
) -> None:
    from qrsc.cli.progress import reporting, show_result
    from qrsc.video.correct import correct_video

    with reporting("none" if quiet else progress) as report:
        result = correct_video(
            source,
            output,
            gamma=gamma,
            readout_ms=readout,
            percent=percent,
            camera=camera,
            fps=fps,
            scan=scan,
            at=at,
            tau=tau,
            strength=strength,
            border=border,
            margin=margin,
            start=start,
            end=end,
            preset=choose_preset_name(fast, best),
            motion=motion,
            fusion=fusion,
            flow=flow,
            warp=warp,
            unsure=unsure,
            frames=frames,
            scale=scale,
            device=device,
            codec=codec,
            crf=crf,
            pixel_format=pix_fmt,
            encoder_preset=preset,
            compare=compare,
            overwrite=overwrite,
            progress=report,
            on_note=None if quiet else echo_note,
        )
    show_result(result, "corrected into", as_json=progress == "json", quiet=quiet)


correct.__doc__ = EXAMPLES
