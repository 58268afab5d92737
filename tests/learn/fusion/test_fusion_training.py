"""Training of the fusion at toy size: it gets better than the mean, can be resumed, and is saved."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.fusion import mean_fusion
from qrsc.fusion.lite.network import LiteNetwork
from qrsc.fusion.networks import NetworkFusion, build_network, fusion_from_file
from qrsc.learn.fusion import FusionTrainingOptions, fusion_training
from qrsc.learn.fusion.fusion_task import FusionTask
from qrsc.learn.fusion.fusion_training import WEIGHTS, fit_fusion, rendered_worlds
from qrsc.learn.fusion.losses import charbonnier
from qrsc.learn.fusion.sample_scores import fusion_table, score_fusion
from qrsc.learn.fusion.samples import FusionSamples, SamplePool
from qrsc.learn.trainer.schedule import StepSchedule
from qrsc.learn.trainer.state import load_state
from qrsc.weights import WeightsError, load_strictly, read_weights

from .fusion_toys import TINY_LITE, TINY_RSA2, ToySamples

pytest.importorskip("pytorch_lightning", reason="training needs the extra 'train'")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning")
OPTIONS = FusionTrainingOptions(
    network="rsa2-lite",
    architecture=TINY_LITE,
    batch=4,
    crop=(32, 32),
    steps=60,
    peak=5e-3,
    decay=0.9,
    pool=16,
    uses=8.0,
)


def held_out() -> FusionSamples:
    return ToySamples(scenes=8)(torch.Generator().manual_seed(99))


def test_it_learns_what_the_mean_cannot_and_a_run_can_be_resumed(tmp_path: Path) -> None:
    render = ToySamples()
    folder = tmp_path / "run"
    fit_fusion(folder, render, OPTIONS)
    assert load_state(folder).step == 60
    with pytest.raises(FileExistsError, match="resume it"):
        fit_fusion(folder, render, OPTIONS)
    network = fit_fusion(folder, render, replace(OPTIONS, steps=100, resume=True))
    assert load_state(folder).step == 100

    samples = held_out()
    trained = score_fusion(NetworkFusion(network), samples)
    mean = score_fusion(mean_fusion, samples)
    assert trained.everywhere > mean.everywhere + 0.5
    assert trained.hidden > mean.hidden

    stored = read_weights(folder / WEIGHTS)
    assert {value.dtype for value in stored.values()} == {torch.float16}
    other = build_network("rsa2-lite", TINY_LITE)
    load_strictly(other, stored, "the saved weights")
    again = score_fusion(NetworkFusion(other), samples)
    assert again.everywhere == pytest.approx(trained.everywhere, abs=0.02)


def test_the_full_network_trains_in_the_papers_way(tmp_path: Path) -> None:
    options = replace(
        FusionTrainingOptions.published(),
        architecture={**TINY_RSA2, "validity": False, "prior": False},
        loss=("charbonnier", "mse"),
    )
    assert (options.batch, options.peak, options.steps) == (4, 1e-4, 400_000)
    options = replace(options, steps=3, batch=2, crop=(32, 32), pool=8)
    network = fit_fusion(tmp_path, ToySamples(scenes=2), options)
    assert load_state(tmp_path).step == 3
    assert network.options.prior is False  # type: ignore[union-attr]  # an rsa2 network


def test_networks_for_calmed_frames_are_trained_on_such(tmp_path: Path) -> None:
    seen: dict[bool, list[Tensor]] = {True: [], False: []}
    for calm, frames in seen.items():
        folder = tmp_path / str(calm)
        options = replace(OPTIONS, steps=1, architecture={**TINY_LITE, "calm": calm})
        network = fit_fusion(folder, ToySamples(scenes=2), options)
        fusion = fusion_from_file(folder / WEIGHTS)
        assert fusion.network.options.calm is calm
        with SamplePool(ToySamples(scenes=2), capacity=4, device="cpu", seed=3) as pool:
            task = FusionTask(network, pool, [], batch=2)
            samples = pool.draw(2)
        fusion.network.register_forward_pre_hook(lambda _, given, frames=frames: frames.append(given[0].frames))
        made = task.fuse(fusion.network, samples)
        torch.testing.assert_close(fusion(samples.aligned()).image, made.clamp(0.0, 1.0))
        torch.testing.assert_close(frames[0], frames[1])
    torch.testing.assert_close(seen[False][0], samples.frames)
    assert float((seen[True][0] - samples.frames).abs().mean()) > 0.01


def test_a_compiled_network_has_the_same_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network, **_: compiler(network, backend="eager"))
    losses = []
    for compiled in (False, True):
        torch.manual_seed(0)
        network = build_network("rsa2-lite", TINY_LITE)
        with SamplePool(ToySamples(scenes=2), capacity=4, device="cpu", seed=3) as pool:
            task = FusionTask(network, pool, [charbonnier], batch=2, compiled=compiled, fewer=False)
            losses.append(task.loss().item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_batches_of_two_frames_are_from_that_end_of_a_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def render(generator: torch.Generator) -> FusionSamples:
        return replace(ToySamples(scenes=6)(generator), side=torch.tensor([0, 1, -1, 0, 1, -1]))

    seen: set[tuple[int, int, int]] = set()
    fuse = FusionTask.fuse

    def watched(
        self: FusionTask, network: Any, samples: FusionSamples, chosen: slice | None = None, **more: Any
    ) -> Tensor:
        aligned = samples.aligned(chosen)
        (side,) = set(samples.side.tolist())
        seen.add((aligned.frames.shape[1], aligned.centre, side))
        return fuse(self, network, samples, chosen, **more)

    monkeypatch.setattr(FusionTask, "fuse", watched)
    options = replace(OPTIONS, steps=60, batch=1, crop=(16, 16), unseen_weight=1.0)
    fit_fusion(tmp_path, render, options)
    assert seen == {(3, 1, 0), (2, 1, -1), (2, 0, 1), (1, 0, 0)}


def test_a_run_stops_after_its_minutes_and_other_weights_are_refused(tmp_path: Path) -> None:
    options = replace(OPTIONS, steps=10_000, minutes=0.01)
    fit_fusion(tmp_path / "run", ToySamples(scenes=2), options)
    assert 0 < load_state(tmp_path / "run").step < 500
    start = LiteNetwork().state_dict()
    with pytest.raises(WeightsError, match="does not fit LiteNetwork"):
        fit_fusion(tmp_path / "other", ToySamples(scenes=2), OPTIONS, start=start)


def test_the_papers_learning_rate_falls_in_steps() -> None:
    schedule = StepSchedule(minutes=math.inf, steps=80, peak=1e-4)
    rates = [schedule.learning_rate(schedule.progress(0.0, epoch)) for epoch in range(80)]
    for epoch, rate in ((0, 1e-4), (24, 1e-4), (25, 1e-5), (50, 1e-6), (75, 1e-7)):
        assert rates[epoch] == pytest.approx(rate)


def test_a_pool_cuts_and_the_same_seed_gives_the_same_batches() -> None:
    drawn = []
    for _ in range(2):
        with SamplePool(ToySamples(scenes=2), capacity=4, device="cpu", seed=3) as pool:
            pool.crop = (16, 24)
            drawn.append([pool.draw(2) for _ in range(2)][-1])
    assert drawn[0].truth.shape == (2, 3, 16, 24)
    torch.testing.assert_close(drawn[0].frames, drawn[1].frames)
    with SamplePool(ToySamples(scenes=2), capacity=4, device="cpu", seed=3) as pool:
        pool.crop = (512, 24)
        with pytest.raises(ValueError, match="too small for parts of 512 x 24"):
            pool.draw(2)


def test_scores_of_the_centre_frame_alone_gain_nothing() -> None:
    samples = held_out()
    alone = score_fusion(None, samples)
    assert alone.worst == pytest.approx(0.0, abs=1e-6)
    assert alone.hidden < alone.seen
    perfect = score_fusion(lambda aligned: mean_fusion(aligned)._replace(image=samples.truth), samples, batch=100)
    assert perfect.everywhere == pytest.approx(100.0)
    assert f"| none | {alone.everywhere:.2f} | {alone.hidden:.2f} |" in fusion_table({"none": alone})


def test_further_measures_are_means_over_samples_in_the_table() -> None:
    samples = held_out()
    measures = {
        "brightness": lambda picture, truth: picture.mean((1, 2, 3)),
        "truth": lambda picture, truth: truth.mean((1, 2, 3)),
    }
    score = score_fusion(None, samples, batch=3, measures=measures)
    aligned = samples.aligned()
    alone = aligned.frames[:, aligned.centre].clamp(0.0, 1.0)
    assert score.figures["brightness"] == pytest.approx(float(alone.mean()), abs=1e-5)
    assert score.figures["truth"] == pytest.approx(float(samples.truth.mean()), abs=1e-5)
    table = fusion_table({"none": score})
    assert "| least gain | brightness | truth |" in table
    assert f"| {score.figures['brightness']:.4f} | {score.figures['truth']:.4f} |" in table


def test_grain_is_kept_by_noise_in_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_training, "training_textures", lambda folder, device: None)
    options = replace(OPTIONS, flow="true")
    clean, grainy = (rendered_worlds(replace(options, keep_grain=keep), torch.device("cpu")) for keep in (False, True))
    assert (clean.grainy_truth, grainy.grainy_truth) == (False, True)
    assert "compression" in clean.effects
    assert tuple(grainy.effects) == ("blur", "noise")  # a clean truth of compressed frames would teach to denoise
    assert clean.noise > grainy.noise == 0.0
