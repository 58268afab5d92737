"""The training of the baselines at toy size: one stream of samples for all, saved, resumed, and safe from damage."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from qrsc.baselines.learned.networks import NETWORKS, baseline_from_file, build_baseline, named_networks
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.baselines.training import BaselineTrainingOptions, train_baselines
from qrsc.baselines.training.features import SharedFeatures, no_features
from qrsc.baselines.training.learner import RAMP, Learner
from qrsc.baselines.training.one_batch import StepsOnOneBatch
from qrsc.baselines.training.samples import WindowPool, WindowSamples, mirrored
from qrsc.baselines.training.scores import score_baselines, score_table
from qrsc.baselines.training.train import Lockstep, fit_baselines
from qrsc.baselines.training.window_worlds import WindowWorlds
from qrsc.flow import load_flow
from qrsc.learn.fusion.perceptual import perceptual
from qrsc.learn.trainer import recorded_step
from qrsc.learn.trainer.schedule import Schedule
from qrsc.learn.trainer.step_clock import StepClock
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.weights import WeightsError, read_notes

from ..learn.fusion.test_perceptual import toy_trunk
from .windows import panned, panned_windows

OPTIONS = BaselineTrainingOptions(steps=2, batch=1, size=(32, 64), crop=32, pool=8, uses=4.0, decay=0.5, rate=100.0)


@pytest.fixture(scope="module")
def textures() -> TextureLibrary:
    return texture_library(torch.Generator().manual_seed(0), variety=1, resolution=32)


@pytest.fixture
def few_threads() -> Iterator[None]:
    """The networks are so small here that threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("few_threads")
def test_all_networks_train_together_and_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[float]] = {name: [] for name in NETWORKS}
    own = Learner.step

    def watched(learner: Learner, samples: WindowSamples, features: FeatureLoss, *, mixed: bool) -> Tensor:
        seen[learner.name].append(float(samples.frames.sum()))
        return own(learner, samples, features, mixed=mixed)

    monkeypatch.setattr(Learner, "step", watched)
    for name in NETWORKS:
        monkeypatch.setattr(NETWORKS[name], "trained_width", 8)
    said: list[str] = []
    first = fit_baselines(list(NETWORKS), tmp_path, panned_windows, no_features, OPTIONS, say=said.append)
    assert {len(values) for values in seen.values()} == {2}
    assert len({tuple(values) for values in seen.values()}) == 1  # the same batches in the same order
    assert len(set(seen["dsun"])) == 2
    assert said[-1].startswith("step 2, ")
    assert all(f"{name} " in said[-1] for name in NETWORKS)
    assert "skipped" not in said[-1]
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == sorted(f"{name}.safetensors" for name in NETWORKS)
    for name, network in first.items():
        stored = load_file(tmp_path / f"{name}.safetensors")
        assert {value.dtype for value in stored.values()} == {torch.float16}
        torch.manual_seed(OPTIONS.seed)
        start = build_baseline(name).state_dict()
        assert any(float((value - start[each]).abs().max()) > 1e-5 for each, value in network.state_dict().items())

    longer = replace(OPTIONS, steps=3)
    with pytest.raises(FileExistsError, match=r"holds weights of jcd, dsun; resume, or name another folder"):
        fit_baselines(["jcd", "dsun"], tmp_path, panned_windows, no_features, longer)
    again = fit_baselines(["dsun", "rssr"], tmp_path, panned_windows, no_features, replace(longer, resume=True))
    assert len(seen["dsun"]) == len(seen["rssr"]) == 3  # one more step
    assert len(seen["jcd"]) == 2
    assert seen["dsun"][2] not in seen["dsun"][:2]  # of other samples
    loaded = baseline_from_file(tmp_path / "dsun.safetensors")
    for name, value in again["dsun"].state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value, atol=1e-3, rtol=1e-3)
    with pytest.raises(WeightsError, match=r"same number of steps; here: dsun 3, jcd 2"):
        fit_baselines(["dsun", "jcd"], tmp_path, panned_windows, no_features, replace(longer, resume=True))


def learner_of(network: Baseline, name: str = "own", clip: float = 5.0) -> Learner:
    return Learner(name, network, Schedule(steps=10, peak=1e-3), clip=clip, decay=0.9)


@pytest.mark.usefixtures("few_threads")
@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_and_fast_motion_give_finite_gradients(name: str) -> None:
    samples = panned(40.0, 1.0, (64, 64))
    features = SharedFeatures(toy_trunk())
    found = []
    for mixed in (True, False):
        torch.manual_seed(0)
        learner = learner_of(build_baseline(name, 8), name)
        start = [weight.detach().clone() for weight in learner.weights]
        learner.prepare(0.5)
        found.append(learner.step(samples, features, mixed=mixed).tolist())
        assert learner.skipped == 0  # so they were finite
        assert all(not torch.equal(weight, before) for weight, before in zip(learner.weights, start, strict=True))
    assert found[0][0] == pytest.approx(found[1][0], rel=0.005)  # measured 0.00005 to 0.001


