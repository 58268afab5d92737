"""What `qrsc ablate` does between its options and its table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from qrsc.cli.studies import StudyOptions, Training, published, scored, weights_lines
from qrsc.evaluate.studies.ablation import ablation_rows, chart_names, format_ablation, write_ablation_charts
from qrsc.evaluate.studies.entries import Manifest
from qrsc.evaluate.studies.manifest import read_ablation

TABLE = "ablation"


def ablate_rows(path: Path, training: Training, options: StudyOptions) -> str:
    """Trains what is missing if asked to, scores all rows, and returns the table."""
    manifest = read_ablation(path)
    scores, made = scored(manifest, training, options, TABLE, chart_names(manifest))
    rows = ablation_rows(manifest, scores)
    return published(
        options,
        TABLE,
        partial(format_ablation, manifest, rows),
        partial(_page, manifest, made),
        scores,
        lambda folder: write_ablation_charts(folder, manifest, rows, made),
    )


def _page(manifest: Manifest, made: str, table: str) -> str:
    weights = "\n".join(weights_lines(manifest.variants))
    return f"# Ablation study\n\n{made}\n\n{table}\n" + (f"\nWeights:\n\n{weights}" if weights else "")
