"""Cuts, repeated frames, uneven times, partial corrections: what footage does to the corrector."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.pipeline import Border, Corrected, Corrector, TimedFrame
from qrsc.pipeline.scenes import repeats
from qrsc.timing import SCANS

from ..videos import READOUT, seen, texture


def decibels(frame: Tensor, truth: Tensor, margin: int = 12) -> float:
    inner = (..., slice(margin, -margin), slice(margin, -margin))
    return -10.0 * math.log10(float((frame[inner] - truth[inner]).square().mean()))


def footage(**options: Any) -> Corrector:
    return Corrector(READOUT, find_cuts=True, find_repeats=True, **options)


# --- cuts ---


@pytest.mark.parametrize("fusion", ["none", "mean"])
def test_a_cut_is_found_and_not_bridged(fusion: Any) -> None:
    # An even number: pairs of frames at even and odd times share a path, in the second shot as if it came alone.
    first, second = ([seen(texture(seed), float(k)) for k in range(6)] for seed in (0, 9))
    results = list(footage(fusion=fusion).stream([*first, *second]))
    assert [k for k, result in enumerate(results) if result.after_cut] == [6]
    alone = [*footage(fusion=fusion).stream(first), *footage(fusion=fusion).stream(second)]
    for result, expected in zip(results, alone, strict=True):
        assert torch.equal(result.frame, expected.frame)
    for k, result in enumerate(results):
        truth = seen(texture(0 if k < 6 else 9), k % 6 + 0.4, 0.0)
        assert decibels(result.frame, truth) > decibels([*first, *second][k], truth) + 6.0


def test_a_frame_alone_between_two_cuts_is_left_as_it_came() -> None:
    clip = [*(seen(texture(0), float(k)) for k in range(3)), seen(texture(5), 0.0)]
    clip += [seen(texture(9), float(k)) for k in range(3)]
    results = list(footage().stream(clip))
    assert [result.after_cut for result in results] == [False, False, False, True, True, False, False]
    assert [result.unchanged for result in results] == [False, False, False, True, False, False, False]
    assert torch.equal(results[3].frame, clip[3])


def test_fast_motion_and_flicker_are_no_cuts() -> None:
    picture = texture(0, width=400)
    fast = [seen(picture, 2.0 * k) for k in range(5)]
    darker = [frame * (1.0 - 0.06 * (k % 2)) for k, frame in enumerate(fast)]
    for clip in (fast, darker):
        assert not any(result.after_cut for result in footage().stream(clip))


# --- repeats and uneven times ---


def test_repeated_frames_are_recognised_and_do_not_disturb_the_others() -> None:
    picture = texture(0)
    frames = {k: seen(picture, float(k)) for k in (0, 1, 3, 4, 5)}
    shown = [0, 1, 1, 3, 4, 5]  # frame 2 was missed by the camera, and frame 1 shown again in its place
    noise = 0.5 / 255 * torch.rand(3, 72, 96, generator=torch.Generator().manual_seed(1))
    clip = [frames[k] + (noise if position == 2 else 0.0) for position, k in enumerate(shown)]
    results = list(footage().stream(clip))
    assert [result.repeats for result in results] == [False, False, True, False, False, False]
    assert torch.equal(results[2].frame, results[1].frame)
    blind = list(Corrector(READOUT).stream(clip))
    for k in (1, 3):
        truth = seen(picture, k + 0.4, 0.0)
        assert decibels(results[k].frame, truth) > 32.0  # seen: 38.4 and 38.9; blind to the repeat 19.6 and 22.8
        assert decibels(results[k].frame, truth) > decibels(blind[k].frame, truth) + 8.0


def test_a_still_clip_does_not_make_outputs_wait_for_ever() -> None:
    frame = texture(0, width=96)
    taken = 0

    def clip() -> Iterator[Tensor]:
        nonlocal taken
        for _ in range(60):
            taken += 1
            yield frame

    for count, result in enumerate(footage(fusion="none").stream(clip())):
        assert taken <= count + 40
        torch.testing.assert_close(result.frame, frame, rtol=0.0, atol=1e-5)
    assert count == 59


def test_small_objects_that_move_are_no_repeats() -> None:
    still = texture(0, width=96)[None]
    moved = still.clone()
    moved[..., 30:36, 40:46] += 0.1
    assert repeats(still, still + 0.5 / 255)
    assert not repeats(still, moved)


def test_uneven_times_are_used() -> None:
    picture = texture(0)
    times = [0.0, 1.0, 2.0, 4.0, 4.9, 6.0]
    clip = [seen(picture, t) for t in times]
    told = list(Corrector(READOUT, motion="cubic").stream(TimedFrame(f, t) for f, t in zip(clip, times, strict=True)))
    untold = list(Corrector(READOUT).stream(clip))
    for k in (2, 3, 4):
        truth = seen(picture, times[k] + 0.4, 0.0)
        assert decibels(told[k].frame, truth) > 32.0
        assert decibels(told[k].frame, truth) > decibels(untold[k].frame, truth) + 1.0
    with pytest.raises(ValueError, match="times of frames must grow; frame 1 is at"):
        list(Corrector(READOUT).stream([TimedFrame(clip[0], 1.0), TimedFrame(clip[1], 1.0)]))


# --- part of the way ---


@pytest.mark.parametrize("fusion", ["none", "mean"])
def test_strength_shortens_the_readout(fusion: Any) -> None:
    picture = texture(0)
    clip = [seen(picture, float(k)) for k in range(5)]
    half = list(Corrector(READOUT, strength=0.5, fusion=fusion).stream(clip))[2]
    # Rows at (1 - s) r + s tau: a camera with half the readout time that starts a quarter of it later.
    truth = seen(picture, 2.0 + 0.5 * 0.4, 0.5 * READOUT.gamma)
    assert decibels(half.frame, truth) > 36.0
    assert decibels(half.frame, truth) > decibels(clip[2], truth) + 10.0
    none = list(Corrector(READOUT, strength=0.0, fusion=fusion).stream(clip))
    assert all(result.unchanged and torch.equal(result.frame, frame) for result, frame in zip(none, clip, strict=True))


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize(("scale", "field_scale"), [(1.0, 0.5), (1.0, 0.25), (0.5, 1.0)])
def test_fields_at_a_reduced_size_correct_as_well(scan: Any, scale: float, field_scale: float) -> None:
    quarter_turns = {"top-down": 0, "bottom-up": 2, "left-right": 1, "right-left": 3}[scan]
    clip = [torch.rot90(seen(texture(0), float(k)), quarter_turns, (1, 2)) for k in range(5)]
    readout = READOUT.rotated(quarter_turns)
    assert readout.scan == scan
    truth = torch.rot90(seen(texture(0), 2.4, 0.0), quarter_turns, (1, 2))
    result = list(Corrector(readout, scale=scale, field_scale=field_scale, fusion="none").stream(clip))[2]
    full = list(Corrector(readout, fusion="none").stream(clip))[2]
    assert result.frame.shape == clip[0].shape
    height, width = clip[0].shape[-2:]
    factor = min(scale, field_scale)
    assert result.correction_field.shape == (2, round(height * factor), round(width * factor))
    # At full size it has 50.6 dB on this smooth texture; flow at half size costs 1.7 to 3.0 of them.
    assert decibels(result.frame, truth) > decibels(full.frame, truth) - (1.5 if scale == 1.0 else 3.5)
    longest = float(full.correction_field.abs().max())
    assert float(result.correction_field.abs().max()) == pytest.approx(longest, rel=0.3)  # in pixels of the frame


def test_borders_are_filled_or_repeated() -> None:
    clip = [seen(texture(0), float(k)) for k in range(5)]
    borders: tuple[Border, ...] = ("fill", "repeat")
    filled, repeated = (list(Corrector(READOUT, tau=1.6, border=border).stream(clip))[2] for border in borders)
    truth = seen(texture(0), 3.6, 0.0)
    edge = (..., slice(20, 60), slice(-4, None))
    assert filled.valid[edge].float().mean() > repeated.valid[edge].float().mean() + 0.3
    worse, better = ((frame[edge] - truth[edge]).abs().mean() for frame in (repeated.frame, filled.frame))
    assert worse > 2.0 * better
    assert repeated.filled == filled.filled > 0.02


def test_regions_without_any_support_fade_to_the_input() -> None:
    class Contradicting:
        """Flows that agree on the left and contradict each other on the right."""

        def __call__(self, first: Tensor, second: Tensor, /) -> Any:
            from qrsc.flow import FlowPair

            flow = torch.zeros_like(first[:, :2])
            flow[:, 0] = 8.0
            back = -flow
            back[..., 48:] = 30.0
            flow[..., 48:] = 30.0
            return FlowPair(flow, back)

    clip = [texture(seed, width=96) for seed in range(3)]
    faded, kept = (
        list(Corrector(READOUT, flow=Contradicting(), fusion="none", unsure=unsure).stream(clip))[1]
        for unsure in ("input", "linear")
    )
    torch.testing.assert_close(faded.frame[..., 80:], clip[1][..., 80:], rtol=0.0, atol=0.01)
    assert (kept.frame[..., 80:] - clip[1][..., 80:]).abs().max() > 0.1
    torch.testing.assert_close(faded.frame[..., 12:30], kept.frame[..., 12:30], rtol=0.0, atol=0.01)
    assert 0.3 < faded.unsure < 0.7


# --- between frames ---


def test_instants_between_frames_are_those_of_the_motion() -> None:
    picture = texture(0)
    clip = [seen(picture, float(k)) for k in range(6)]
    instants = list(Corrector(READOUT).between(clip, 4))
    assert [time for time, _ in instants] == [k / 4 for k in range(21)]
    figures = [decibels(result.frame, seen(picture, time + 0.4, 0.0)) for time, result in instants]
    assert min(figures[4:17]) > 34.0  # seen: 37.5; the nearest input frame gives 18 to 30
    alone = [time for time, _ in Corrector(READOUT, fusion="none").between(clip, 2)]
    assert alone == [k / 2 for k in range(11)]


def test_between_frames_holds_across_cuts_and_runs_through_repeats() -> None:
    picture = texture(0)
    clip = [seen(picture, float(k)) for k in (0, 1, 1, 3)] + [seen(texture(9), float(k)) for k in range(2)]
    instants = list(footage().between(clip, 2))
    assert [time for time, _ in instants] == [k / 2 for k in range(11)]
    truth = seen(picture, 2.4, 0.0)
    assert decibels(instants[4][1].frame, truth) > 30.0, "the repeated frame stands for one that was missed"
    held, next_one = instants[6][1].frame, instants[7][1]
    assert torch.equal(next_one.frame, held)
    assert next_one.repeats
    assert instants[8][1].after_cut
    with pytest.raises(ValueError, match="one instant per frame interval or more"):
        next(Corrector(READOUT).between(clip, 0))


# --- threads ---


def test_flows_found_ahead_change_nothing() -> None:
    clip = [seen(texture(0), float(k)) for k in range(8)]
    plain, threaded = (list(footage(flows_ahead=depth, motion="cubic").stream(clip)) for depth in (0, 2))
    assert all(torch.equal(a.frame, b.frame) for a, b in zip(plain, threaded, strict=True))


def test_results_say_what_they_are() -> None:
    plain = Corrected(torch.zeros(3, 2, 2), torch.ones(1, 2, 2, dtype=torch.bool), torch.zeros(2, 2, 2))
    assert (plain.unchanged, plain.repeats, plain.after_cut, plain.unsure, plain.filled) == (False, False, False, 0, 0)
