"""What `qrsc ablate` does between its options and its table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from qrsc.cli.studies import (
    StudyOptions,
    Training,
    made_with,
    planned,
    published,
    require_free,
    settle,
    study_scores,
    study_sequences,
    table_files,
    train_missing,
    weights_lines,
)
from qrsc.evaluate.studies.ablation import ablation_rows, chart_names, format_ablation, write_ablation_charts
from qrsc.evaluate.studies.entries import Manifest
from qrsc.evaluate.studies.manifest import read_ablation

TABLE = "ablation"


def ablate_rows(path: Path, training: Training, options: StudyOptions) -> str:
    """Trains what is missing if asked to, scores all rows, and returns the table."""
    manifest = read_ablation(path)
    plan = planned(manifest, training)
    charts = [] if options.plots is None else [options.plots / name for name in chart_names(manifest)]
    require_free(table_files(options.out, TABLE) + charts, options.force)
    settings = settle(manifest, options)
    sets = study_sequences(manifest, options.device, quiet=options.quiet)
    if training.wanted:
        train_missing(manifest, plan, options)
    scores = study_scores(manifest, sets, settings, quiet=options.quiet)
    rows = ablation_rows(manifest, scores)
    made = made_with(settings, sets)
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
