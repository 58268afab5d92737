"""`qrsc simulate`: rolling-shutter clips with ground truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption, LayoutOption, MixingOption, ScanOption, SetOption, StyleOption

# Options that more than one of the subcommands takes.
LayoutGiven = Annotated[LayoutOption, typer.Option(help="Layout on disk.")]
GammaGiven = Annotated[
    float | None, typer.Option(help="Readout time / frame interval, 0 to 1; that of the layout, or 0.8, if not given.")
]
ScanGiven = Annotated[ScanOption, typer.Option(help="Readout direction.")]
PreviewGiven = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a contact sheet of the first scenes.")]
ForceGiven = Annotated[bool, typer.Option("--force", help="Replace existing sequences and contact sheets.")]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]
DeviceGiven = Annotated[DeviceOption, typer.Option(help="Device to render on.")]

simulate = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make rolling-shutter clips with ground truth.",
)


@simulate.command()
@readable_errors
def scenes(
    output: Annotated[
        Path | None, typer.Argument(metavar="OUT", help="Folder for the clips; not needed with --preview.")
    ] = None,
    layout: LayoutGiven = "sim",
    count: Annotated[int, typer.Option("--scenes", min=1, help="Number of scenes.")] = 4,
    frames: Annotated[int, typer.Option(min=1, help="Frames per clip.")] = 7,
    size: Annotated[str, typer.Option(metavar="WxH", help="Frame size.")] = "640x480",
    gamma: GammaGiven = None,
    scan: ScanGiven = "top-down",
    style: Annotated[StyleOption, typer.Option(help="Camera motion.")] = "mixed",
    seed: Annotated[int, typer.Option(help="Random seed of the scenes.")] = 0,
    exposure: Annotated[
        float, typer.Option(help="Exposure time of a row in frame intervals; above 0 gives motion blur.")
    ] = 0.0,
    sensor: Annotated[
        bool,
        typer.Option("--sensor", help="Add the noise, lens blur, vignetting, colour cast and compression of a camera."),
    ] = False,
    textures: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Photographs to use as textures, in addition to painted ones.")
    ] = None,
    truth: Annotated[
        bool | None,
        typer.Option(
            "--truth/--no-truth",
            help="Write flows, fields, depth and poses; if not given, for plain, sim and video.",
            show_default=False,
        ),
    ] = None,
    fps: Annotated[float, typer.Option(help="Frame rate, for the layout video.")] = 30.0,
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
    name: Annotated[SetOption, typer.Argument(metavar="NAME", help="Name of the test set.")],
    count: Annotated[
        int | None,
        typer.Option("--scenes", min=1, help="Number of scenes to make, from the first on; all if not given."),
    ] = None,
    preview: PreviewGiven = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing contact sheet.")] = False,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Make a fixed test set in the cache folder. Scenes that are already there are kept."""
    from qrsc.cli.progress import reporting
    from qrsc.simulate.output.sets import SCENES, simulate_set

    made = SCENES if count is None else count
    with reporting("none" if quiet else "auto") as progress:
        folder = simulate_set(name, scenes=made, preview=preview, overwrite=force, device=device, progress=progress)
    _print(quiet, f"{name}: {_amount(made, 'scene')} in {folder}", preview)


@simulate.command()
@readable_errors
def footage(
    source: Annotated[
        Path, typer.Argument(metavar="VIDEO", help="High-frame-rate footage: video or folder of images.")
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the clip.")],
    rate: Annotated[float, typer.Option(help="Frame rate at which the footage was recorded.")],
    layout: LayoutGiven = "sim",
    frames: Annotated[int | None, typer.Option(min=1, help="Number of frames; the whole footage if not given.")] = None,
    gamma: GammaGiven = None,
    scan: ScanGiven = "top-down",
    fps: Annotated[float, typer.Option(help="Frame rate of the clip.")] = 30.0,
    mixing: Annotated[MixingOption, typer.Option(help="Interpolation between frames of the footage.")] = "linear",
    step: Annotated[
        float, typer.Option(metavar="PX", help="Largest motion allowed between frames of the footage, in pixels.")
    ] = 1.0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing sequence.")] = False,
    quiet: QuietGiven = False,
) -> None:
    """Make a rolling-shutter clip from high-frame-rate footage. Each row comes from the frames nearest to its time."""
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
