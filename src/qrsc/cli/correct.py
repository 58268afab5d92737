"""`qrsc correct`: rolling-shutter video in, straight video out."""

from __future__ import annotations

from pathlib import Path
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
from qrsc.cli.options import (
    BorderOption,
    FusionOption,
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
    fast: Annotated[
        bool, typer.Option("--fast", show_default=False, help="Quickest: flow by a search, the mean of three frames.")
    ] = False,
    best: Annotated[
        bool,
        typer.Option("--best", show_default=False, help="Slowest: a search behind the network, fields at full size."),
    ] = False,
    motion: MotionGiven = "path",
    fusion: Annotated[
        FusionOption | None,
        typer.Option(metavar="NAME", show_default=False, help="none, mean, coherent, rsa2-lite* or rsa2 (* on a GPU)."),
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
    from qrsc.cli.progress import print_json
    from qrsc.media.codecs import choose_encoding, is_video_name
    from qrsc.pipeline import Corrector
    from qrsc.pipeline.presets import choose_preset, choose_scale, choose_threads
    from qrsc.video.clips import clip_info, clip_size, require_output
    from qrsc.video.correct import Job, correct_clip
    from qrsc.video.readout import ReadoutOptions, choose_device, choose_readout, choose_tau

    def say(line: str) -> None:
        if not quiet:
            typer.echo(f"note: {line}", err=True)

    require_output(source, output, compare=compare, overwrite=overwrite)
    chosen_device = choose_device(device)
    basis = choose_preset(fast, best)
    info = clip_info(source)
    given = ReadoutOptions(gamma, readout, percent, camera, fps, scan)
    chosen = choose_readout(source, info, given, device=chosen_device, say=say)
    encoding = None
    if is_video_name(output):
        if info is None and fps is None:
            raise ValueError("a folder of images has no frame rate: give that of the video as --fps.")
        encoding = choose_encoding(
            output,
            info,
            codec=codec,
            crf=crf,
            pixel_format=pix_fmt,
            preset=preset,
            quick=fast,
            alpha=border == "transparent",
        )
    corrector = Corrector(
        chosen,
        preset=basis.name,
        tau=choose_tau(chosen, tau, at),
        motion=motion,
        fusion=fusion,
        warp=warp,
        flow=flow,
        frames=frames,
        strength=strength,
        border="repeat" if border == "repeat" else "fill",
        unsure=unsure,
        scale=choose_scale(scale, clip_size(source, info)),
        find_cuts=True,
        find_repeats=True,
        flows_ahead=1,
    )
    job = Job(
        source,
        output,
        info,
        encoding,
        chosen_device,
        border,
        margin,
        compare,
        fps,
        start,
        end,
        overwrite=overwrite,
        # Networks asked for beside --fast have more to do than a search, and get all cores.
        threads=choose_threads(chosen_device) if fast and flow is None and fusion is None else None,
    )
    summary = correct_clip(job, corrector, progress="none" if quiet else progress, say=say)
    if quiet:
        return
    if progress == "json":
        print_json(event="done", output=str(output), **summary.figures(corrector.seconds.spent))
    else:
        typer.echo(summary.text(f"corrected into {output}", corrector.seconds.spent))


correct.__doc__ = EXAMPLES
