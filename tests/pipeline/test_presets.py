"""Presets, what a corrector resolves for a device, and what its results say about fallbacks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.flow import FlowPair
from qrsc.fusion import AlignedFrames, Fusion, mean_fusion
from qrsc.pipeline import PRESETS, Corrected, Corrector, TimedFrame
from qrsc.pipeline import resolve as resolve_module
from qrsc.timing import Readout
from qrsc.warp import Warped

READOUT = Readout(0.8)


class Steady:
    """Flows of a picture that moves evenly; counts."""

    def __init__(self, step: float = 1.0) -> None:
        self.step, self.calls = step, 0

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        self.calls += 1
        flow = torch.full_like(first[:, :2], self.step)
        return FlowPair(flow, -flow)


class Counting:
    """A fusion that counts."""

    calls = 0

    def __call__(self, aligned: AlignedFrames) -> Warped:
        self.calls += 1
        return mean_fusion(aligned)


def clip(count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(count, 3, 24, 32, generator=torch.Generator().manual_seed(0), dtype=dtype)


# --- flow and fusion by clip ---


def test_flow_and_fusion_are_chosen_for_each_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    flows = {"first": Steady(1.0), "second": Steady(2.0)}
    fusions = {"mean": Counting(), "coherent": Counting()}
    loaded: list[str] = []
    where = {"flow": "first"}  # what the device of the next clip asks for

    def load_flow(name: str) -> Steady:
        loaded.append(name)
        return flows[name]

    def load_fusion(name: str) -> Counting:
        loaded.append(name)
        return fusions[name]

    monkeypatch.setattr(resolve_module, "default_flow", lambda device: where["flow"])
    monkeypatch.setattr(resolve_module, "DEFAULT_FUSION", "mean")
    monkeypatch.setattr(resolve_module, "load_flow", load_flow)
    monkeypatch.setattr(resolve_module, "load_fusion", load_fusion)
    corrector = Corrector(READOUT, motion="linear")
    corrector(clip(3))
    where["flow"] = "second"
    monkeypatch.setattr(resolve_module, "DEFAULT_FUSION", "coherent")
    corrector(clip(4))
    assert [flow.calls for flow in flows.values()] == [2, 3]
    assert [fusion.calls for fusion in fusions.values()] == [3, 4]
    where["flow"] = "first"
    monkeypatch.setattr(resolve_module, "DEFAULT_FUSION", "mean")
    list(corrector.between(clip(3), 2))
    assert [flow.calls for flow in flows.values()] == [4, 3]
    assert sorted(loaded) == ["coherent", "first", "mean", "second"], "what was loaded once is kept"


def test_a_corrector_says_what_it_uses_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve_module, "DEFAULT_FUSION", "mean")
    corrector = Corrector(READOUT, flow="dis-fast")
    on_cpu, on_cuda = (corrector.resolved(device) for device in ("cpu", "cuda"))
    for found in (on_cpu, on_cuda):
        assert (found.flow_name, found.fusion_name, found.interpolation) == ("dis-fast", "mean", "bicubic")
    assert on_cuda.reasons == {
        "flow": "asked for",
        "fusion": "the default",
        "interpolation": "what the fusion was made for",
    }
    assert repr(on_cpu).startswith("Resolved(flow dis-fast (asked for), fusion mean (the default), ")
    fast = Corrector(READOUT, preset="fast", fusion=Counting()).resolved("cpu")
    assert (fast.flow_name, fast.fusion_name) == ("dis", "Counting")
    assert (fast.reasons["flow"], fast.reasons["fusion"]) == ("the preset fast", "asked for")


# --- presets ---


def test_presets_set_what_is_not_given() -> None:
    fast = Corrector(READOUT, preset="fast")
    assert fast.settings.field_scale == 0.25
    assert (fast.resolved("cpu").flow_name, fast.resolved("cuda").fusion_name) == ("dis", "mean")
    assert Corrector(READOUT, preset="default").settings.field_scale == 0.5
    assert Corrector(READOUT).settings.field_scale == 1.0
    own = Corrector(READOUT, preset="fast", fusion="none", field_scale=0.75)
    assert (own.settings.field_scale, own.resolved("cpu").fusion_name, own.settings.fused) == (0.75, "none", 1)
    best = PRESETS["best"]
    assert (best.flow, best.fusion, best.field_scale) == ("raft-rs-full+dis", None, 1.0)
    assert {name: preset.name for name, preset in PRESETS.items()} == {name: name for name in PRESETS}
    with pytest.raises(ValueError, match="unknown preset 'quick'; choose one of fast, default, best"):
        Corrector(READOUT, preset="quick")  # type: ignore[arg-type]  # wrong on purpose


def test_a_preset_gives_the_frames_of_its_options() -> None:
    frames = clip(4)
    expected = Corrector(READOUT, fusion="mean", flow="dis", field_scale=0.25)(frames)
    assert torch.equal(Corrector(READOUT, preset="fast")(frames), expected)


# --- fallbacks ---


def fallbacks(count: int, **options: Any) -> list[str | bool]:
    corrector = Corrector(READOUT, flow=Steady(), fusion="mean", **options)
    return [result.fallback for result in corrector.stream(clip(count))]


def test_frames_say_that_their_motion_is_simpler_than_asked_for() -> None:
    linear, quadratic = "one neighbour: linear motion", "two neighbours: quadratic motion"
    assert fallbacks(4, motion="linear") == [False] * 4
    assert fallbacks(4, motion="quadratic") == [linear, False, False, linear]
    assert fallbacks(3, motion="cubic") == [linear, quadratic, linear]
    assert fallbacks(4, motion="cubic") == [linear, False, False, linear]
    along = f"{linear} along the camera path"
    assert fallbacks(3, motion="path") == [along, False, along]
    borrowed = "one neighbour: acceleration taken from that neighbour"
    assert fallbacks(4, motion="path") == [borrowed, False, False, borrowed]


def test_frames_that_cannot_be_corrected_say_so() -> None:
    with pytest.warns(UserWarning, match="one frame shows no motion"):
        [alone] = Corrector(READOUT, flow=Steady()).stream(clip(1))
    assert alone.unchanged
    assert alone.fallback == "no other frame in its shot: returned as it came in"
    asked_for = list(Corrector(READOUT, strength=0.0).stream(clip(2)))
    assert all(result.unchanged and result.fallback is False for result in asked_for)


def test_a_gap_without_a_camera_path_is_named() -> None:
    times = [0.0, 6.0, 12.0]
    frames = [TimedFrame(frame, time) for frame, time in zip(clip(3), times, strict=True)]
    results = list(Corrector(READOUT, flow=Steady(), fusion="mean").stream(frames))
    linear = "one neighbour: linear motion"
    assert [result.fallback for result in results] == [
        linear,
        "no camera path through this gap: quadratic motion",
        linear,
    ]


def test_a_frame_held_before_a_cut_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from qrsc.pipeline import stream as stream_module

    frames = clip(4)
    monkeypatch.setattr(stream_module, "scene_changes", lambda first, second, *rest: torch.equal(second[0], frames[2]))
    corrector = Corrector(READOUT, motion="linear", flow=Steady(), fusion="mean", find_cuts=True)
    instants = [result for _, result in corrector.between(frames, 2)]
    held = "the next frame is of another shot: the last frame of this one is held"
    assert [result.fallback for result in instants] == [False, False, False, held, False, False, False]
    assert instants[3].repeats


def test_results_print_figures_not_tensors() -> None:
    [first, *_] = Corrector(READOUT, tau=0.0, motion="quadratic", flow=Steady(3.0), fusion="none").stream(clip(3))
    assert repr(first).startswith("Corrected(32x24 float32 on cpu, correction up to ")
    assert "unsure " in repr(first)
    assert repr(first).endswith("fallback 'one neighbour: linear motion')")
    assert "tensor" not in repr(first)
    still = Corrected(torch.zeros(3, 2, 4), torch.ones(1, 2, 4).bool(), torch.zeros(2, 2, 4), unchanged=True)
    assert repr(still) == "Corrected(4x2 float32 on cpu, unchanged, fallback False)"


def test_denoising_is_a_fusion_of_its_own() -> None:
    readout = Readout(0.5)
    resolved = Corrector(readout, preset="fast", denoise=True).resolved("cpu")
    assert (resolved.flow_name, resolved.fusion_name, resolved.interpolation) == ("dis", "coherent", "bicubic")
    assert Corrector(readout, denoise=True, fusion="coherent").resolved("cpu").fusion_name == "coherent"
    for other in ("mean", mean_fusion):
        with pytest.raises(
            ValueError, match=r"denoise uses the fusion 'coherent', and 'mean.*' was asked for: leave out"
        ):
            Corrector(readout, denoise=True, fusion=other)


@pytest.mark.parametrize("fusion", ["none", "mean", mean_fusion])
def test_frames_are_sampled_sharply_unless_a_fusion_says_otherwise(fusion: str | Fusion) -> None:
    assert Corrector(Readout(0.5), flow="dis", fusion=fusion).resolved("cpu").interpolation == "bicubic"