class Known(Baseline):
    """A loss whose gradient is known."""

    multiple, uses_flow, instants, published, trained_width = 1, False, ("middle",), 0.0, 1

    def __init__(self) -> None:
        super().__init__(1)
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.factors = torch.zeros(3)

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        return (self.weight * self.factors).sum()


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    network = Known()
    learner = learner_of(network, clip=1.0)

    def step(*factors: float) -> list[float]:
        network.factors = torch.tensor(factors)
        learner.prepare(0.5)
        return learner.step(panned(1.0, 1.0), no_features, mixed=False).tolist()

    step(1.0, torch.nan, 100.0)
    step(torch.inf, 0.0, 0.0)
    assert learner.skipped == 2
    assert network.weight.tolist() == learner.average[0].tolist() == [1.0, 1.0, 1.0]
    assert learner.mean_loss() is None
    assert step(30.0, 0.0, 40.0) == pytest.approx((70.0, 50.0))
    moments = learner.optimizer.state[network.weight]
    assert float(moments["step"]) == 1.0  # those that were left out do not count
    torch.testing.assert_close(moments["exp_avg"], 0.1 * torch.tensor([0.6, 0.0, 0.8]))  # clipped to a norm of 1
    rate = learner.schedule.learning_rate(0.5) * 3 / RAMP
    moved = torch.tensor([1.0 - rate, 1.0, 1.0 - rate])  # Adam's first step has the length of the learning rate
    torch.testing.assert_close(network.weight.detach(), moved, rtol=0.0, atol=1e-7)
    share = 1.0 - 4 / 13  # the average of few steps is a short one
    torch.testing.assert_close(learner.average[0], 1.0 + share * (moved - 1.0), rtol=0.0, atol=1e-7)
    assert learner.mean_loss() == pytest.approx(70.0)
    kept = moments["exp_avg"].clone()
    step(torch.nan, 0.0, 0.0)
    assert torch.equal(moments["exp_avg"], kept)
    torch.testing.assert_close(network.weight.detach(), moved, rtol=0.0, atol=1e-7)


@pytest.mark.usefixtures("few_threads")
def test_recorded_steps_see_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replays work on the tensors of the recording; here a replay calls the function again."""

    def record(
        function: Callable[..., Tensor], inputs: list[Tensor], pool: object
    ) -> tuple[Callable[[], None], Tensor]:
        result = torch.zeros(2)

        def replay() -> None:
            result.copy_(function(*inputs).flatten()[:2])

        recorded.append(replay)
        return replay, result

    recorded: list[Callable[[], None]] = []
    monkeypatch.setattr(recorded_step, "record", record)
    batches = [panned(speed, 0.8) for speed in (1.0, 3.0, 9.0, 2.0, 5.0, 7.0)]
    losses: dict[bool, list[list[float]]] = {}
    for given in (False, True):
        torch.manual_seed(0)
        learner = learner_of(build_baseline("dsun", 8))
        steps = StepsOnOneBatch(
            [learner], SharedFeatures(toy_trunk()), torch.device("cpu"), mixed=False, recorded=given
        )
        losses[given] = []
        for batch in batches:
            learner.prepare(0.5)
            losses[given].append(steps(batch)["own"].tolist())
        assert steps.fallbacks() == {}
    assert len(recorded) == 2  # the features of the truths, and the network
    assert losses[True] == losses[False]
    assert len({loss for loss, _ in losses[True]}) == len(batches)


@pytest.mark.usefixtures("few_threads")
def test_what_cannot_be_recorded_is_launched_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording computes nothing, and leaves gradients behind where it fails; the end of it fails as well."""

    def record(function: Callable[..., Tensor], inputs: list[Tensor], pool: object) -> None:
        recorded.append(pool)
        for weight in learner.weights:
            weight.grad = torch.full_like(weight, 1e6)
        learner.optimizer.found_inf = torch.ones(())  # type: ignore[attr-defined]
        try:
            raise RuntimeError("operation not permitted when stream is capturing\nMore.")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")

    recorded: list[object] = []
    monkeypatch.setattr(recorded_step, "record", record)
    batches = [panned(speed, 0.8) for speed in (1.0, 3.0, 9.0, 2.0, 5.0, 7.0)]
    losses: dict[bool, list[list[float]]] = {}
    for given in (False, True):
        torch.manual_seed(0)
        learner = learner_of(build_baseline("dsun", 8))
        steps = StepsOnOneBatch([learner], no_features, torch.device("cpu"), mixed=False, recorded=given)
        losses[given] = []
        for number, batch in enumerate(batches):
            assert steps.starting == (given and number <= 3)
            learner.prepare(0.5)
            losses[given].append(steps(batch)["own"].tolist())
    assert steps.fallbacks() == {"own": "no CUDA graph: operation not permitted when stream is capturing"}
    assert len(recorded) == 1  # not tried again
    assert losses[True] == losses[False]
    assert float(learner.optimizer.state[learner.weights[0]]["step"]) == 6.0


