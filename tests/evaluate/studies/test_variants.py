"""Variants as methods, and scoring that is not done twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from qrsc.data.dataset import index_data
from qrsc.evaluate.methods import registry
from qrsc.evaluate.methods.registry import METHODS
from qrsc.evaluate.methods.results import frame_of
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.evaluate.studies import scoring
from qrsc.evaluate.studies.entries import Variant
from qrsc.evaluate.studies.scoring import Settings, score_variants
from qrsc.evaluate.studies.variants import identity, load_variant, method_of, require_own_weights, uncorrected
from qrsc.fusion import AlignedFrames
from qrsc.fusion.mean import plain_mean
from qrsc.media.image_folder import read_frame
from qrsc.pipeline import Corrector
from qrsc.timing import Readout
from qrsc.warp import Warped
from qrsc.weights import WeightsError

from .toys import save_tiny


@pytest.fixture
def clip(sim_set: Path) -> Tensor:
    return torch.stack([read_frame(sim_set / "0000" / "RS" / f"{k:05d}.png").frame for k in range(4)])


@pytest.mark.parametrize(("motion", "frames"), [("quadratic", 5), ("linear", 5), ("quadratic", 3)])
def test_an_untrained_light_network_is_the_mean(
    clip: Tensor, tmp_path: Path, motion: Literal["linear", "quadratic"], frames: int
) -> None:
    variant = Variant("mine", weights=save_tiny(tmp_path / "a.safetensors"), motion=motion, frames=frames)
    results = list(method_of(variant)(shared_flow("dis"))(clip, Readout(0.8), 0.3))
    expected = Corrector(
        Readout(0.8), tau=0.3, motion=motion, fusion=plain_mean, interpolation="bilinear", flow="dis", frames=frames
    )(clip)
    found = torch.stack([frame_of(result) for result in results])
    # At the edges of the frame, which the network extends, one pixel in a thousand differs, by 0.006 at most.
    torch.testing.assert_close(found, expected, atol=0.02, rtol=0)
    off = float((found - expected).abs().mean())
    assert off < 1e-4
    # Which is not the same for another motion: what the variant says does arrive.
    if motion == "linear":
        other = Corrector(
            Readout(0.8), tau=0.3, motion="quadratic", fusion=plain_mean, interpolation="bilinear", flow="dis"
        )(clip)
        assert (found - other).abs().mean() > 10 * off


@pytest.mark.parametrize(
    ("count", "seen"),
    [
        (1, ["0", "1", "2", "3"]),
        (2, ["0", "01", "12", "23"]),
        (3, ["01", "012", "123", "23"]),
    ],
)
def test_uncorrected_frames_reach_the_network_as_they_came(count: int, seen: list[str]) -> None:
    clip = torch.arange(4.0).reshape(4, 1, 1, 1).expand(4, 3, 5, 6)
    given: list[AlignedFrames] = []

    def fusion(aligned: AlignedFrames) -> Warped:
        given.append(aligned)
        return Warped(aligned.frames[:, aligned.centre], aligned.valid.any(1))

    results = list(uncorrected(clip, Readout(0.5), 0.25, fusion, count))
    assert ["".join(str(int(v)) for v in each.frames[0, :, 0, 0, 0]) for each in given] == seen
    assert torch.equal(torch.stack([result.frame for result in results]), clip)
    for each in given:
        assert not each.correction_fields.any()
        assert each.valid.all()
    # Row y was exposed at 0.5 y / 5; the instant is 0.25 after the start of the centre frame.
    last = given[-1]
    rows = 0.5 * torch.arange(5.0) / 5
    torch.testing.assert_close(last.time_distance[0, last.centre, 0, :, 0], (0.25 - rows).abs())
    if count > 1:
        torch.testing.assert_close(last.time_distance[0, last.centre - 1, 0, :, 0], 1.25 - rows)
    [alone] = uncorrected(clip[:1], Readout(0.5), 0.25, fusion, count)
    assert torch.equal(alone.frame, clip[0])


def test_network_only_uses_no_flow(clip: Tensor, tmp_path: Path) -> None:
    weights = save_tiny(tmp_path / "a.safetensors", "rsa2", motion="none")
    method = method_of(Variant("network", weights=weights, motion="none"))(shared_flow("truth"))
    results = list(method(clip, Readout(0.8), 0.4))  # the true flow of pictures from nowhere would be an error
    assert [frame_of(result).shape for result in results] == [clip[0].shape] * 4


def test_weights_must_be_those_of_the_row(tmp_path: Path) -> None:
    weights = save_tiny(tmp_path / "a.safetensors", "rsa2")
    require_own_weights(Variant("same", weights=weights, kind="rsa2", network={"taps": 3, "widths": [8, 8, 8, 8]}))
    require_own_weights(Variant("not there", weights=tmp_path / "b.safetensors", network={"taps": 7}))
    require_own_weights(Variant("a method", "qrs"))
    shipped = Variant("shipped", weights="rsa2-lite", kind="rsa2-lite", motion="path", network={"kernel": 3})
    require_own_weights(shipped)
    with pytest.raises(WeightsError, match=r"not the network that no field is said to be: it has fields = True, not F"):
        require_own_weights(Variant("no field", weights=weights, network={"fields": False}))
    with pytest.raises(WeightsError, match="kind = 'rsa2', not 'rsa2-lite'"):
        require_own_weights(Variant("lite", weights=weights, kind="rsa2-lite"))
    with pytest.raises(WeightsError, match="motion = 'quadratic', not 'linear'"):
        require_own_weights(Variant("linear", weights=weights, motion="linear"))
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(WeightsError, match="not a readable safetensors file"):
        require_own_weights(Variant("damaged", weights=weights))
    with pytest.raises(ValueError, match="is the method qrs, not a network"):
        load_variant(Variant("solver", "qrs"))


def test_figures_are_kept_by_sequence_and_variant(
    sim_set: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = {"mini": index_data(sim_set, "sim")}
    settings = Settings("dis", "middle", ("psnr",), record=tmp_path / "kept")
    weights = save_tiny(tmp_path / "a.safetensors")
    network = Variant("network", weights=weights)
    rows = [Variant("input", "rs"), network, Variant("gone", weights=tmp_path / "gone.safetensors")]
    asked: list[list[str]] = []

    def counted(plan: Plan, **more: Any) -> object:
        asked.append(list(plan.methods))
        return evaluate(plan, **more)

    monkeypatch.setattr(scoring, "evaluate", counted)
    done: list[int] = []
    first = score_variants(sets, rows, settings, progress=lambda each: done.append(each.done))
    assert asked == [sorted([identity(network), "rs"])] * 2
    assert done == list(range(1, 9))
    assert {score.method for score in first} == {"input", "network"}
    assert len(first) == 2 * 2 * 4
    assert identity(network) not in METHODS

    asked.clear()
    assert score_variants(sets, rows, settings) == first
    assert asked == []
    # Another row: that alone is computed. Two rows that are the same are computed once.
    more = [*rows, Variant("solver", "qrs"), Variant("solver again", "qrs")]
    second = score_variants(sets, more, settings)
    assert asked == [["qrs"]] * 2
    assert {score.method for score in second} == {"input", "network", "solver", "solver again"}
    # Other weights in the file: other figures.
    asked.clear()
    save_tiny(weights, "rsa2")
    score_variants(sets, rows, settings)
    assert asked == [[identity(network)]] * 2
    # A run that was cut off in the middle of a line.
    kept = tmp_path / "kept" / "sequences.jsonl"
    kept.write_text(kept.read_text()[:-20])
    asked.clear()
    assert len(score_variants(sets, rows, settings)) == len(first)
    assert len(asked) == 1
    # A method that is a network from the package: other weights, other figures.
    for sha256 in ("0123456789abcdef-first", "fedcba9876543210-second"):
        monkeypatch.setattr(registry, "shipped_weights", lambda: ("plain mean",))
        monkeypatch.setattr(registry, "card", lambda name, known=sha256: {"sha256": known})
        for expected in ([["multi-qrs"]] * 2, []):
            asked.clear()
            score_variants(sets, [Variant("fused", "multi-qrs")], settings)
            assert asked == expected


def test_nothing_but_missing_weights(sim_set: Path, tmp_path: Path) -> None:
    gone = Variant("gone", weights=tmp_path / "gone.safetensors")
    with pytest.raises(ValueError, match=r"of all variants the weights are missing \(.*gone\.safetensors\)"):
        score_variants({"mini": index_data(sim_set, "sim")}, [gone], Settings("dis", "middle", ("psnr",)))
