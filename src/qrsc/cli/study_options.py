"""Options that `qrsc ablate` and `qrsc generalise` have in common, each with its type and its line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.options import DeviceOption

ManifestGiven = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A .toml or .json file.", show_default=False)]
MinutesGiven = Annotated[float | None, typer.Option(help="With --train: for each network.")]
StepsGiven = Annotated[int | None, typer.Option(min=1, help="With --train: for each network.")]
JsonGiven = Annotated[bool, typer.Option("--json", help="Rows as JSON.")]
MarkdownGiven = Annotated[bool, typer.Option("--markdown", help="A table in Markdown.")]
CsvGiven = Annotated[bool, typer.Option("--csv", help="Rows as CSV.")]
OutGiven = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Keep tables, and figures of finished sequences; goes on from there."),
]
MetricsGiven = Annotated[
    str | None, typer.Option(metavar="NAMES", help="In place of the manifest's, as for evaluate; commas between.")
]
FlowGiven = Annotated[
    str | None, typer.Option(metavar="NAME", help="In place of the manifest's; by device if neither says.")
]
CacheFlowGiven = Annotated[Path | None, typer.Option(metavar="DIR", help="Keep flows from run to run.")]
ForceGiven = Annotated[bool, typer.Option("--force", help="Replace tables and pictures of the same names.")]
QuietGiven = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
DeviceGiven = Annotated[DeviceOption, typer.Option(help="Where tensors live.")]
