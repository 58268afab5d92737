"""The commands and their options.

Nothing here imports torch or a module that does: `qrsc --help` answers in a fifth of a second because the work is
imported by the command that does it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from qrsc import __version__
from qrsc.cli.errors import readable_errors

ScanOption = Literal["top-down", "bottom-up", "left-right", "right-left"]
InstantOption = Literal["first", "middle", "last"]
MotionOption = Literal["linear", "quadratic", "cubic"]
FusionOption = Literal["none", "mean"]
WarpOption = Literal["invert", "splat", "negate"]
DeviceOption = Literal["auto", "cpu", "cuda", "mps"]
LayoutOption = Literal["carla", "fastec", "bsrsc", "plain", "sim", "video"]
StyleOption = Literal["mixed", "driving", "walking", "panning", "drone", "hand shake", "zoom", "roll"]
SetOption = Literal["sim-easy", "sim-shake", "sim-drive", "sim-occlusion", "sim-nonlinear"]
MixingOption = Literal["nearest", "linear"]
DataLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim"]
EvaluateLayoutOption = Literal["carla", "fastec", "bsrsc", "acc", "plain", "sim", "all"]
TruthOption = Literal["first", "middle", "both"]
SplitOption = Literal["train", "val", "test"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qrsc {__version__}")
        raise typer.Exit


@app.callback()
def qrsc(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Rolling-shutter correction of video: every row of a frame brought to one instant."""


@app.command()
@readable_errors
def correct(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of images: the frames of one clip.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the frames go, same names.")],
    gamma: Annotated[float | None, typer.Option(help="Readout time / frame interval, 0 to 1.")] = None,
    readout: Annotated[float | None, typer.Option(metavar="MS", help="Readout time in ms; needs --fps.")] = None,
    fps: Annotated[float | None, typer.Option(help="Frame rate of the recording, for --readout.")] = None,
    percent: Annotated[float | None, typer.Option(help="Readout time in per cent of the frame interval.")] = None,
    scan: Annotated[ScanOption, typer.Option(help="Which way the rows are read in the pictures.")] = "top-down",
    tau: Annotated[float | None, typer.Option(help="Target instant in frame intervals from the frame's start.")] = None,
    at: Annotated[InstantOption | None, typer.Option(help="Target instant by row; middle if not given.")] = None,
    motion: Annotated[MotionOption, typer.Option(help="How points are taken to move.")] = "quadratic",
    fusion: Annotated[FusionOption, typer.Option(help="How corrected neighbours are merged.")] = "mean",
    warp: Annotated[WarpOption, typer.Option(help="How frames are moved to the instant.")] = "invert",
    frames: Annotated[int, typer.Option(min=3, max=5, help="Frames used for each output frame.")] = 5,
    flow: Annotated[str, typer.Option(help="Optical flow by name.")] = "dis",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files of the same names.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
    device: Annotated[DeviceOption, typer.Option(help="Where tensors live.")] = "auto",
) -> None:
    """Correct a folder of images. Give the readout once: --gamma, --percent, or --readout with --fps."""
    from qrsc.cli.correct import choose_device, choose_readout, choose_tau, correct_folder
    from qrsc.pipeline import Corrector

    chosen = choose_readout(gamma=gamma, readout_ms=readout, fps=fps, percent=percent, scan=scan)
    corrector = Corrector(
        chosen, tau=choose_tau(chosen, tau, at), motion=motion, fusion=fusion, warp=warp, flow=flow, frames=frames
    )
    summary = correct_folder(source, output, corrector, device=choose_device(device), overwrite=overwrite, quiet=quiet)
    if not quiet:
        typer.echo(summary)


@app.command()
@readable_errors
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.")] = Path(
        "demo"
    ),
    size: Annotated[str, typer.Option(metavar="WxH", help="Size of the clip.")] = "640x480",
    frames: Annotated[int, typer.Option(min=3, help="Length of the clip.")] = 24,
    seed: Annotated[int, typer.Option(help="Another seed, another scene.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no figures.")] = False,
) -> None:
    """Render a rolling-shutter clip, correct it from its pixels, and write a before/after video, still and report."""
    from qrsc.cli.demo import show_demo

    summary = show_demo(output, size=size, frames=frames, seed=seed, quiet=quiet)
    if not quiet:
        typer.echo(summary)


