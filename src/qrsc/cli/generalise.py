"""`qrsc generalise`: how well training on one data set generalises to another."""

from __future__ import annotations

from qrsc.cli.scoring_options import Study, study_command


def _study() -> Study:
    from qrsc.evaluate.studies import study

    return study.generalise


generalise = study_command(
    _study,
    "generalise",
    "Score each checkpoint of a manifest on each of its data sets. Prints the paper's relative decline rate.",
)
