"""`qrsc slowmo`: several global-shutter instants for every rolling-shutter frame."""

from __future__ import annotations

from typing import Annotated

import typer

from qrsc.cli.clip_options import (
    CameraGiven,
    CodecGiven,
    CrfGiven,
    DeviceGiven,
    EndGiven,
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
)
from qrsc.cli.errors import readable_errors
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
    from qrsc.cli.progress import print_json
    from qrsc.media.codecs import choose_encoding, is_video_name
    from qrsc.pipeline import Corrector
    from qrsc.pipeline.presets import choose_scale
    from qrsc.video.clips import clip_info, clip_size, require_output
    from qrsc.video.readout import ReadoutOptions, choose_device, choose_readout
    from qrsc.video.slowmo import SlowJob, slow_down

    def say(line: str) -> None:
        if not quiet:
            typer.echo(f"note: {line}", err=True)

    require_output(source, output, overwrite=overwrite)
    chosen_device = choose_device(device)
    info = clip_info(source)
    given = ReadoutOptions(gamma, readout, percent, camera, fps, scan)
    chosen = choose_readout(source, info, given, device=chosen_device, say=say)
    encoding = None
    if is_video_name(output):
        if info is None and fps is None:
            raise ValueError("a folder of images has no frame rate: give that of the video as --fps.")
        encoding = choose_encoding(output, info, codec=codec, crf=crf, pixel_format=pix_fmt, preset=preset)
    corrector = Corrector(
        chosen,
        preset="default",
        motion=motion,
        flow=flow,
        scale=choose_scale(scale, clip_size(source, info)),
        find_cuts=True,
        find_repeats=True,
        flows_ahead=1,
    )
    job = SlowJob(source, output, info, encoding, chosen_device, factor, keep, fps, start, end, overwrite)
    summary = slow_down(job, corrector, progress="none" if quiet else progress, say=say)
    if quiet:
        return
    if progress == "json":
        print_json(event="done", output=str(output), **summary.figures(corrector.seconds.spent))
    else:
        typer.echo(summary.text(f"made for {output}", corrector.seconds.spent))


slowmo.__doc__ = EXAMPLES
