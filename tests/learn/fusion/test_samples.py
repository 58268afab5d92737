"""Losses, alignment, rendering and augmentation of fusion samples."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.evaluate.metrics.image_quality import ssim
from qrsc.flow import ConfidentFlows, FlowPair
from qrsc.fusion import mean_fusion
from qrsc.learn.fusion import world_samples as fusion_rendering
from qrsc.learn.fusion.alignment import Alignment, clip_flows
from qrsc.learn.fusion.losses import (
    TERMS,
    TermName,
    balanced,
    census,
    charbonnier,
    dissimilarity,
    laplacian,
    load_term,
    mse,
    proportional,
    unseen_error,
)
from qrsc.learn.fusion.sample_scores import score_fusion
from qrsc.learn.fusion.samples import FusionSamples, SamplePool, graded, join_samples, mirrored
from qrsc.learn.fusion.world_samples import WorldSamples
from qrsc.learn.pool.world_settings import training_textures
from qrsc.pipeline import Corrector
from qrsc.timing import Readout

from .fusion_toys import ToySamples

TEXTURES = lru_cache(lambda: training_textures(None, "cpu", variety=1))
PICTURE = torch.rand(2, 3, 24, 32, generator=torch.Generator().manual_seed(0))


def test_losses_by_hand() -> None:
    off = PICTURE + 0.1
    assert charbonnier(off, PICTURE).tolist() == pytest.approx([(0.01 + 1e-6) ** 0.5] * 2, rel=1e-4)
    assert mse(off, PICTURE).tolist() == pytest.approx([0.01] * 2, rel=1e-4)
    assert laplacian(off, PICTURE).tolist() == pytest.approx([0.1] * 2, rel=1e-4)  # only the coarsest band differs
    assert census(off, PICTURE).tolist() == pytest.approx([0.0] * 2, abs=1e-9)  # nor any pixel against its neighbours
    assert float(census(PICTURE.flip(-1), PICTURE).min()) > 0.3
    blurred = torch.nn.functional.avg_pool2d(PICTURE, 3, 1, 1, count_include_pad=False)
    assert bool((laplacian(blurred, PICTURE) > charbonnier(blurred, PICTURE)).all())


def test_dissimilarity_is_one_less_the_metric() -> None:
    truth = (255.0 * PICTURE).round() / 255.0  # the metric rounds to 8 bits
    picture = (255.0 * (0.8 * truth + 0.1)).round() / 255.0
    away = truth.flip(-1)
    for one in (picture, away, truth):
        torch.testing.assert_close(1.0 - dissimilarity(one, truth).double(), ssim(one, truth), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", ["charbonnier", "mse", "laplacian", "census", "ssim"])
def test_gradients_of_losses_are_finite_also_without_error(name: TermName) -> None:
    picture = PICTURE.clone().requires_grad_()
    (slope,) = torch.autograd.grad(load_term(name)(picture, PICTURE).sum(), picture)
    assert bool(slope.isfinite().all())


def test_terms_are_balanced_by_ratios_without_gradient() -> None:
    x = torch.tensor([3.0, 3.0], requires_grad=True)
    first, second, third = 2.0 * x, 0.01 * x.square(), 5.0 - x
    total = balanced([first, second, third])
    assert total.item() == pytest.approx(3 * 6.0)
    (slope,) = torch.autograd.grad(total, x)
    assert slope.tolist() == pytest.approx([(2.0 + 6.0 / 0.09 * 0.06 - 6.0 / 2.0) / 2] * 2)
    nothing = balanced([2.0 * x, 0.0 * x])
    assert nothing.item() == pytest.approx(6.0)
    assert torch.autograd.grad(nothing, x)[0].tolist() == [1.0, 1.0]


def test_proportional_losses_count_every_sample_alike() -> None:
    errors = torch.tensor([1e-1, 1e-3], requires_grad=True)
    (slope,) = torch.autograd.grad(proportional([errors, 2.0 * errors]), errors)
    assert (slope * errors).tolist() == pytest.approx([1.0, 1.0], rel=2e-3)
    assert bool(proportional([torch.zeros(2)]).isfinite())


def test_unseen_pixels_count_by_themselves() -> None:
    off = torch.stack([PICTURE[0] + 0.1, PICTURE[1] + 0.01]).requires_grad_()
    seen = torch.ones(2, 1, 24, 32, dtype=torch.bool)
    seen[0, :, :10, :10] = False
    seen[1, :, 0, :20] = False  # too few of them
    error = unseen_error(off, PICTURE, seen)
    assert error.item() == pytest.approx(math.log(0.01 + 1e-6), rel=1e-3)
    (slope,) = torch.autograd.grad(error, off)
    assert torch.equal(slope.abs().amax(1, keepdim=True) > 0, ~seen & torch.tensor([True, False]).reshape(2, 1, 1, 1))
    assert unseen_error(off, PICTURE, torch.ones_like(seen)).item() == 0.0


def test_an_unknown_loss_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=", ".join(TERMS)):
        load_term("style")  # type: ignore[arg-type]  # wrong on purpose


class GivenFlow:
    """The flow of a picture that moves evenly."""

    def __init__(self, step: float) -> None:
        self.step = step

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        flow = torch.zeros_like(first[:, :2])
        flow[:, 0] = self.step
        return FlowPair(flow, -flow)


def test_clips_are_aligned_as_the_pipeline_does() -> None:
    generator = torch.Generator().manual_seed(1)
    frames = torch.rand(2, 5, 3, 24, 32, generator=generator)
    readout = Readout(0.7)
    flow = GivenFlow(1.7)
    align = Alignment(frames, clip_flows(frames, flow), readout, interpolation="bicubic")
    found = align(range(1, 4), 1, readout.instant("middle"))
    fused = mean_fusion(found)
    for number in range(2):
        expected = Corrector(readout, flow=flow, fusion="mean", find_cuts=False)(frames[number])[2]
        torch.testing.assert_close(fused.image[number].clamp(0.0, 1.0), expected, atol=2e-5, rtol=0)
    assert align(range(1, 4), 1, 0.35).frames.isfinite().all()


class SureFlow(GivenFlow):
    """The same, with a confidence of its own."""

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        sure = torch.linspace(0.2, 1.0, first.shape[-1]).expand(len(first), 1, *first.shape[-2:])
        return ConfidentFlows(self(first, second), sure, 0.5 * sure)


def test_alignment_takes_the_estimators_own_confidences() -> None:
    frames = torch.rand(2, 4, 3, 16, 24, generator=torch.Generator().manual_seed(1))
    flows = clip_flows(frames, SureFlow(1.0))
    assert len(flows) == 3
    for each in flows:
        assert each.forward_confidence is not None
        assert each.backward_confidence is not None
        assert each.forward_confidence.shape == (2, 1, 16, 24)
        torch.testing.assert_close(each.backward_confidence, 0.5 * each.forward_confidence)
    assert clip_flows(frames, GivenFlow(1.0))[0].forward_confidence is None


def test_alignment_of_other_orders_and_of_none() -> None:
    frames = torch.rand(1, 5, 3, 16, 24, generator=torch.Generator().manual_seed(1))
    readout = Readout(0.8)
    flows = clip_flows(frames, GivenFlow(1.7))
    flows[2] = ConfidentFlows(FlowPair(*(1.5 * each for each in flows[2].flows)), None, None)  # it speeds up
    linear, quadratic = (
        Alignment(frames, flows, readout, motion=motion)(range(1, 4), 1, 0.4).correction_fields[:, 1]
        for motion in ("linear", "quadratic")
    )
    assert float((linear - quadratic).abs().max()) > 0.03
    nothing = Alignment(frames, [], readout, motion="none")(range(1, 4), 1, 0.4)
    assert torch.equal(nothing.frames, frames[:, 1:4])
    assert not bool(nothing.correction_fields.any())
    assert bool(nothing.valid.all())
    assert float(nothing.time_distance[0, 0].min()) > 0.5
    with pytest.raises(ValueError, match="choose one of path, quadratic, linear, none"):
        Alignment(frames, flows, readout, motion="cubic")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="5 frames have flows between neighbours, one less; got 3"):
        Alignment(frames, flows[:3], readout)


@pytest.fixture(scope="module")
def world_samples() -> FusionSamples:
    render = WorldSamples(TEXTURES(), (48, 64), None, scenes=2, frames=5)
    generator = torch.Generator().manual_seed(3)
    return join_samples([render(generator) for _ in range(2)])


def test_worlds_give_samples_that_are_nearly_their_truth(world_samples: FusionSamples) -> None:
    assert world_samples.frames.shape == (4, 3, 3, 48, 64)
    assert 0.8 < float(world_samples.seen.float().mean()) <= 1.0
    assert score_fusion(mean_fusion, world_samples).everywhere > 26.0
    with pytest.raises(ValueError, match="needs five frames"):
        WorldSamples(TEXTURES(), (48, 64), frames=4)
    with pytest.raises(ValueError, match="one or more of whole, three, end, pair; got half"):
        WorldSamples(TEXTURES(), (48, 64), clips={"half": 1.0})


@pytest.mark.parametrize("camera", [0.0, 1.0])
def test_the_truth_can_be_as_grainy_as_the_frames(camera: float) -> None:
    def rendered(grainy: bool, noise: float = 0.2) -> FusionSamples:
        effects = ("blur", "noise") if noise else ("blur",)
        # The generator is asked for the truth's noise behind all else of a call with one sample.
        render = WorldSamples(TEXTURES(), (48, 64), None, scenes=1, frames=5, camera=camera, effects=effects)
        render.noise, render.grainy_truth = noise, grainy
        return render(torch.Generator().manual_seed(5))

    clean, grainy = rendered(False), rendered(True)
    torch.testing.assert_close(clean.frames, grainy.frames)
    grain = grainy.truth - clean.truth
    assert 1e-3 < float(grain.std()) < 0.2
    assert abs(float(grain.mean())) < 0.02
    assert torch.equal(rendered(False, 0.0).truth, rendered(True, 0.0).truth), "without noise there is no grain"


@pytest.mark.parametrize(("kind", "seed"), [("whole", 0), ("three", 0), ("end", 0), ("end", 1), ("pair", 0)])
def test_frames_of_a_clip_are_aligned_by_what_it_has(monkeypatch: pytest.MonkeyPatch, kind: str, seed: int) -> None:
    clips: list[int] = []

    class Counting(Alignment):
        def __init__(self, frames: Tensor, *rest: Any, **options: Any) -> None:
            clips.append(frames.shape[1])
            super().__init__(frames, *rest, **options)

    monkeypatch.setattr(fusion_rendering, "Alignment", Counting)
    render = WorldSamples(TEXTURES(), (48, 64), None, scenes=2, frames=7, clips={kind: 1.0})
    samples = render(torch.Generator().manual_seed(seed))
    assert set(clips) == {"whole": {7}, "three": {3}, "end": {3, 4, 5}, "pair": {2}}[kind]
    side = int(samples.side[0])
    assert samples.side.tolist() == [side] * 6
    assert (side != 0) == (kind in ("end", "pair"))
    if side != 0:
        assert not samples.frames[:, 1 - side].any()
        assert not samples.valid[:, 1 - side].any()
    chosen = {0: slice(0, 3), -1: slice(0, 2), 1: slice(1, 3)}[side]
    fused = mean_fusion(samples.aligned(chosen)).image
    assert float(mse(fused, samples.truth).mean()) < 10**-2.6


def test_mirrored_and_graded_samples_are_as_near_their_truth(world_samples: FusionSamples) -> None:
    before = score_fusion(mean_fusion, world_samples)
    turned = mirrored(world_samples, torch.Generator().manual_seed(5))
    assert not torch.equal(turned.truth, world_samples.truth)
    assert score_fusion(mean_fusion, turned).everywhere == pytest.approx(before.everywhere, abs=1e-3)
    # A row keeps its time and its field, wherever it went: their sums do not change, but for the mirrored signs.
    torch.testing.assert_close(turned.time_distance.sum((2, 3, 4)), world_samples.time_distance.sum((2, 3, 4)))
    torch.testing.assert_close(
        turned.correction_fields.sum((1, 3, 4)).abs(),
        world_samples.correction_fields.sum((1, 3, 4)).abs(),
        atol=0.1,
        rtol=1e-3,
    )
    other = graded(world_samples, torch.Generator().manual_seed(6))
    assert not torch.equal(other.truth, world_samples.truth)
    assert score_fusion(mean_fusion, other).everywhere > before.everywhere - 4.0


def test_a_pool_prefers_parts_that_the_centre_frame_does_not_show() -> None:
    hidden = []
    for choosy in (0.0, 1.0):
        with SamplePool(ToySamples(scenes=8), capacity=8, device="cpu", uses=1e9, seed=3) as pool:
            pool.crop, pool.choosy = (16, 16), choosy
            hidden.append(sum(float((~pool.draw(8).seen).float().mean()) for _ in range(12)) / 12)
    assert hidden[1] > 1.3 * hidden[0]


def test_a_pool_gives_samples_of_one_kind_or_ordinary_ones() -> None:
    def render(generator: torch.Generator) -> FusionSamples:
        return replace(ToySamples(scenes=4)(generator), side=torch.tensor([0, 0, -1, 0]))

    with SamplePool(render, capacity=10, device="cpu", uses=1e9, seed=3) as pool:
        assert set(pool.draw(32, -1).side.tolist()) == {-1}
        assert set(pool.draw(32, 1).side.tolist()) == {0}  # there are none
        assert set(pool.draw(32).side.tolist()) == {0}


def test_a_pool_waits_for_ordinary_samples() -> None:
    sides = iter([-1, 1, 0, 0])

    def render(generator: torch.Generator) -> FusionSamples:
        return replace(ToySamples(scenes=4)(generator), side=torch.full((4,), next(sides)))

    with SamplePool(render, capacity=16, device="cpu", uses=1e9, seed=3) as pool:
        assert set(pool.draw(2).side.tolist()) == {0}
        assert pool.rendered == 12


def test_some_of_the_frames_can_be_chosen() -> None:
    samples = ToySamples()(torch.Generator().manual_seed(0))
    assert samples.aligned(slice(0, 2)).centre == 1
    later = samples.aligned(slice(1, 3))
    assert later.centre == 0
    torch.testing.assert_close(later.frames[:, 0], samples.frames[:, 1])
    assert len(replace(samples)[1:3]) == 2
