"""`qrsc generalise`: how far training on one data set carries to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors
from qrsc.cli.study_options import (
    CacheFlowGiven,
    CsvGiven,
    DeviceGiven,
    FlowGiven,
    ForceGiven,
    JsonGiven,
    ManifestGiven,
    MarkdownGiven,
    MetricsGiven,
    MinutesGiven,
    OutGiven,
    QuietGiven,
    StepsGiven,
)


@readable_errors
def generalise(
    manifest: ManifestGiven,
    train: Annotated[bool, typer.Option("--train", help="First train the checkpoints that have no weights.")] = False,
    minutes: MinutesGiven = None,
    steps: StepsGiven = None,
    as_json: JsonGiven = False,
    as_markdown: MarkdownGiven = False,
    as_csv: CsvGiven = False,
    out: OutGiven = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="Heat maps of the relative decline.")] = None,
    metrics: MetricsGiven = None,
    flow: FlowGiven = None,
    cache_flow: CacheFlowGiven = None,
    force: ForceGiven = False,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Score each of a manifest's checkpoints on each of its data sets, with the paper's relative decline rate."""
    from qrsc.backend.device import choose_device
    from qrsc.cli.evaluate_work import choose_format
    from qrsc.cli.generalise_work import generalise_checkpoints
    from qrsc.cli.studies import StudyOptions, Training

    options = StudyOptions(
        form=choose_format(as_json=as_json, as_markdown=as_markdown, as_csv=as_csv),
        metrics=metrics,
        flow=flow,
        device=choose_device(device),
        out=out,
        plots=plots,
        cache_flow=cache_flow,
        force=force,
        quiet=quiet,
    )
    typer.echo(generalise_checkpoints(manifest, Training(train, steps, minutes), options))