def test_a_recording_that_failed_keeps_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    handles = iter("abc")
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: next(handles))
    seen: list[object] = []

    def record(function: Callable[..., Tensor], inputs: list[Tensor], pool: object) -> None:
        seen.append(pool)
        raise RuntimeError("no")

    monkeypatch.setattr(recorded_step, "record", record)
    memory = recorded_step.GraphMemory(recorded=True)
    steps = [
        recorded_step.RecordedStep(lambda: torch.ones(()), torch.device("cpu"), recorded=True, memory=memory)
        for _ in range(2)
    ]
    for _ in range(recorded_step.WARM_UP + 2):
        assert [float(step()) for step in steps] == [1.0, 1.0]
    assert seen == ["a", "b"]


def test_weights_are_saved_when_a_training_breaks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Lockstep._step

    def step(training: Lockstep, progress: float) -> None:
        if training.steps == 2:
            raise RuntimeError("the GPU is gone")
        own(training, progress)

    monkeypatch.setattr(Lockstep, "_step", step)
    monkeypatch.setattr(NETWORKS["rssr"], "trained_width", 8)
    with pytest.raises(RuntimeError, match="the GPU is gone"):
        fit_baselines(["rssr"], tmp_path, panned_windows, no_features, replace(OPTIONS, steps=9))
    assert '"steps": 2' in read_notes(tmp_path / "rssr.safetensors")["training"]


def test_a_limit_counts_what_the_start_takes(tmp_path: Path) -> None:
    said: list[str] = []
    options = replace(OPTIONS, steps=10_000, limit=0.05, minutes=9.0)
    started = time.monotonic()
    fit_baselines(["rssr"], tmp_path, panned_windows, no_features, options, begun=started - 1.5, say=said.append)
    assert 1.0 < time.monotonic() - started < 2.5  # half of the 3 s are gone by
    assert re.fullmatch(r"the first samples are there after [12] s", said[0])
    shorter = options.shortened(0.01)
    assert shorter.run_minutes == pytest.approx(0.04)
    assert shorter.schedule(1e-4).minutes == pytest.approx(0.04)
    assert OPTIONS.shortened(3.0) == OPTIONS
    with pytest.raises(ValueError, match="limit must be over 0; got -1"):
        replace(OPTIONS, limit=-1.0)


def test_where_the_time_of_a_step_goes() -> None:
    clock = StepClock(torch.device("cpu"), skip=1, steps=2)
    told = []
    for pause in (0.2, 0.01, 0.03, 0.2):
        clock.start()
        time.sleep(pause)
        clock.lap("sleep")
        clock.lap("nothing")
        told.append(clock.finish())
    assert told[:2] == [None, None]
    assert told[3] is None
    found = re.fullmatch(r"ms in each of 2 steps: sleep (\d+\.\d), nothing 0\.\d", told[2] or "")
    assert found is not None
    assert 20.0 <= float(found[1]) < 60.0  # those of 10 and 30 ms


def test_rendered_windows_agree_with_themselves(textures: TextureLibrary) -> None:
    worlds = WindowWorlds(textures, (64, 96), load_flow("dis-ultrafast"), scenes=2, frames=4, camera=0.0)
    samples = min(
        (worlds(torch.Generator().manual_seed(seed)) for seed in range(2)), key=lambda each: float(each.gamma[0])
    )
    assert len(samples) == 4
    assert samples.window().frames.shape == (4, 3, 3, 64, 96)
    # The frame after the current one of the first two windows is the current one of the others.
    torch.testing.assert_close(samples.frames[:2, 2], samples.frames[2:, 1])
    torch.testing.assert_close(samples.middle[:2], samples.before[2:])
    current = samples.frames[:, 1]
    for truth, row in ((samples.first, 0), (samples.middle, 32)):
        here = (current[..., row, :] - truth[..., row, :]).abs().mean()
        elsewhere = (current - truth).abs().mean()
        assert float(here) < 0.03  # noise
        assert float(elsewhere) > float(here)


