"""`qrsc ablate`: what each part of the method is good for."""

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
def ablate(
    manifest: ManifestGiven,
    train: Annotated[bool, typer.Option("--train", help="First train the rows whose own weights are missing.")] = False,
    minutes: MinutesGiven = None,
    steps: StepsGiven = None,
    as_json: JsonGiven = False,
    as_markdown: MarkdownGiven = False,
    as_csv: CsvGiven = False,
    out: OutGiven = None,
    plots: Annotated[Path | None, typer.Option(metavar="DIR", help="The manifest's charts.")] = None,
    metrics: MetricsGiven = None,
    flow: FlowGiven = None,
    cache_flow: CacheFlowGiven = None,
    force: ForceGiven = False,
    quiet: QuietGiven = False,
    device: DeviceGiven = "auto",
) -> None:
    """Score a manifest's variants of the method, parts of it taken away, beside the paper's ablation study."""
    from qrsc.backend.device import choose_device
    from qrsc.cli.ablate_work import ablate_rows
    from qrsc.cli.evaluate_work import choose_format
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
    typer.echo(ablate_rows(manifest, Training(train, steps, minutes), options))