@app.command()
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
    from qrsc.cli.demo import parse_size
    from qrsc.cli.simulate import (
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


@app.command()
@readable_errors
def evaluate(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Data set, one of its splits, or one sequence.")],
    layout: Annotated[
        EvaluateLayoutOption,
        typer.Option(help="How it lies on disk; all: ROOT holds Carla-RS/, Fastec-RS/, BS-RSC/, any of them."),
    ],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods by name, or module:function; commas between.")
    ] = "rs,linear,qrs,cubic,multi-qrs",
    method: Annotated[
        list[str] | None, typer.Option(metavar="NAME=DIR", help="Score frames that another program made; repeatable.")
    ] = None,
    at: Annotated[TruthOption, typer.Option(help="Instant of the truth.")] = "middle",
    gamma: Annotated[float | None, typer.Option(help="Readout ratio in place of the data set's own.")] = None,
    scan: Annotated[ScanOption | None, typer.Option(help="Scan direction, with --gamma.")] = None,
    flow: Annotated[str, typer.Option(help="Optical flow by name; truth: the exact one of simulated sets.")] = "dis",
    metrics: Annotated[
        str, typer.Option(metavar="NAMES", help="psnr, ssim, masks, fields, lpips, warping; commas between.")
    ] = "psnr,ssim,masks,fields",
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    list_file: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Frames of the layout acc.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="A table in Markdown.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV.")] = False,
    published: Annotated[
        bool, typer.Option("--published", help="Also what others published for the set and instant.")
    ] = False,
    per_frame: Annotated[Path | None, typer.Option(metavar="FILE", help="Figures of every frame as CSV.")] = None,
    save_frames: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep the corrected frames.")] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Charts, figures by frame, contact sheet of the worst frames.")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the figures of finished sequences, and go on from there.")
    ] = None,
    cache_flow: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep flows from run to run.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    device: Annotated[DeviceOption, typer.Option(help="Where tensors live.")] = "auto",
) -> None:
    """Score methods on a data set and print a table of figures, the paper's beside ours."""
    from qrsc.cli.correct import choose_device
    from qrsc.cli.data import given_readout
    from qrsc.cli.evaluate import Options, choose_format, evaluate_data

    form = choose_format(as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)
    options = Options(
        layout=layout,
        split=split,
        list_file=list_file,
        methods=methods,
        folders=method or [],
        at=at,
        readout=given_readout(gamma, scan),
        flow=flow,
        metrics=metrics,
        device=choose_device(device),
        resume=resume,
        flow_folder=cache_flow,
        save_frames=save_frames,
    )
    typer.echo(
        evaluate_data(root, options, form=form, published=published, per_frame=per_frame, plots=plots, quiet=quiet)
    )


data = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at data sets.")
app.add_typer(data, name="data")


@data.command()
@readable_errors
def check(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Data set, one of its splits, or one sequence.")],
    layout: Annotated[DataLayoutOption, typer.Option(help="How it lies on disk.")],
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    list_file: Annotated[Path | None, typer.Option("--list", metavar="FILE", help="Frames of the layout acc.")] = None,
    thorough: Annotated[bool, typer.Option("--thorough", help="Decode every file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Report sequences, frames, gaps and sizes; fails if something is wrong."""
    from qrsc.cli.data import check_data

    lines, well = check_data(root, layout, split=split, list_file=list_file, thorough=thorough, quiet=quiet)
    typer.echo(lines)
    if not well:
        raise typer.Exit(1)


@data.command()
@readable_errors
def acc(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="BS-RSC, or its test folder.")],
    write: Annotated[Path, typer.Option(metavar="FILE", help="Where the list goes.")],
    split: Annotated[SplitOption | None, typer.Option(help="Only this split.")] = None,
    gamma: Annotated[float | None, typer.Option(help="Readout ratio in place of the data set's own.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a list that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    """List the frames of BS-RSC whose motion is not uniform, by their measured acceleration."""
    from qrsc.cli.data import choose_acc

    summary = choose_acc(root, write, split=split, gamma=gamma, overwrite=overwrite, quiet=quiet)
    if not quiet:
        typer.echo(summary)