def test_augmented_windows_are_still_true() -> None:
    """A network that moves pixels by the flow times the remaining time undoes a pan, mirrored or not."""
    with WindowPool(panned_windows, capacity=8, device="cpu") as pool:
        pool.crop = 32
        samples = pool.draw(6)
    assert samples.frames.shape == (6, 3, 3, 32, 32)
    speeds = samples.flows[:, 0, 0, 0, 0]
    assert set(speeds.sign().tolist()) == {-1.0, 1.0}  # some are mirrored
    x = torch.arange(32.0)
    for window, speed in enumerate(speeds.tolist()):
        gamma = float(samples.gamma[window])
        for row in (0, 8, 24):
            step = round(-speed * gamma * row / 32)  # from the row's own time back to that of the first row
            inside = ((x + step) >= 0) & ((x + step) <= 31)
            if int(inside.sum()) < 8:
                continue
            moved = samples.first[window, :, row][:, (x[inside] + step).long()]
            found = samples.frames[window, 1, :, row][:, inside]
            assert float((moved - found).abs().mean()) < 0.12  # half a pixel of 0.21 radians a pixel at most
    one = panned(5.0, 1.0)
    flipped = mirrored(one, torch.Generator().manual_seed(0))
    twice = [flipped, mirrored(one, torch.Generator().manual_seed(2))]
    assert {float(each.flows[0, 0, 0, 0, 0]) for each in twice} == {5.0, -5.0}


def test_features_of_truths_are_found_once() -> None:
    trunk = toy_trunk()
    calls: list[tuple[int, ...]] = []
    trunk.register_forward_pre_hook(lambda _, inputs: calls.append(tuple(inputs[0].shape)))
    features = SharedFeatures(trunk)
    generator = torch.Generator().manual_seed(0)
    found, truth, other = (torch.rand(2, 3, 24, 24, generator=generator) for _ in range(3))
    features.remember((truth,))
    assert len(calls) == 1
    values = features(found, truth)
    assert len(calls) == 2
    torch.testing.assert_close(values, perceptual(trunk=toy_trunk())(found, truth))
    torch.testing.assert_close(features(found, other), perceptual(trunk=toy_trunk())(found, other))
    assert len(calls) == 4


def test_scores_of_what_is_known() -> None:
    class Brighter(Baseline):
        multiple, uses_flow, instants, published, trained_width = 1, False, ("middle",), 2.0, 1

        def predict(self, window: Window, tau: Tensor) -> Tensor:
            return window.frames[:, 1] + 0.1

    networks = {"known": Brighter(1)}
    still = panned(0.0, 0.8)
    scores = score_baselines(networks, [still, still])
    assert scores["rs input"]["first"] > 50.0  # 8 bits
    assert scores["known"]["middle"] == pytest.approx(20.0, abs=0.3)
    assert list(scores["known"]) == ["middle"]
    table = score_table(scores, networks)
    assert "| known |  | 20" in table
    assert table.endswith("| 0.00 | 2.00 |")
    moving = score_baselines({}, [panned(6.0, 1.0, (64, 96))], load_flow("dis-ultrafast"))
    assert moving["qrs"]["middle"] > moving["rs input"]["middle"] + 3.0


def test_names_and_options() -> None:
    assert named_networks("all") == tuple(NETWORKS)
    assert named_networks("jcd, dsun") == ("jcd", "dsun")
    for wrong in ("", "dsun,rsa2", "dsun,dsun"):
        with pytest.raises(ValueError, match="name one or more of dsun, sunet"):
            named_networks(wrong)
    with pytest.raises(ValueError, match="multiples of 32, and --crop at most the width"):
        BaselineTrainingOptions(size=(320, 448), crop=480)
    with pytest.raises(ValueError, match="rate must be over 0; got 0"):
        BaselineTrainingOptions(rate=0.0)
    assert replace(OPTIONS, rate=1.0).schedule(2e-4).peak == pytest.approx(2e-4)
    assert replace(OPTIONS, rate=3.0).schedule(2e-4).peak == pytest.approx(6e-4)
    assert {field.name for field in fields(OPTIONS)} >= {"minutes", "total_minutes", "textures", "resume"}


def test_crops_too_small_for_features_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs crops of at least 64 x 64; got 32 x 64\."):
        train_baselines(["rssr"], tmp_path, replace(OPTIONS, size=(64, 64)))


def test_files_of_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "dsun.safetensors"
    weights = {"weight": torch.zeros(2)}
    for notes, message in (
        ({"kind": "rsa2"}, "holds no weights of dsun, sunet"),
        ({"baseline": "dsun", "options": '{"width": 1000}'}, "width from 1 to 64; got 1000"),
        ({"baseline": "dsun", "options": '{"width": 16}'}, "does not fit Dsun"),
    ):
        save_file(weights, path, metadata=notes)
        with pytest.raises(WeightsError, match=message):
            baseline_from_file(path)
    with pytest.raises(WeightsError, match="does not say how far it was trained"):
        fit_baselines(["dsun"], tmp_path, panned_windows, no_features, replace(OPTIONS, resume=True))
