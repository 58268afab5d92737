"""What `qrsc generalise` does between its options and its table."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from qrsc.cli.studies import StudyOptions, Training, published, scored, weights_lines
from qrsc.evaluate.studies.entries import Manifest
from qrsc.evaluate.studies.generalisation import (
    FIGURES,
    format_generalisation,
    generalisation_rows,
    heat_map_name,
    write_heat_maps,
)
from qrsc.evaluate.studies.manifest import read_generalisation

TABLE = "generalisation"


def generalise_checkpoints(path: Path, training: Training, options: StudyOptions) -> str:
    """Trains what is missing if asked to, scores every checkpoint on every data set, and returns the table."""
    manifest = read_generalisation(path)
    scores, made = scored(manifest, training, options, TABLE, map(heat_map_name, FIGURES))
    rows = generalisation_rows(manifest, scores)
    return published(
        options,
        TABLE,
        partial(format_generalisation, manifest, rows),
        partial(_page, manifest, made),
        scores,
        lambda folder: write_heat_maps(folder, manifest, rows, made),
    )


def _page(manifest: Manifest, made: str, table: str) -> str:
    weights = "\n".join(weights_lines(manifest.variants))
    return f"# From one data set to another\n\n{made}\n\n{table}\n\nWeights:\n\n{weights}"
