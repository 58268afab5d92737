"""`qrsc simulate`: rolling-shutter clips with ground truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, LayoutOption, MixingOption, ScanOption, SetOption, StyleOption

# Options that more than one of the subcommands takes.
LayoutGiven = Annotated[LayoutOption, typer.Option(help="How the clips are stored.")]
GammaGiven = Annotated[
    float | None, typer.Option(help="Readout time / frame interval, 0 to 1; that of the layout, or 0.8.")
]
ScanGiven = Annotated[ScanOption, typer.Option(help="Order in which rows are read.")]
PreviewGiven = Annotated[Path | None, typer.Option(metavar="FILE", help="Contact sheet of the first scenes.")]
ForceGiven = Annotated[bool, typer.Option("--force", help="Replace sequences and sheets of the same names.")]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]
DeviceGiven = Annotated[DeviceOption, typer.Option(help="Where scenes are rendered.")]

simulate = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make rolling-shutter clips with ground truth: random scenes, a fixed test set, or from high-rate footage.",
)


@simulate.command()
@readable_errors
def scenes(
    output: Annotated[Path | None, typer.Argument(metavar="OUT", help="Folder for the clips.")] = None,
    layout: LayoutGiven = "sim",
    count: Annotated[int, typer.Option("--scenes", min=1, help="Number of scenes.")] = 4,
    frames: Annotated[int, typer.Option(min=1, help="Length of a clip.")] = 7,
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the frames.")] = "640x480",
    gamma: GammaGiven = None,
    scan: ScanGiven = "top-down",
    style: Annotated[StyleOption, typer.Option(help="How the camera moves.")] = "mixed",
    seed: Annotated[int, typer.Option(help="Another seed, other scenes.")] = 0,
    exposure: Annotated[
        float, typer.Option(help="Exposure time of a row in frame intervals; over 0 gives motion blur.")
    ] = 0.0,
    sensor: Annotated[
        bool,
        typer.Option("--sensor", help="Add the noise, lens blur, vignetting, colour cast and compression of a camera."),
    ] = False,
    textures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Photographs to cover surfaces with, besides painted ones.")
    ] = None,
    truth: Annotated[
        bool | None,
        typer.Option(
            "--truth/--no-truth", help="Flows, fields, depth and poses beside the frames.", show_default=False
        ),
    ] = None,
    fps: Annotated[float, typer.Option(help="Frame rate of videos.")] = 30.0,
    preview: PreviewGiven = None,
    force: ForceGiven = False,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Render random scenes, with exact flows, fields, depth and poses."""
    from qrsc.cli.progress import reporting
    from qrsc.names import parse_size
    from qrsc.simulate.output.random_scenes import SceneOptions, simulate_scenes

    options = SceneOptions(parse_size(size), frames, style, seed, textures, exposure, sensor)
    with reporting("none" if quiet else "auto") as progress:
        simulate_scenes(
            output,
            options,
            count=count,
            layout=layout,
            gamma=gamma,
            scan=scan,
            truth=truth,
            fps=fps,
            preview=preview,
            overwrite=force,
            device=device,
            progress=progress,
        )
    clips = None if output is None else f"{_amount(count, 'scene')} of {_amount(frames, 'frame')} in {output}"
    _print(quiet, clips, preview)


@simulate.command("set")
@readable_errors
def fixed_set(
    name: Annotated[SetOption, typer.Argument(metavar="NAME", help="The test set.")],
    count: Annotated[
        int | None, typer.Option("--scenes", min=1, help="Number of scenes, from the first; all if not given.")
    ] = None,
    preview: PreviewGiven = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a sheet of the same name.")] = False,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Make a fixed test set in the cache folder; scenes that are already there are kept."""
    from qrsc.cli.progress import reporting
    from qrsc.simulate.output.sets import SCENES, simulate_set

    made = SCENES if count is None else count
    with reporting("none" if quiet else "auto") as progress:
        folder = simulate_set(name, scenes=made, preview=preview, overwrite=force, device=device, progress=progress)
    _print(quiet, f"{name}: {_amount(made, 'scene')} in {folder}", preview)


@simulate.command()
@readable_errors
def footage(
    source: Annotated[Path, typer.Argument(metavar="VIDEO", help="High-rate footage: a video or a folder of images.")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the clip.")],
    rate: Annotated[float, typer.Option(help="Frames per second at which the footage was recorded.")],
    layout: LayoutGiven = "sim",
    frames: Annotated[
        int | None, typer.Option(min=1, help="Length of the clip; all of the footage if not given.")
    ] = None,
    gamma: GammaGiven = None,
    scan: ScanGiven = "top-down",
    fps: Annotated[float, typer.Option(help="Frame rate of the clip.")] = 30.0,
    mixing: Annotated[MixingOption, typer.Option(help="How rows are taken from the footage.")] = "linear",
    step: Annotated[
        float, typer.Option(metavar="PX", help="Largest motion allowed between frames of the footage.")
    ] = 1.0,
    force: Annotated[bool, typer.Option("--force", help="Replace a sequence of the same name.")] = False,
    quiet: QuietGiven = False,
) -> None:
    """Make a rolling-shutter clip from high-rate footage, each row from the frames nearest to its time."""
    from qrsc.cli.progress import reporting
    from qrsc.simulate.output.from_video import simulate_footage

    with reporting("none" if quiet else "auto") as progress:
        count = simulate_footage(
            source,
            output,
            rate,
            fps=fps,
            layout=layout,
            gamma=gamma,
            scan=scan,
            frames=frames,
            mixing=mixing,
            largest_step=step,
            overwrite=force,
            progress=progress,
        )
    _print(quiet, f"{_amount(count, 'rolling-shutter frame')} from {source} in {output}", None)


def _print(quiet: bool, summary: str | None, preview: Path | None) -> None:
    if quiet:
        return
    if summary is not None:
        typer.echo(summary)
    if preview is not None:
        typer.echo(f"wrote {preview}")


def _amount(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"
