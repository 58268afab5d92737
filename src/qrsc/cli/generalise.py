"""What `qrsc generalise` does between its options and its table."""

from __future__ import annotations

from pathlib import Path

from qrsc.cli.studies import (
    FORMS,
    FRAMES,
    StudyOptions,
    made_with,
    require_free,
    settle,
    study_scores,
    study_sequences,
    table_files,
    weights_lines,
    write_text,
)
from qrsc.evaluate.studies.generalisation import (
    FIGURES,
    format_generalisation,
    generalisation_rows,
    heat_map_name,
    write_heat_maps,
)
from qrsc.evaluate.studies.manifest import read_generalisation
from qrsc.evaluate.tables import frame_rows

TABLE = "generalisation"


def generalise_checkpoints(path: Path, options: StudyOptions) -> str:
    """Scores every checkpoint on every data set, and returns the table."""
    manifest = read_generalisation(path)
    maps = [] if options.plots is None else [options.plots / heat_map_name(figure) for figure in FIGURES]
    require_free(table_files(options.out, TABLE) + maps, options.force)
    settings = settle(manifest, options)
    sets = study_sequences(manifest, options.device, quiet=options.quiet)
    scores = study_scores(manifest, sets, settings, quiet=options.quiet)
    rows = generalisation_rows(manifest, scores)
    made = made_with(settings, sets)
    if options.out is not None:
        for form, suffix in FORMS.items():
            table = format_generalisation(manifest, rows, form)
            if form == "markdown":
                weights = "\n".join(weights_lines(manifest.variants, {}))
                table = f"# From one data set to another\n\n{made}\n\n{table}\n\nWeights:\n\n{weights}"
            write_text(options.out / f"{TABLE}{suffix}", table)
        write_text(options.out / FRAMES, frame_rows(scores))
    if options.plots is not None:
        write_heat_maps(options.plots, manifest, rows, made)
    return format_generalisation(manifest, rows, options.form)
