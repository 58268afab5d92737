"""The training of the baselines at toy size: one stream of samples for all, saved, resumed, and safe from damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from qrsc.baselines.learned.networks import NETWORKS, baseline_from_file, build_baseline, named_networks
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.baselines.training import BaselineTrainingOptions
from qrsc.baselines.training.features import SharedFeatures, no_features
from qrsc.baselines.training.learner import Learner
from qrsc.baselines.training.samples import WindowPool, mirrored
from qrsc.baselines.training.scores import score_baselines, score_table
from qrsc.baselines.training.train import fit_baselines
from qrsc.baselines.training.window_worlds import WindowWorlds
from qrsc.flow import load_flow
from qrsc.learn.fusion.perceptual import perceptual
from qrsc.learn.trainer.schedule import Schedule
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.weights import WeightsError

from ..learn.fusion.test_perceptual import toy_trunk
from .windows import panned, panned_windows

OPTIONS = BaselineTrainingOptions(steps=2, batch=2, size=(32, 64), crop=32, pool=8, uses=4.0, decay=0.5, rate=100.0)


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
    own = Learner.grade

    def watched(learner: Learner, samples: object, features: FeatureLoss, *, mixed: bool) -> Tensor:
        seen[learner.name].append(float(samples.frames.sum()))  # type: ignore[attr-defined]
        return own(learner, samples, features, mixed=mixed)  # type: ignore[arg-type]

    monkeypatch.setattr(Learner, "grade", watched)
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


@pytest.mark.usefixtures("few_threads")
@pytest.mark.parametrize("name", NETWORKS)
def test_half_precision_and_fast_motion_give_finite_gradients(name: str) -> None:
    torch.manual_seed(0)
    network = build_baseline(name, 8)
    samples = panned(40.0, 1.0, (64, 64))
    learner = Learner(name, network, Schedule(steps=10, peak=1e-3), clip=5.0, decay=0.9)
    features = SharedFeatures(toy_trunk())
    mixed = learner.grade(samples, features, mixed=True).tolist()
    gradients = [weight.grad for weight in network.parameters()]
    assert all(gradient is not None and bool(gradient.isfinite().all()) for gradient in gradients)
    exact = learner.grade(samples, features, mixed=False).tolist()
    assert mixed[0] == pytest.approx(exact[0], rel=0.02)  # measured 0.001 to 0.006
    assert learner.step(exact[1], 0.5)
    assert learner.grade(samples, features, mixed=True).isfinite().all()


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    class Broken(Baseline):
        multiple, uses_flow, instants, published, trained_width = 1, False, ("middle",), 0.0, 1

        def __init__(self) -> None:
            super().__init__(1)
            self.weight = torch.nn.Parameter(torch.ones(3))
            self.factors = torch.tensor([1.0, torch.nan, 100.0])

        def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
            return (self.weight * self.factors).sum()

    network = Broken()
    learner = Learner("broken", network, Schedule(steps=10), clip=1.0, decay=0.9)
    graded = learner.grade(panned(1.0, 1.0), no_features, mixed=False).tolist()
    assert not learner.step(graded[1], 0.5)
    assert learner.skipped == 1
    assert network.weight.tolist() == [1.0, 1.0, 1.0]
    network.factors = torch.tensor([30.0, 0.0, 40.0])
    loss, norm = learner.grade(panned(1.0, 1.0), no_features, mixed=False).tolist()
    assert (loss, norm) == pytest.approx((70.0, 50.0))
    assert network.weight.grad is not None
    torch.testing.assert_close(network.weight.grad, torch.tensor([0.6, 0.0, 0.8]))  # clipped to a norm of 1
    assert learner.step(norm, 0.5)


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
    class Known(Baseline):
        multiple, uses_flow, instants, published, trained_width = 1, False, ("middle",), 2.0, 1

        def predict(self, window: Window, tau: Tensor) -> Tensor:
            return window.frames[:, 1] + 0.1

    networks = {"known": Known(1)}
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
