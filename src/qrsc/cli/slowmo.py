"""`qrsc slowmo`: several global-shutter instants for every rolling-shutter frame."""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import readable_errors
from qrsc.cli.options import KeepOption

EXAMPLES = """Make slow motion of a video and correct its rolling shutter.

\b
  qrsc slowmo clip.mp4 -o slow.mp4 --factor 4                        four times as long
  qrsc slowmo clip.mp4 -o smooth.mp4 --factor 2 --keep duration      twice the frame rate
  qrsc slowmo clip.mp4 -o slow.mp4 --factor 8 --readout 16           readout time of 16 ms

Every instant is blended from the two frames around it, each corrected to it. Give the readout once, or have it found;
--gamma 0 is a global shutter. A star marks the default.
"""


@readable_errors
def slowmo(
    source: clip.Source,
    output: clip.Output,
    factor: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=64, help="Frames out per frame in, 1 to 64.", show_default=False),
    ],
    keep: Annotated[
        KeepOption, typer.Option(metavar="WHAT", show_default=False, help="rate* (N times longer) or duration.")
    ] = "rate",
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    camera: clip.Camera = None,
    fps: clip.Fps = None,
    scan: clip.Scan = None,
    start: clip.Start = None,
    end: clip.End = None,
    duration: clip.Duration = None,
    fast: clip.Fast = False,
    best: clip.Best = False,
    motion: clip.Motion = "path",
    fusion: clip.Fusion = None,
    denoise: clip.Denoise = False,
    flow: clip.Flow = None,
    scale: clip.Scale = None,
    device: clip.Device = "auto",
    codec: clip.Codec = None,
    crf: clip.Crf = None,
    pix_fmt: clip.PixFmt = None,
    preset: clip.Preset = None,
    overwrite: clip.Overwrite = False,
    progressive: clip.Progressive = False,
    always: clip.Always = False,
    dry_run: clip.DryRun = False,
    progress: clip.Progress = "auto",
    quiet: clip.Quiet = False,
) -> None:
    arguments = dict(locals())
    from qrsc.video.slowmo import slowmo_video

    clip.run(slowmo_video, "made for", arguments)


slowmo.__doc__ = EXAMPLES
