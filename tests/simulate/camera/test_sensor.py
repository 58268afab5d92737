"""Sensor effects, each on its own."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.simulate.camera.compression import compress
from qrsc.simulate.camera.prediction import predicted
from qrsc.simulate.camera.sensor import DISPLAY_GAMMA, EFFECTS, Sensor, apply_sensor, sample_sensor
from qrsc.simulate.paint.textures import noise


def _frames(level: float | None = None) -> Tensor:
    """`[2, 3, 3, 40, 56]`: grey, or a texture."""
    if level is not None:
        return torch.full((2, 3, 3, 40, 56), level)
    picture = noise(40, 56, torch.Generator().manual_seed(0), dark=(0.1, 0.2, 0.1), light=(0.7, 0.8, 0.6))
    return picture.expand(2, 3, 3, 40, 56).contiguous()


def test_no_effects_change_nothing() -> None:
    frames = _frames()
    sensor = sample_sensor(2, 3, torch.Generator().manual_seed(0), effects=())
    assert torch.allclose(apply_sensor(frames, sensor, torch.Generator()), frames, atol=1e-5)


@pytest.mark.parametrize("effect", EFFECTS)
def test_each_effect_can_be_switched_on_alone(effect: str) -> None:
    frames = _frames()
    sensor = sample_sensor(2, 3, torch.Generator().manual_seed(0), effects=(effect,))
    changed = apply_sensor(frames, sensor, torch.Generator().manual_seed(1))
    difference = (changed - frames).abs().amax()
    assert 1e-3 < difference < 0.5
    assert float(changed.min()) >= 0.0
    assert float(changed.max()) <= 1.0


def test_leaving_an_effect_out_does_not_change_the_others() -> None:
    both = sample_sensor(2, 3, torch.Generator().manual_seed(0))
    one = sample_sensor(2, 3, torch.Generator().manual_seed(0), effects=("blur",))
    assert both.blur is not None
    assert one.blur is not None
    assert torch.equal(both.blur, one.blur)
    assert one.quality is None


def test_noise_has_the_variance_asked_for() -> None:
    sensor = Sensor(shot_noise=torch.tensor([1e-3, 0.0]), read_noise=torch.tensor([0.0, 0.02]))
    level = 0.5
    noisy = apply_sensor(_frames(level), sensor, torch.Generator().manual_seed(0)).double() ** 2.2
    light = level**2.2
    assert float(noisy[0].var()) == pytest.approx(1e-3 * light, rel=0.05)
    assert float(noisy[1].std()) == pytest.approx(0.02, rel=0.05)


def test_exposure_and_vignetting_act_on_light() -> None:
    sensor = Sensor(exposure=torch.tensor([[1.0, 2.0, 0.5]] * 2), vignetting=torch.tensor([0.4, 0.0]))
    light = apply_sensor(_frames(0.5), sensor, torch.Generator()) ** 2.2 / 0.5**2.2
    assert torch.allclose(light[1].mean((1, 2, 3)), torch.tensor([1.0, 2.0, 0.5]), atol=1e-4)
    assert float(light[0, 0, 0, 0, 0]) == pytest.approx(0.6, abs=1e-4)


def test_the_same_seed_gives_the_same_noise() -> None:
    sensor = sample_sensor(2, 3, torch.Generator().manual_seed(0))
    first, again, other = (apply_sensor(_frames(), sensor, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_truth_keeps_the_colours_and_drops_the_damage() -> None:
    sensor = sample_sensor(2, 3, torch.Generator().manual_seed(0)).at_frames([1])
    clean = sensor.without_damage()
    assert clean.exposure is not None
    assert clean.exposure.shape == (2, 1)
    assert clean.quality is None
    frames = _frames(0.4)[:, 1:2]
    damaged, truth = (apply_sensor(frames, each, torch.Generator().manual_seed(0)) for each in (sensor, clean))
    assert torch.allclose(damaged.mean((1, 3, 4)), truth.mean((1, 3, 4)), atol=0.01)


def test_compression_loses_more_at_lower_quality() -> None:
    picture = _frames()[0, :1]
    errors = [float((compress(picture, torch.tensor([q])) - picture).square().mean()) for q in (100.0, 75.0, 20.0)]
    assert errors[0] < errors[1] < errors[2] < 0.01
    grey = torch.full((1, 3, 30, 34), 0.5)
    assert torch.allclose(compress(grey, torch.tensor([30.0])), grey, atol=0.02)


def _moving(shift: int, frames: int = 3) -> Tensor:
    """A clip `[T, 3, 64, 96]` of a texture that moves to the left by whole pixels."""
    noise = torch.rand(1, 3, 16, 40, generator=torch.Generator().manual_seed(4))
    whole = F.interpolate(noise, size=(64, 160), mode="bicubic", align_corners=False).clamp(0.0, 1.0)[0]
    return torch.stack([whole[:, :, shift * k : shift * k + 96] for k in range(frames)])


@pytest.mark.parametrize("shift", [0, 3, 18])
def test_motion_is_predicted(shift: int) -> None:
    clip = _moving(shift, 2)
    guess = predicted(clip[1:], clip[:1])
    # The last columns were not visible in the previous frame.
    assert torch.equal(guess[..., :64], clip[1:, ..., :64])


def test_video_compression_drops_what_hardly_changes() -> None:
    clip = _moving(0, 4)
    clip = (clip + 0.01 * torch.randn(clip.shape, generator=torch.Generator().manual_seed(1))).clamp(0.0, 1.0)[None]
    sensor = Sensor(quality=torch.tensor([40.0]), video=torch.tensor([1.0]))
    video = apply_sensor(clip, sensor, torch.Generator())
    pictures = apply_sensor(clip, Sensor(quality=torch.tensor([40.0])), torch.Generator())
    flicker = [float((each[:, 1:] - each[:, :-1]).square().mean()) for each in (video, pictures)]
    assert flicker[0] < 0.3 * flicker[1]
    assert float((video - clip).square().mean()) < 0.01
    assert 0.0 <= float(video.min()) <= float(video.max()) <= 1.0
    # Frame by frame, as clips are written, gives the same.
    single, before = [], None
    for step in range(4):
        before = apply_sensor(clip[:, step : step + 1], sensor, torch.Generator(), before)[:, 0]
        single.append(before)
    assert torch.equal(torch.stack(single, 1), video)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown sensor effects"):
        sample_sensor(1, 1, torch.Generator(), effects=("dust",))
    sensor = sample_sensor(2, 2, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="at_frames"):
        apply_sensor(_frames(), sensor, torch.Generator())
    with pytest.raises(ValueError, match=r"\[B, T, 3, H, W\]"):
        apply_sensor(_frames()[0], sensor, torch.Generator())


def test_grain_makes_the_noise_of_neighbours_alike_and_no_weaker() -> None:
    sensor = Sensor(read_noise=torch.tensor([0.02, 0.02]), grain=torch.tensor([0.0, 0.6]))
    grey = torch.full((2, 1, 3, 200, 300), 0.5)
    light = apply_sensor(grey, sensor, torch.Generator().manual_seed(0)) ** DISPLAY_GAMMA
    rest = light - 0.5**DISPLAY_GAMMA
    white, grained = rest.square().mean((1, 2, 3, 4)).sqrt().tolist()
    assert white == pytest.approx(0.02, rel=0.02)
    assert grained == pytest.approx(0.02, rel=0.05)
    alike = (rest[..., 1:] * rest[..., :-1]).mean((1, 2, 3, 4)) / 0.02**2
    assert alike.tolist() == pytest.approx([0.0, math.exp(-1.0 / (4.0 * 0.6**2))], abs=0.06)
