"""`qrsc slowmo`: several global-shutter instants for every rolling-shutter frame."""

from __future__ import annotations

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
from qrsc.cli.options import KeepOption

EXAMPLES = """Make slow motion of a video, without its jello.

\b
  qrsc slowmo clip.mp4 -o slow.mp4 --factor 4                        four times as long
  qrsc slowmo clip.mp4 -o smooth.mp4 --factor 2 --keep duration      twice the frame rate
  qrsc slowmo clip.mp4 -o slow.mp4 --factor 8 --readout 16           readout time of 16 ms

Every instant is blended from the two frames around it, each corrected to it. Give the readout once, or have it found;
--gamma 0 is a global shutter. A star marks what is taken if nothing is said.
"""


@readable_errors
def slowmo(
    source: SourceGiven,
    output: OutputGiven,
    factor: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Instants for every frame, 1 to 64.", show_default=False)
    ],
    keep: Annotated[
        KeepOption, typer.Option(metavar="WHAT", show_default=False, help="rate* (N times longer) or duration.")
    ] = "rate",
    gamma: GammaGiven = None,
    readout: ReadoutGiven = None,
    percent: PercentGiven = None,
    camera: CameraGiven = None,
    fps: FpsGiven = None,
    scan: ScanGiven = None,
    start: StartGiven = None,
    end: EndGiven = None,
    fast: FastGiven = False,
    best: BestGiven = False,
    motion: MotionGiven = "path",
    flow: FlowGiven = None,
    scale: ScaleGiven = None,
    device: DeviceGiven = "auto",
    codec: CodecGiven = None,
    crf: CrfGiven = None,
    pix_fmt: PixFmtGiven = None,
    preset: PresetGiven = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what has the output's name.")] = False,
    progress: ProgressGiven = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")] = False,
) -> None:
    from qrsc.cli.progress import reporting, show_result
    from qrsc.video.slowmo import slowmo_video

    with reporting("none" if quiet else progress) as report:
        result = slowmo_video(
            source,
            output,
            factor=factor,
            keep=keep,
            gamma=gamma,
            readout_ms=readout,
            percent=percent,
            camera=camera,
            fps=fps,
            scan=scan,
            start=start,
            end=end,
            preset=choose_preset_name(fast, best),
            motion=motion,
            flow=flow,
            scale=scale,
            device=device,
            codec=codec,
            crf=crf,
            pixel_format=pix_fmt,
            encoder_preset=preset,
            overwrite=overwrite,
            progress=report,
            on_note=None if quiet else echo_note,
        )
    show_result(result, "made for", as_json=progress == "json", quiet=quiet)


slowmo.__doc__ = EXAMPLES
