"""Training at toy size: the loss falls, a run can be resumed, and what is saved can be loaded."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from qrsc.backend.progress import Progress
from qrsc.flow.raft_rs.network import FlowNetwork
from qrsc.learn.flow import FlowTrainingOptions
from qrsc.learn.flow.flow_training import WEIGHTS, fit_flow
from qrsc.learn.flow.pairs import FlowPairs, PairPool
from qrsc.learn.flow.world_pairs import WorldPairs
from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.state import load_state
from qrsc.simulate.paint.library import texture_library
from qrsc.weights import WeightsError, load_strictly, read_weights

from .toys import TINY, LayeredPairs

pytest.importorskip("pytorch_lightning", reason="training needs the extra 'train'")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
OPTIONS = FlowTrainingOptions(architecture=asdict(TINY), batch=2, steps=12, peak=3e-3, decay=0.5, pool=8, uses=4.0)


def keeping_logger() -> Any:
    """A Lightning logger that keeps the losses that it gets in `values`."""
    from pytorch_lightning.loggers.logger import DummyLogger

    class Keeping(DummyLogger):
        def __init__(self) -> None:
            super().__init__()
            self.values: list[float] = []

        def log_metrics(self, metrics: Any, step: int | None = None) -> None:
            self.values.append(metrics["loss"])

    return Keeping()


def test_the_loss_falls_and_a_run_can_be_resumed(tmp_path: Path) -> None:
    render = LayeredPairs(scenes=2)
    losses = [keeping_logger() for _ in range(2)]
    folder = tmp_path / "run"
    fit_flow(folder, render, OPTIONS, logger=losses[0])
    first = load_state(folder)
    assert first.step == 12
    with pytest.raises(FileExistsError, match="resume it"):
        fit_flow(folder, render, OPTIONS)

    longer = replace(OPTIONS, steps=24, resume=True)
    network = fit_flow(folder, render, longer, logger=losses[1])
    second = load_state(folder)
    assert second.step == 24
    assert second.minutes > first.minutes
    assert losses[1].values[-1] < 0.8 * losses[0].values[-1]

    stored = read_weights(folder / WEIGHTS)
    assert {value.dtype for value in stored.values()} == {torch.float16}
    other = FlowNetwork(TINY)
    load_strictly(other, stored, "the saved weights")
    for name, value in network.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value.cpu(), atol=1e-3, rtol=1e-3)


def test_a_run_stops_after_its_minutes(tmp_path: Path) -> None:
    options = replace(OPTIONS, steps=10_000, minutes=0.01)
    fit_flow(tmp_path / "run", LayeredPairs(scenes=2), options)
    assert 0 < load_state(tmp_path / "run").step < 500


def test_weights_of_another_size_cannot_be_started_from(tmp_path: Path) -> None:
    start = FlowNetwork(replace(TINY, hidden=24)).state_dict()
    with pytest.raises(WeightsError, match="does not fit FlowNetwork"):
        fit_flow(tmp_path / "run", LayeredPairs(scenes=2), OPTIONS, start=start)


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    fit_flow(tmp_path, LayeredPairs(scenes=2), replace(OPTIONS, steps=1))
    next(tmp_path.glob("state-*.safetensors")).write_bytes(b"nothing")
    with pytest.raises(WeightsError, match="damaged or was replaced"):
        load_state(tmp_path)
    with pytest.raises(WeightsError, match="no training state"):
        load_state(tmp_path / "elsewhere")


def test_the_learning_rate_rises_and_falls() -> None:
    schedule = Schedule(minutes=math.inf, steps=1000, peak=1e-3)
    rates = [schedule.learning_rate(schedule.progress(0.0, step)) for step in range(1001)]
    assert max(rates) == pytest.approx(1e-3, rel=0.01)
    assert rates[0] < 3e-5
    assert rates[-1] == pytest.approx(1e-5)
    assert rates.index(max(rates)) == 40
    assert Schedule(minutes=10.0, steps=1000).progress(9.0, 100) == 0.9


def test_pairs_of_a_pool_are_drawn_about_as_often_as_asked() -> None:
    with PairPool(LayeredPairs(scenes=2), capacity=8, device="cpu", uses=3.0, seed=1) as pool:
        for _ in range(6):
            pool.draw(2)
    assert pool.drawn == 12
    assert pool.rendered == 4


def test_the_same_seed_gives_the_same_batches() -> None:
    drawn = []
    for _ in range(2):
        with PairPool(LayeredPairs(scenes=2), capacity=4, device="cpu", seed=3) as pool:
            drawn.append([pool.draw(2) for _ in range(2)][-1])
    torch.testing.assert_close(drawn[0].first, drawn[1].first)
    torch.testing.assert_close(drawn[0].backward, drawn[1].backward)


def test_progress_is_reported_after_each_step_of_every_run(tmp_path: Path) -> None:
    for steps, first in ((3, 1), (5, 4)):
        told: list[Progress] = []
        options = replace(OPTIONS, steps=steps, resume=first > 1)
        fit_flow(tmp_path, LayeredPairs(scenes=2), options, progress=told.append)
        assert [(each.stage, each.done, each.total) for each in told] == [
            ("training", step, steps) for step in range(first, steps + 1)
        ]
        left = [each.seconds_left for each in told]
        assert left[0] is not None
        assert left[0] > 0.0 == left[-1]
        assert told[0].seconds < told[-1].seconds


def test_speeds_of_scenes_grow_with_the_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def watched(self: WorldPairs, generator: torch.Generator) -> FlowPairs:
        seen.append(self.progress)
        return LayeredPairs(scenes=2)(generator)

    monkeypatch.setattr(WorldPairs, "__call__", watched)
    render = WorldPairs(texture_library(torch.Generator().manual_seed(0), variety=1, resolution=16), (64, 96))
    fit_flow(tmp_path, render, replace(OPTIONS, steps=4, pool=2, uses=1.0))
    assert seen == pytest.approx([0.0, 0.25, 0.5, 0.75])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resume": True, "start": "raft-rs"}, "give one"),
        ({"minutes": 0.0}, "minutes must be over 0; got 0"),
        ({"total_minutes": -1.0}, "total minutes must be over 0"),
        ({"peak": 0.0}, "peak must be over 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FlowTrainingOptions(**given)


def test_the_length_of_the_training_is_that_of_the_run_if_not_given() -> None:
    assert FlowTrainingOptions().schedule().minutes == math.inf
    assert FlowTrainingOptions(minutes=5.0).schedule().minutes == 5.0
    options = FlowTrainingOptions(minutes=5.0, total_minutes=60.0)
    assert (options.run_minutes, options.schedule().minutes) == (5.0, 60.0)
