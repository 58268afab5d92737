"""`qrsc batch`: many clips, and long ones in segments, on all of a machine or on a cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from qrsc.cli import clip_commands as clip
from qrsc.cli.errors import echo_note, readable_errors

if TYPE_CHECKING:
    from qrsc.farm.run import BatchProgress, BatchResult

SOME_FAILED = 6  # exit code: the batch is through, and clips of it failed
ADDRESS = re.compile(r"auto|local|ray://\S+|[^/\s]+:\d+")  # of a Ray cluster

EXAMPLES = """Correct many clips, and long ones in segments side by side.

\b
  qrsc batch footage/ -o straight/                    every video below a folder
  qrsc batch a.mp4 "tapes/*.mov" list.txt -o out/     files, patterns, a list with one a line
  qrsc batch film.mkv -o out/ --segment 500           a long clip, 500 frames to a segment
  qrsc batch footage/ -o straight/ --retry-failed     again, with those that failed
  qrsc batch s3://bucket/in -o s3://bucket/out --ray  on a cluster, from and to an object store

The folder gets the outputs, manifest.jsonl, report.json and report.html. The same command again does only what is
missing; kill it whenever you like. A clip that fails is reported, and the others go on: then the exit code is 6.
Options of the correction are those of qrsc correct, and hold for all clips. A star marks the default.
"""


class BatchCommand(TyperCommand):
    """The command, with an option whose value may be left out, which Typer does not have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(with_addresses(args)))


def with_addresses(words: Sequence[str]) -> Iterator[str]:
    """The words of a command line, with an empty address for each `--ray` that none follows."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        yield "--ray=" if word == "--ray" and not ADDRESS.fullmatch(following) else word


@readable_errors
def batch(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUTS", help="Videos, folders, patterns, lists (.txt).", show_default=False),
    ],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for the results.")],
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default=False, help="Worker processes; as many as there is room for*."),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default=False, help="Threads of each; the cores are shared*."),
    ] = None,
    segment: Annotated[
        int,
        typer.Option(metavar="FRAMES", min=0, show_default=False, help="Length of segments: 250*; 0 divides no clip."),
    ] = 250,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]",
            show_default=False,
            help="Work on a Ray cluster: HOST:PORT, or that of this machine or RAY_ADDRESS.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", show_default=False, help="Try clips again that failed earlier.")
    ] = False,
    readout: clip.Readout = None,
    gamma: clip.Gamma = None,
    percent: clip.Percent = None,
    camera: clip.Camera = None,
    scan: clip.Scan = None,
    at: clip.At = None,
    strength: clip.Strength = 1.0,
    border: clip.Border = "fill",
    margin: clip.Margin = 0.04,
    fast: clip.Fast = False,
    best: clip.Best = False,
    motion: clip.Motion = "path",
    fusion: clip.Fusion = None,
    denoise: clip.Denoise = False,
    flow: clip.Flow = None,
    warp: clip.Warp = "invert",
    unsure: clip.Unsure = "linear",
    scale: clip.Scale = None,
    device: clip.Device = "auto",
    codec: clip.Codec = None,
    crf: clip.Crf = None,
    pix_fmt: clip.PixFmt = None,
    preset: clip.Preset = None,
    overwrite: clip.Overwrite = False,
    verify: clip.Verify = None,
    progressive: clip.Progressive = False,
    always: clip.Always = False,
    progress: clip.Progress = "auto",
    quiet: clip.Quiet = False,
) -> None:
    given = dict(locals())
    from qrsc.cli.progress import progress_bar
    from qrsc.farm.batch import batch as correct_all

    for name in ("progress", "quiet"):
        given.pop(name)
    given["ray"] = ray or ray is not None
    as_json = progress == "json" and not quiet
    hidden = quiet or progress in ("json", "none")
    with progress_bar(hidden, always=progress == "bar", time_left=False) as bar:
        task = bar.add_task("clips", total=None)

        def show(now: BatchProgress) -> None:
            if as_json:
                _print_progress(now)
            bar.update(task, description=_in_words(now), completed=now.finished, total=now.clips)

        failed = 0
        for result in correct_all(**clip.library_options(given), progress=show, on_note=None if quiet else echo_note):
            failed += result.state == "failed"
            _show_result(result, as_json=as_json, quiet=quiet)
    if failed:
        typer.echo(f"{failed} clip{'s' * (failed != 1)} failed; {output}/report.html says why.", err=True)
        raise typer.Exit(SOME_FAILED)


def _in_words(now: BatchProgress) -> str:
    told = [f"{now.frames_per_second:.1f} frames/s"]
    if now.segments:
        told.append(f"segments {now.segments_done}/{now.segments}")
    if now.seconds_left is not None:
        told.append(f"{now.seconds_left / 60:.0f} min left")
    if now.failed:
        told.append(f"{now.failed} failed")
    return ", ".join(told)


def _print_progress(now: BatchProgress) -> None:
    from qrsc.cli.progress import print_json

    print_json(event="progress", **vars(now))


def _show_result(result: BatchResult, *, as_json: bool, quiet: bool) -> None:
    from qrsc.cli.progress import print_json

    if as_json:
        figures: dict[str, Any] = {name: value for name, value in result.figures.items() if name != "thumbnail"}
        print_json(event="clip", **{**vars(result), "figures": figures})
    elif result.state == "failed":
        typer.echo(f"failed: {result.source}: {result.reason}", err=True)
    elif not quiet:
        told = f"{result.figures['frames']} frames" if result.figures else "done in an earlier run"
        typer.echo(f"{result.state}: {result.output}: {told}")


batch.__doc__ = EXAMPLES
