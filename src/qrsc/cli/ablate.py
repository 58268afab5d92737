"""What `qrsc ablate` does between its options and its table."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from qrsc.cli.studies import (
    StudyOptions,
    made_with,
    published,
    require_free,
    settle,
    study_scores,
    study_sequences,
    table_files,
    weights_lines,
)
from qrsc.evaluate.studies.ablation import ablation_rows, chart_names, format_ablation, write_ablation_charts
from qrsc.evaluate.studies.entries import Manifest
from qrsc.evaluate.studies.manifest import read_ablation
from qrsc.evaluate.studies.training import (
    require_trainable,
    require_trained_alike,
    to_train,
    train_variants,
    trained_for,
    training_plan,
)
from qrsc.evaluate.studies.variants import require_own_weights

TABLE = "ablation"


@dataclass(frozen=True)
class Training:
    """Whether and how long to train the rows whose weights are missing."""

    wanted: bool
    steps: int | None
    minutes: float | None


def ablate_rows(path: Path, training: Training, options: StudyOptions) -> str:
    """Trains what is missing if asked to, scores all rows, and returns the table."""
    manifest = read_ablation(path)
    if not training.wanted and (training.steps is not None or training.minutes is not None):
        raise ValueError("--steps and --minutes say how long to --train; give that, too, or leave them out.")
    # Without --train one step will do: the manifest's settings are looked at in any case.
    plan = training_plan(manifest, steps=training.steps if training.wanted else 1, minutes=training.minutes)
    if training.wanted:
        require_trainable(plan)
    require_trained_alike(manifest.variants)
    charts = [] if options.plots is None else [options.plots / name for name in chart_names(manifest)]
    require_free(table_files(options.out, TABLE) + charts, options.force)
    settings = settle(manifest, options)
    sets = study_sequences(manifest, options.device, quiet=options.quiet)
    if training.wanted and to_train(manifest.variants):
        shown = not options.quiet and sys.stderr.isatty()
        with redirect_stdout(sys.stderr):  # where Lightning draws its bar: stdout is the table's
            train_variants(manifest.variants, plan, progress_bar=shown, told=lambda line: _tell(line, options))
        for variant in manifest.variants:
            require_own_weights(variant)
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
    told = {}
    for variant in manifest.variants:
        trained = trained_for(variant)
        if trained:
            told[variant.name] = f"{trained['steps']} steps in {trained['minutes']:.1f} minutes"
    weights = "\n".join(weights_lines(manifest.variants, told))
    return f"# Ablation study\n\n{made}\n\n{table}\n" + (f"\nWeights:\n\n{weights}" if weights else "")


def _tell(line: str, options: StudyOptions) -> None:
    if not options.quiet:
        typer.echo(line, err=True)
