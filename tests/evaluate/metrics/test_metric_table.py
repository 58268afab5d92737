"""One table of metrics: an entry is all that a new one needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch import Tensor
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.data.dataset import index_data
from qrsc.evaluate.metrics import metric_table
from qrsc.evaluate.metrics.measures import Measure, of_pictures
from qrsc.evaluate.metrics.metric_table import COSTS, FIGURES, METRICS, Figure, Metric
from qrsc.evaluate.report.tables import format_rows
from qrsc.evaluate.report.worst_frames import write_charts
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.evaluate.run.scores import mean_rows


def contrast(picture: Tensor, truth: Tensor) -> float:
    return float(picture.std() / truth.std())


def load_contrast() -> Measure:
    return of_pictures("contrast", contrast)


def test_a_new_metric_is_one_entry(sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = Figure("contrast", "contrast over that of the truth", "nearest 1", places=3, chart="contrast")
    monkeypatch.setitem(METRICS, "contrast", Metric({"contrast": figure}, load_contrast))
    monkeypatch.setitem(FIGURES, "contrast", figure)  # which the table is read into when it is imported
    scores = evaluate(Plan("mini", index_data(sim_set, "sim"), methods=("rs",), metrics=("psnr", "contrast")))
    [row] = mean_rows(scores)
    assert row["contrast"] == pytest.approx(1.0, abs=0.05)
    table = format_rows([row], "text")
    assert table.splitlines()[0].split()[-2:] == ["PSNR", "contrast"]
    assert table.splitlines()[2].split()[-1] == f"{row['contrast']:.3f}"
    assert "contrast: contrast over that of the truth; nearest to 1 is best: contrast." in table
    assert tmp_path / "contrast.svg" in write_charts(tmp_path, [row], scores, "")


def test_an_entry_may_name_a_function_of_pictures(sim_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [entry] = METRICS["psnr"].figures.values()
    monkeypatch.setitem(
        METRICS, "psnr", Metric({"psnr": entry}, metric_table._of_pictures("psnr", "image_quality:psnr"))
    )
    ours = evaluate(Plan("mini", index_data(sim_set, "sim")[:1], methods=("rs",), metrics=("psnr",)))
    monkeypatch.undo()
    assert ours == evaluate(Plan("mini", index_data(sim_set, "sim")[:1], methods=("rs",), metrics=("psnr",)))


def test_a_legend_says_which_columns_are_better_low() -> None:
    row = {"set": "mine", "at": "middle", "method": "rs", "frames": 1, "psnr": 30.0, "epe": 1.0, "lpips": 0.1}
    assert format_rows([row], "text").endswith("LPIPS: LPIPS with AlexNet; lower is better: EPE, LPIPS.")


def test_names_are_unique_and_extras_exist() -> None:
    assert sum(len(metric.figures) for metric in METRICS.values()) + len(COSTS) == len(FIGURES)
    assert len({figure.heading for figure in FIGURES.values()}) == len(FIGURES)
    project = Path(metric_table.__file__).parents[4] / "pyproject.toml"
    if project.is_file():  # not beside an installed package
        for metric in METRICS.values():
            assert metric.extra is None or f"\n{metric.extra} = [" in project.read_text(encoding="utf-8")


def test_a_figure_that_is_best_at_one_is_not_compared_by_ratios() -> None:
    with pytest.raises(ValueError, match="best at 1"):
        Figure("detail", "", "nearest 1", compared=True)


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.extra is None])
def test_every_entry_measures_what_it_says(name: str, sim_set: Path) -> None:
    scores = evaluate(Plan("mini", index_data(sim_set, "sim")[:1], methods=("rs",), metrics=(name,)))
    found = {figure for score in scores for figure in score.figures}
    assert found <= set(METRICS[name].figures)
    assert found, "and nothing else"


def test_the_help_names_every_metric() -> None:
    output = CliRunner().invoke(app, ["evaluate", "--help"]).output
    for name in METRICS:
        assert name in output
