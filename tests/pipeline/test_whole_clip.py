"""A whole clip in one call, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch

from qrsc.flow import FlowPair
from qrsc.pipeline import MOTION_ORDERS, Corrected, Corrector, MotionName, TimedFrame, correct
from qrsc.timing import Readout

from .moving_texture import KnownFlows, MovingTexture, Still, decibels, rand

MOTIONS: tuple[MotionName, ...] = get_args(MotionName)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
def test_arrays_keep_kind_shape_and_dtype(dtype: Any) -> None:
    scene = MovingTexture(Readout(0.9))
    clip = scene.clip(3)
    scale = float(np.iinfo(dtype).max) if np.issubdtype(dtype, np.integer) else 1.0
    array = (clip.numpy().transpose(0, 2, 3, 1) * scale).round(3 if scale == 1.0 else 0).astype(dtype)
    before = array.copy()
    exact = torch.float64 if dtype == np.float64 else torch.float32
    flows = [FlowPair(pair.forward.to(exact), pair.backward.to(exact)) for pair in scene.flows(3).pairs]
    result = correct(array, 0.9, flow=KnownFlows(flows))
    assert isinstance(result, np.ndarray)
    assert result.shape == array.shape
    assert result.dtype == dtype
    np.testing.assert_array_equal(array, before)
    # Of the same values as plain numbers: what is left is the rounding of the result.
    values = torch.from_numpy(array.astype(np.float64) / scale).permute(0, 3, 1, 2).to(exact)
    expected = correct(values, Readout(0.9), flow=KnownFlows(flows)).numpy().transpose(0, 2, 3, 1)
    step = {np.uint8: 1 / 255, np.uint16: 1 / 65535}.get(dtype, 1e-3)
    assert float(np.abs(result / scale - expected).max()) < 0.5 * step + 1e-5


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_whole_numbers_survive_the_way_there_and_back(dtype: Any) -> None:
    array = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (3, 8, 8, 3), dtype=dtype, endpoint=True)
    np.testing.assert_array_equal(correct(array, 0.0), array)


def test_arrays_are_corrected_from_the_pixels_alone() -> None:
    scene = MovingTexture(Readout(0.9), size=(72, 96), acceleration=(1.0, -0.5))
    clip, truth = scene.clip(5).float(), scene.truth(5, 0.45).float()
    corrected = correct(clip, 0.9)
    assert (
        decibels(corrected[2], truth[2], 16) > decibels(clip[2], truth[2], 16) + 15.0
    )  # seen: 29.5 before, 53.1 after


# --- errors ---


def test_wrong_options_list_the_choices() -> None:
    readout = Readout(0.5)
    choices: list[tuple[dict[str, Any], str]] = [
        ({"motion": "sextic"}, "choose one of linear, quadratic, cubic"),
        ({"fusion": "median"}, "choose one of none, mean"),
        ({"warp": "inverse"}, "choose one of invert, splat, negate"),
        ({"interpolation": "nearest"}, "choose one of bilinear, bicubic"),
        ({"flow": "raft"}, "choose one of dis"),
        ({"frames": 6}, "frames must be one of 3, 4, 5; got 6"),
    ]
    for options, message in choices:
        with pytest.raises(ValueError, match=message):
            Corrector(readout, **options)
    with pytest.raises(TypeError, match="vigour"):
        correct(rand(2, 3, 4, 4), 0.5, vigour=1.0)
    with pytest.raises(ValueError, match="gamma must be a number from 0 to 1"):
        correct(rand(2, 3, 4, 4), 45.0)
    assert tuple(MOTION_ORDERS) == MOTIONS


@pytest.mark.parametrize(
    ("clip", "message"),
    [
        (torch.zeros(3, 4, 4), r"\[T, 3, H, W\] of one frame or more; got \(3, 4, 4\)"),
        (torch.zeros(0, 3, 4, 4), r"one frame or more; got \(0, 3, 4, 4\)"),
        (torch.zeros(2, 4, 4, 3), r"float tensors \[3, H, W\] in \[0, 1\]; frame 0 is \(4, 4, 3\)"),
        (torch.zeros(2, 3, 4, 4, dtype=torch.uint8), r"frame 0 is \(3, 4, 4\) of torch.uint8"),
        (np.zeros((4, 4, 3)), r"an array \[T, H, W, 3\]; got \(4, 4, 3\)"),
        (np.zeros((2, 3, 4, 4)), r"an array \[T, H, W, 3\]; got \(2, 3, 4, 4\)"),
        (np.zeros((2, 4, 4, 3), dtype=np.int32), "uint8, uint16 or floats in .* got int32"),
    ],
)
def test_clips_of_another_shape_or_kind_are_refused(clip: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        correct(clip, 0.5)


def test_a_frame_of_another_size_is_named() -> None:
    frames = [rand(3, 6, 6), rand(3, 6, 6), rand(3, 6, 8)]
    results: list[Corrected] = []
    with pytest.raises(ValueError, match=r"one size; frame 2 is \(6, 8\) after \(6, 6\)"):
        results.extend(Corrector(Readout(0.5), flow=Still()).stream(frames))


# --- what is handed in ---


def test_lists_and_generators_come_back_as_lists_of_the_same_kind() -> None:
    clip = rand(3, 3, 64, 72)
    arrays = [(frame.numpy().transpose(1, 2, 0) * 255).round().astype(np.uint8) for frame in clip]
    whole = correct(np.stack(arrays), 0.5)
    for given in (arrays, iter(arrays)):
        listed = correct(given, 0.5)
        assert [frame.dtype for frame in listed] == [np.uint8] * 3
        np.testing.assert_array_equal(np.stack([np.asarray(frame) for frame in listed]), whole)
    tensors = correct(list(clip), 0.5)
    assert torch.equal(torch.stack([torch.as_tensor(frame) for frame in tensors]), correct(clip, 0.5))


def test_a_stream_takes_arrays_with_and_without_times() -> None:
    clip = rand(3, 3, 64, 72)
    arrays = [(frame.numpy().transpose(1, 2, 0) * 65535).round().astype(np.uint16) for frame in clip]
    corrector = Corrector(Readout(0.5))
    plain = [result.frame for result in corrector.stream(arrays)]
    timed = [result.frame for result in corrector.stream(TimedFrame(a, float(k)) for k, a in enumerate(arrays))]
    assert all(torch.equal(*pair) for pair in zip(plain, timed, strict=True))
    assert plain[0].shape == (3, 64, 72)


def test_files_and_strange_things_are_refused_with_advice() -> None:
    with pytest.raises(TypeError, match=r"clip.mp4 use qrsc.correct_video"):
        correct("clip.mp4", 0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="frame 0 is a int"):
        correct([1, 2], 0.5)  # type: ignore[list-item]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_pixels_that_are_not_finite_are_filled_and_named(value: float, gamma: float) -> None:
    scene = MovingTexture(Readout(0.5), size=(72, 96))
    clip = scene.clip(3).float()
    spoilt = clip.clone()
    spoilt[1, 0, 30, 40] = value
    whole, mended = (list(Corrector(Readout(gamma)).stream(each)) for each in (clip, spoilt))
    assert all(bool(torch.isfinite(result.frame).all()) for result in mended)
    assert float((mended[1].frame - whole[1].frame).abs().max()) < 0.05  # it is a smooth picture
    assert "not finite" in str(mended[1].fallback)
    assert "not finite" not in str(mended[0].fallback)


def test_a_frame_without_a_finite_pixel_is_refused() -> None:
    with pytest.raises(ValueError, match="no pixel of frame 1 is finite"):
        correct([rand(3, 64, 64), torch.full((3, 64, 64), torch.nan)], 0.5)


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_floats_on_another_scale_are_refused_with_their_range(gamma: float) -> None:
    clip = np.full((2, 64, 64, 3), 200.0, np.float32)
    with pytest.raises(ValueError, match=r"frame 0 goes from 200 to 200\. Divide it by .* 255"):
        correct(clip, gamma)
    with pytest.raises(ValueError, match=r"frame 0 goes from -50 to"):
        correct(torch.cat([torch.full((1, 3, 8, 8), -50.0), rand(1, 3, 8, 8)]), gamma)
