"""`qrsc ablate`: what each part of the method contributes."""

from __future__ import annotations

from qrsc.cli.scoring_options import Study, study_command


def _study() -> Study:
    from qrsc.evaluate.studies import study

    return study.ablate


ablate = study_command(
    _study,
    "ablate",
    "Score a manifest's variants of the method, parts of it removed, beside the paper's ablation study.",
)
