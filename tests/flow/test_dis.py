from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import qrsc.flow.dis
from qrsc.backend.threads import at_most_threads
from qrsc.flow import FLOWS, DisFlow, FlowPair, load_flow
from qrsc.flow import default_flow as DEFAULT_FLOW
from qrsc.flow.dis import luma_images, search


def texture(height: int, width: int, seed: int = 0) -> Tensor:
    """Noise with detail at several scales, `[1, 3, H, W]` in [0, 1]."""
    generator = torch.Generator().manual_seed(seed)
    total = torch.zeros(1, 3, height, width)
    for cell in (4, 9, 20):
        noise = torch.rand(1, 3, height // cell + 2, width // cell + 2, generator=generator)
        total += F.interpolate(noise, size=(height, width), mode="bicubic", align_corners=False) / 3
    return total.clamp(0.0, 1.0)


def shifted_pair(dx: int, dy: int, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Two views of one texture; what is at m in the first is at m + (dx, dy) in the second."""
    margin = max(abs(dx), abs(dy))
    whole = texture(height + 2 * margin, width + 2 * margin)

    def view(x: int, y: int) -> Tensor:
        return whole[..., margin + y : margin + y + height, margin + x : margin + x + width]

    return view(0, 0), view(-dx, -dy)


def assert_shift(flow: Tensor, dx: float, dy: float, tolerance: float = 0.1) -> None:
    inner = flow[..., flow.shape[-2] // 4 : -flow.shape[-2] // 4, flow.shape[-1] // 4 : -flow.shape[-1] // 4]
    error = (inner - torch.tensor([dx, dy]).reshape(2, 1, 1)).abs().flatten().median()
    assert float(error) < tolerance


@pytest.mark.parametrize("name", FLOWS)
def test_both_flows_of_a_shifted_texture(name: str) -> None:
    first, second = shifted_pair(3, -2, 96, 128)
    forward, backward = load_flow(name)(first, second)
    assert forward.shape == backward.shape == (1, 2, 96, 128)
    tolerance = 0.4 if name == "raft-rs" else 0.1  # the network works at half the resolution
    assert_shift(forward, 3, -2, tolerance)
    assert_shift(backward, -3, 2, tolerance)


def test_a_still_picture_does_not_flow() -> None:
    frame = texture(70, 90)
    forward, backward = DisFlow()(frame, frame)
    assert float(forward.abs().max()) < 0.01
    assert float(backward.abs().max()) < 0.01


def test_a_shift_of_a_fifth_of_the_width_is_found_from_the_dominant_shift(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = shifted_pair(52, 12, 192, 256)
    forward, backward = DisFlow()(first, second)
    assert_shift(forward, 52, 12, tolerance=0.5)
    assert_shift(backward, -52, -12, tolerance=0.5)
    monkeypatch.setattr(qrsc.flow.dis, "LARGE_SHIFT", float("inf"))
    with pytest.raises(AssertionError):
        assert_shift(DisFlow()(first, second).forward, 52, 12, tolerance=5.0)


def test_a_started_search_leaves_no_trace_in_the_next() -> None:
    far, near = shifted_pair(52, 3, 128, 256), shifted_pair(4, -2, 128, 256)
    together = DisFlow()(*(torch.cat(frames) for frames in zip(far, near, strict=True)))
    alone = DisFlow()(*near)
    assert torch.equal(together.forward[1:], alone.forward)
    assert torch.equal(together.backward[1:], alone.backward)


def test_both_ways_at_once_are_what_one_after_the_other_gives() -> None:
    first, second = shifted_pair(3, -2, 72, 96)
    a, b = (luma_images(frame)[0] for frame in (first, second))
    with at_most_threads(1):
        forward, backward = DisFlow()(first, second)
        there, back = search("medium", a, b), search("medium", b, a)
    assert torch.equal(forward[0], torch.from_numpy(there).permute(2, 0, 1))
    assert torch.equal(backward[0], torch.from_numpy(back).permute(2, 0, 1))


def test_an_error_of_the_way_back_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = qrsc.flow.dis.search
    calls = []

    def second_fails(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return whole(*given)

    monkeypatch.setattr(qrsc.flow.dis, "search", second_fails)
    with at_most_threads(1), pytest.raises(RuntimeError, match="out of memory"):
        DisFlow()(*shifted_pair(3, -2, 72, 96))


def test_each_pair_of_a_batch_is_its_own() -> None:
    right, down = shifted_pair(3, 0, 72, 80), shifted_pair(0, 2, 72, 80)
    both = DisFlow()(torch.cat([right[0], down[0]]), torch.cat([right[1], down[1]]))
    assert_shift(both.forward[:1], 3, 0)
    assert_shift(both.forward[1:], 0, 2)
    assert torch.equal(both.forward[:1], DisFlow()(*right).forward)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (8, 8), (63, 64), (65, 20)])
def test_frames_smaller_than_the_search_window(size: tuple[int, int]) -> None:
    first, second = shifted_pair(1, 0, *size)
    flows = DisFlow("ultrafast")(first, second)
    for flow in flows:
        assert flow.shape == (1, 2, *size)
        assert bool(torch.isfinite(flow).all())


def test_the_shift_of_a_small_frame_is_found() -> None:
    first, second = shifted_pair(2, 1, 32, 32)
    assert_shift(DisFlow()(first, second).forward, 2, 1, tolerance=0.3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_flows_have_the_frames_dtype(dtype: torch.dtype) -> None:
    frame = texture(64, 64).to(dtype)
    flows = DisFlow("ultrafast")(frame, frame)
    assert isinstance(flows, FlowPair)
    assert flows.forward.dtype == flows.backward.dtype == dtype


def test_a_blank_picture_has_a_finite_flow() -> None:
    blank = torch.full((1, 3, 64, 64), 0.5)
    assert bool(torch.isfinite(DisFlow()(blank, blank).forward).all())


@pytest.mark.parametrize(
    ("first", "second"),
    [((1, 3, 64, 64), (1, 3, 64, 65)), ((3, 64, 64), (3, 64, 64)), ((1, 1, 64, 64), (1, 1, 64, 64))],
)
def test_frames_of_another_shape_are_refused(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"two batches of frames \[B, 3, H, W\] of one size; got"):
        DisFlow()(torch.zeros(first), torch.zeros(second))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown flow 'raft'; choose one of dis, dis-fast, dis-ultrafast"):
        load_flow("raft")
    with pytest.raises(ValueError, match="choose one of ultrafast, fast, medium"):
        DisFlow("slow")  # type: ignore[arg-type]  # wrong on purpose


def test_the_flow_that_is_used_where_none_is_asked_for() -> None:
    # Imported before the test session replaces it in the package by one that returns `dis`.
    assert DEFAULT_FLOW(torch.device("cpu")) == "dis-or-raft-rs"
    assert DEFAULT_FLOW(torch.device("cuda")) == "raft-rs"
    assert {"raft-rs", "dis-or-raft-rs"} <= set(FLOWS)
