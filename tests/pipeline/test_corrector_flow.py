"""Where the Corrector's flow and fusion come from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.flow import ConfidentFlows, FlowPair
from qrsc.fusion import AlignedFrames, mean_fusion
from qrsc.fusion.lite.network import LiteNetwork
from qrsc.fusion.networks import NetworkFusion
from qrsc.motion import along_path as paths_module
from qrsc.pipeline import Corrector, MotionName
from qrsc.pipeline import align as align_module
from qrsc.pipeline import resolve as resolve_module
from qrsc.timing import Readout
from qrsc.warp import Warped


class Told:
    """An estimator of no motion that says how sure it is, and was asked about which pair."""

    def __init__(self, confidence: float) -> None:
        self.confidence = confidence

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        flow, sure = torch.zeros_like(first[:, :2]), torch.full_like(first[:, :1], self.confidence)
        return ConfidentFlows(FlowPair(flow + 1.0, flow + 1.0), sure, sure)


class Numbered(Told):
    """Flows of a clip, by the number of the pair."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.asked: list[int] = []

    def pair(self, number: int, first: Tensor, second: Tensor) -> FlowPair:
        self.asked.append(number)
        return self(first, second)


# Along a path the first frame looks at the motion of the two after it.
@pytest.mark.parametrize(
    ("motion", "solves", "solver", "times"),
    [("path", paths_module, "fit_displacements", 6), ("quadratic", align_module, "fit_trajectory", 4)],
)
def test_an_estimator_s_own_confidence_reaches_the_solver(
    motion: MotionName, solves: ModuleType, solver: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[Tensor]] = []
    solve = getattr(solves, solver)

    def watched(*given: Any, **options: Any) -> Any:
        confidences = options["confidences"]
        seen.append(list(confidences.values() if isinstance(confidences, dict) else confidences))
        return solve(*given, **options)

    monkeypatch.setattr(solves, solver, watched)
    clip = torch.rand(4, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    # Both flows point the same way: by their agreement they would hardly be trusted.
    Corrector(Readout(0.5), flow=Told(0.75), fusion="none", motion=motion)(clip)
    assert len(seen) == times
    for confidences in seen:
        for confidence in confidences:
            torch.testing.assert_close(confidence, torch.full_like(confidence, 0.75))


def test_flows_of_a_clip_are_asked_for_by_number() -> None:
    clip = torch.rand(5, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    clip[2] = clip[1]  # a repeat: its flow to the next frame is that of the pair that the repeat begins
    flow = Numbered()
    Corrector(Readout(0.5), flow=flow, find_repeats=True)(clip)
    assert flow.asked == [0, 2, 3]


def test_no_flow_means_what_suits_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def chosen(device: torch.device) -> str:
        asked.append(device)
        return "dis-ultrafast"

    monkeypatch.setattr(resolve_module, "default_flow", chosen)
    clip = torch.rand(3, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    Corrector(Readout(0.5))(clip)
    assert asked == [clip.device]


def test_a_fusion_may_be_a_function() -> None:
    clip = torch.rand(5, 3, 24, 32, generator=torch.Generator().manual_seed(0))
    seen = []

    def own(aligned: AlignedFrames) -> Warped:
        seen.append(aligned.frames.shape[1])
        return mean_fusion(aligned)

    expected = Corrector(Readout(0.5), flow=Told(1.0), fusion="mean")(clip)
    torch.testing.assert_close(Corrector(Readout(0.5), flow=Told(1.0), fusion=own)(clip), expected)
    assert seen == [2, 3, 3, 3, 2]


def test_frames_are_sampled_as_in_the_training_of_their_fusion() -> None:
    class Sharp:
        interpolation = "bicubic"

        def __call__(self, aligned: AlignedFrames) -> Warped:
            return mean_fusion(aligned)

    def chosen(**options: Any) -> str:
        return Corrector(Readout(0.5), flow=Told(1.0), **options).resolved("cpu").interpolation

    assert [chosen(fusion=Sharp(), interpolation=asked) for asked in (None, "bilinear")] == ["bicubic", "bilinear"]
    assert chosen(fusion="mean") == "bicubic"
    assert chosen(fusion="coherent") == "bicubic"
    assert chosen(fusion="coherent", frames=3) == "bilinear", "each frame is alone"


def test_without_a_name_the_fusion_is_the_small_network() -> None:
    corrector = Corrector(Readout(0.5), flow=Told(1.0))
    corrector(torch.rand(3, 3, 48, 64, generator=torch.Generator().manual_seed(0)))
    resolved = corrector.resolved("cpu")
    assert isinstance(resolved.fusion, NetworkFusion)
    assert isinstance(resolved.fusion.network, LiteNetwork)
    assert resolved.interpolation == "bicubic"
