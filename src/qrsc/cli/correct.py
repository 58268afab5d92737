"""`qrsc correct`: rolling-shutter video in, straight video out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import readable_errors

EXAMPLES = """Correct the rolling shutter of a video.

\b
  qrsc correct clip.mp4 -o straight.mp4                      readout found in the clip
  qrsc correct clip.mp4 -o straight.mp4 --readout 16         readout time of 16 ms
  qrsc correct clip.mp4 -o straight.mp4 --fast --duration 5  quick, the first five seconds
  qrsc correct clip.mp4 -o out.mp4 --compare both.mp4        before and after side by side
  qrsc correct frames/ -o straight/ --gamma 0.8              a folder of images

The output's name says whether it is a video (.mp4 .mov .mkv .webm .avi .ts) or a folder of images. Sound, subtitles,
timestamps, rotation and colour tags are kept, and the input is never touched. Give the readout once, or have it found.
A star marks the default.
"""


@readable_errors
def correct(
    source: clip.Source,
    output: clip.Output,
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    camera: clip.Camera = None,
    fps: clip.Fps = None,
    scan: clip.Scan = None,
    at: clip.At = None,
    tau: Annotated[
        float | None,
        typer.Option(metavar="TIME", show_default=False, help="The same, in frame intervals from the frame's start."),
    ] = None,
    strength: clip.Strength = 1.0,
    border: clip.Border = "fill",
    margin: clip.Margin = 0.04,
    start: clip.Start = None,
    end: clip.End = None,
    duration: clip.Duration = None,
    fast: clip.Fast = False,
    best: clip.Best = False,
    motion: clip.Motion = "path",
    fusion: clip.Fusion = None,
    denoise: clip.Denoise = False,
    flow: clip.Flow = None,
    warp: clip.Warp = "invert",
    unsure: clip.Unsure = "linear",
    frames: Annotated[
        int,
        typer.Option(metavar="N", min=3, max=5, show_default=False, help="Frames used for each output: 3, 4 or 5*."),
    ] = 5,
    scale: clip.Scale = None,
    device: clip.Device = "auto",
    codec: clip.Codec = None,
    crf: clip.Crf = None,
    pix_fmt: clip.PixFmt = None,
    preset: clip.Preset = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default=False, help="Also write before and after side by side.")
    ] = None,
    preview: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="First write two seconds, quickly, before and after."),
    ] = None,
    overwrite: clip.Overwrite = False,
    verify: clip.Verify = None,
    progressive: clip.Progressive = False,
    always: clip.Always = False,
    dry_run: clip.DryRun = False,
    progress: clip.Progress = "auto",
    quiet: clip.Quiet = False,
) -> None:
    arguments = dict(locals())
    from qrsc.video.correct import correct_video

    clip.run(correct_video, "corrected into", arguments)


correct.__doc__ = EXAMPLES
