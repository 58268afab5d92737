"""`qrsc simulate`: rolling-shutter clips with their truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, LayoutOption, MixingOption, ScanOption, SetOption, StyleOption


@readable_errors
def simulate(
    context: typer.Context,
    output: Annotated[Path | None, typer.Argument(metavar="OUT", help="Folder for the clips.")] = None,
    layout: Annotated[LayoutOption, typer.Option(help="How the clips lie on disk.")] = "sim",
    scenes: Annotated[int | None, typer.Option(min=1, help="How many; 4, or all of a --set.")] = None,
    frames: Annotated[int | None, typer.Option(min=1, help="Length of a clip; 7, or all of --from-video.")] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the clips.")] = "640x480",
    gamma: Annotated[
        float | None, typer.Option(help="Readout time / frame interval, 0 to 1; 0.8, or that of the layout.")
    ] = None,
    scan: Annotated[ScanOption, typer.Option(help="Which way the rows are read.")] = "top-down",
    style: Annotated[StyleOption, typer.Option(help="How the camera moves.")] = "mixed",
    seed: Annotated[int, typer.Option(help="Another seed, other scenes.")] = 0,
    exposure: Annotated[float, typer.Option(help="Exposure of a row in frame intervals; over 0 gives blur.")] = 0.0,
    sensor: Annotated[
        bool, typer.Option("--sensor", help="Noise, lens blur, vignetting, colour cast and compression of a camera.")
    ] = False,
    textures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Photographs to cover surfaces with, besides painted ones.")
    ] = None,
    fixed_set: Annotated[
        SetOption | None, typer.Option("--set", help="Make a fixed test set in the cache folder instead.")
    ] = None,
    truth: Annotated[
        bool | None,
        typer.Option(
            "--truth/--no-truth", help="Flows, fields, depth and poses beside the frames.", show_default=False
        ),
    ] = None,
    preview: Annotated[Path | None, typer.Option(metavar="FILE", help="Contact sheet of the first scenes.")] = None,
    from_video: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make the clip from high-rate footage: a video or a folder.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Frames per second that footage was recorded at.")] = None,
    fps: Annotated[float, typer.Option(help="Frame rate of videos, and of a clip --from-video.")] = 30.0,
    mixing: Annotated[MixingOption, typer.Option(help="How rows are taken from footage.")] = "linear",
    step: Annotated[float, typer.Option(metavar="PX", help="Largest motion between frames of footage.")] = 1.0,
    force: Annotated[bool, typer.Option("--force", help="Replace sequences and sheets of the same names.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
    device: Annotated[DeviceOption, typer.Option(help="Where scenes are rendered.")] = "auto",
) -> None:
    """Make rolling-shutter clips with exact truth: random scenes, a fixed test set, or from high-rate footage."""
    from qrsc.cli.demo_work import parse_size
    from qrsc.cli.simulate_work import (
        Request,
        choose_readout,
        choose_render_device,
        options_given,
        require_one_task,
        simulate_from_video,
        simulate_scenes,
        simulate_set,
    )

    require_one_task(options_given(context))
    if fixed_set is not None:
        summary = simulate_set(
            fixed_set, scenes=scenes, preview=preview, force=force, quiet=quiet, device=choose_render_device(device)
        )
    elif output is not None and from_video is not None and rate is not None:
        summary = simulate_from_video(
            output,
            from_video,
            choose_readout(layout, gamma, scan),
            layout=layout,
            rate=rate,
            fps=fps,
            frames=frames,
            mixing=mixing,
            largest_step=step,
            force=force,
            quiet=quiet,
        )
    else:
        request = Request(
            parse_size(size), frames or 7, style, seed, textures, exposure, sensor, choose_render_device(device)
        )
        summary = simulate_scenes(
            output,
            request,
            choose_readout(layout, gamma, scan),
            layout=layout,
            scenes=scenes or 4,
            truth=truth,
            fps=fps,
            preview=preview,
            force=force,
            quiet=quiet,
        )
    if not quiet:
        typer.echo(summary)
