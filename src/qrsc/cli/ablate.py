"""`qrsc ablate`: what each part of the method contributes."""

from __future__ import annotations

from qrsc.cli.scoring_options import Study, study_command


def _study() -> Study:
    from qrsc.evaluate.studies import study

    return study.ablate


ablate = study_command(
    _study,
    "ablate",
    "Score variants of the method with parts of it removed. Prints them beside the paper's ablation study.",
)
