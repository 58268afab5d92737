"""`qrsc slowmo`: several global-shutter instants for every rolling-shutter frame."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, KeepOption, MotionOption, ProgressOption, ScanOption

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
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Video, or folder of images.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUTPUT", help="Video or folder to write.")],
    factor: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Instants for every frame, 1 to 64.", show_default=False)
    ],
    keep: Annotated[
        KeepOption, typer.Option(metavar="WHAT", show_default=False, help="rate* (N times longer) or duration.")
    ] = "rate",
    gamma: Annotated[
        float | None,
        typer.Option(metavar="RATIO", show_default=False, help="Readout time / frame interval, 0 to 1."),
    ] = None,
    readout: Annotated[
        float | None, typer.Option(metavar="MS", show_default=False, help="Readout time in milliseconds.")
    ] = None,
    percent: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", show_default=False, help="Readout time in % of the frame interval."),
    ] = None,
    camera: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="A camera whose readout is known.")
    ] = None,
    fps: Annotated[
        float | None, typer.Option(metavar="RATE", show_default=False, help="Frames per second, for a folder.")
    ] = None,
    scan: Annotated[
        ScanOption | None,
        typer.Option(metavar="WAY", show_default=False, help="top-down, bottom-up, left-right, right-left."),
    ] = None,
    start: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="Begin there, in seconds.")
    ] = None,
    end: Annotated[
        float | None, typer.Option(metavar="S", min=0.0, show_default=False, help="End there, in seconds.")
    ] = None,
    motion: Annotated[
        MotionOption, typer.Option(metavar="NAME", show_default=False, help="linear, quadratic* or cubic.")
    ] = "quadratic",
    flow: Annotated[
        str | None,
        typer.Option(metavar="NAME", show_default=False, help="dis, raft-rs, raft-rs+dis, ...; by device*."),
    ] = None,
    scale: Annotated[
        float | None, typer.Option(metavar="PART", show_default=False, help="Size at which flow is found, 0 to 1.")
    ] = None,
    device: Annotated[
        DeviceOption, typer.Option(metavar="NAME", show_default=False, help="auto*, cpu, cuda or mps.")
    ] = "auto",
    codec: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="h264, hevc, vp9, av1, prores, ffv1, ...")
    ] = None,
    crf: Annotated[
        float | None, typer.Option(metavar="Q", show_default=False, help="Quality: smaller is better, 0 without loss.")
    ] = None,
    pix_fmt: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="Pixel format; that of the input*.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(metavar="NAME", show_default=False, help="The encoder's preset, such as slow.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what has the output's name.")] = False,
    progress: Annotated[
        ProgressOption,
        typer.Option(metavar="HOW", show_default=False, help="auto*, bar, json (lines on stdout) or none."),
    ] = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors and warnings.")] = False,
) -> None:
    from qrsc.cli.choose import ReadoutOptions, choose_device, choose_preset, choose_readout, choose_scale
    from qrsc.cli.clips import clip_info, clip_size, require_apart
    from qrsc.cli.progress import print_json
    from qrsc.cli.slowmo import SlowJob, slow_down
    from qrsc.media.codecs import choose_encoding, is_video_name
    from qrsc.pipeline import Corrector

    def say(line: str) -> None:
        if not quiet:
            typer.echo(f"note: {line}", err=True)

    require_apart(source, output, overwrite)
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
        motion=motion,
        flow=flow,
        scale=choose_scale(scale, clip_size(source, info)),
        field_scale=choose_preset(fast=False, best=False).field_scale,
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
