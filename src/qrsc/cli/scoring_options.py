"""What `qrsc evaluate`, `qrsc ablate` and `qrsc generalise` share: options with their help, and how to read them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from qrsc.backend.progress import Progress, ProgressCallback
from qrsc.cli.errors import readable_errors
from qrsc.cli.options import DeviceOption

if TYPE_CHECKING:
    from qrsc.evaluate.report.tables import TableFormat
    from qrsc.evaluate.studies.study import StudyOptions, StudyResult, Training

JsonGiven = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]
MarkdownGiven = Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")]
CsvGiven = Annotated[bool, typer.Option("--csv", help="Print the rows as CSV.")]
CacheFlowGiven = Annotated[Path | None, typer.Option(metavar="DIR", help="Cache the optical flow in DIR between runs.")]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
DeviceGiven = Annotated[DeviceOption, typer.Option(help="Device to compute on.")]

ManifestGiven = Annotated[
    Path,
    typer.Argument(metavar="MANIFEST", help="The study, a .toml or .json file.", show_default=False),
]
TrainGiven = Annotated[bool, typer.Option("--train", help="First train the networks that have no weights yet.")]
MinutesGiven = Annotated[float | None, typer.Option(help="With --train: minutes per network.")]
StepsGiven = Annotated[int | None, typer.Option(min=1, help="With --train: optimiser steps per network.")]
OutGiven = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Write tables to DIR; record finished sequences there, and skip those recorded."),
]
PlotsGiven = Annotated[Path | None, typer.Option(metavar="DIR", help="Write charts of the results.")]
MetricsGiven = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Comma-separated, instead of the manifest's; see `qrsc evaluate`.")
]
FlowGiven = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Optical flow instead of the manifest's; by device if neither names one."),
]
ForceGiven = Annotated[bool, typer.Option("--force", help="Replace existing tables and charts.")]


class Study(Protocol):
    """`qrsc.evaluate.studies.study.ablate` or `generalise`."""

    def __call__(
        self, path: Path, options: StudyOptions, *, training: Training | None, progress: ProgressCallback | None
    ) -> StudyResult: ...


def study_command(load: Callable[[], Study], name: str, about: str) -> Callable[..., None]:
    """The command of a study: both have the same options.

    Args:
        load: imports the study.
        name: of the command.
        about: its help.
    """

    def command(
        manifest: ManifestGiven,
        train: TrainGiven = False,
        minutes: MinutesGiven = None,
        steps: StepsGiven = None,
        as_json: JsonGiven = False,
        as_markdown: MarkdownGiven = False,
        as_csv: CsvGiven = False,
        out: OutGiven = None,
        plots: PlotsGiven = None,
        metrics: MetricsGiven = None,
        flow: FlowGiven = None,
        cache_flow: CacheFlowGiven = None,
        force: ForceGiven = False,
        quiet: QuietGiven = False,
        device: DeviceGiven = "auto",
    ) -> None:
        form = choose_format(as_json=as_json, as_markdown=as_markdown, as_csv=as_csv)
        study = load()
        from qrsc.backend.device import choose_device
        from qrsc.evaluate.studies.study import StudyOptions

        options = StudyOptions(
            metrics=None if metrics is None else names_in(metrics),
            flow=flow,
            device=choose_device(device),
            out=out,
            plots=plots,
            cache_flow=cache_flow,
            force=force,
        )
        training = _training(train, steps, minutes, quiet)
        # Lightning draws its bar on stdout, which is for the table alone.
        with _bar_of_each_stage(quiet) as progress, redirect_stdout(sys.stderr):
            result = study(manifest, options, training=training, progress=progress)
        typer.echo(result.table(form))

    command.__name__, command.__doc__ = name, about
    return readable_errors(command)


def names_in(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name for name in text.split(",") if name)


def choose_format(*, as_json: bool, as_markdown: bool, as_csv: bool) -> TableFormat:
    """The one form that is asked for; text if none is."""
    forms: dict[TableFormat, bool] = {"json": as_json, "markdown": as_markdown, "csv": as_csv}
    wanted = [form for form, asked in forms.items() if asked]
    if len(wanted) > 1:
        raise ValueError(f"give one of --{' and --'.join(wanted)}: there is one table.")
    return wanted[0] if wanted else "text"


@contextmanager
def _bar_of_each_stage(quiet: bool) -> Iterator[ProgressCallback]:
    """A progress callback that shows one bar per stage."""
    from qrsc.cli.progress import reporting

    with ExitStack() as shown:
        report: ProgressCallback | None = None

        def show(progress: Progress) -> None:
            nonlocal report
            if report is None:
                report = shown.enter_context(reporting("none" if quiet else "auto"))
            report(progress)
            if progress.done == progress.total:
                shown.close()
                report = None

        yield show


def _training(train: bool, steps: int | None, minutes: float | None, quiet: bool) -> Training | None:
    from qrsc.evaluate.studies.study import Training

    if not train:
        if steps is not None or minutes is not None:
            raise ValueError("--steps and --minutes say how long to train, and need --train.")
        return None

    def say(line: str) -> None:
        if not quiet:
            typer.echo(line, err=True)

    return Training(steps, minutes, say=say)
