"""Effects of a real camera on a picture; each can be left out.

Convention
    Rendered frames are display-referred, with values in 0 to 1. Linear light is their power 2.2: exposure, white
    balance, vignetting, blur and noise act on linear light, and the tone curve converts it back. Compression comes
    last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.simulate.camera.compression import compress, compress_video

EFFECTS = ("exposure", "white balance", "vignetting", "blur", "noise", "tone", "compression")
DISPLAY_GAMMA = 2.2
BLUR_REACH = 3


@dataclass(frozen=True)
class Sensor:
    """The cameras of a batch of clips; None leaves an effect out.

    Attributes:
        exposure: `[B, T]`, factor on the light of each frame.
        white_balance: `[B, 3]`, factor on the light of each channel.
        vignetting: `[B]`, part of the light that is lost in the corners.
        blur: `[B]`, standard deviation of the lens blur in pixels, at most 1.5.
        shot_noise: `[B]`, variance of the light per unit of light.
        read_noise: `[B]`, standard deviation of the light in the dark.
        grain: `[B]`, in pixels, at most 1.5: standard deviation of a blur of the noise that keeps its strength.
            Demosaicing and denoising correlate the noise of neighbouring pixels: by 0.3 to 0.5 in flat areas of
            Fastec-RS and BS-RSC frames, which 0.45 to 0.6 pixels reproduce.
        tone: `[B]`, exponent of the tone curve relative to the display's; 1 is neutral, larger is brighter.
        quality: `[B]`, of the compression, 1 to 100.
        video: `[B]`, 1 for compression as in H.264, predicted from the previous frame; 0, or None for all, as in JPEG.
    """

    exposure: Tensor | None = None
    white_balance: Tensor | None = None
    vignetting: Tensor | None = None
    blur: Tensor | None = None
    shot_noise: Tensor | None = None
    read_noise: Tensor | None = None
    grain: Tensor | None = None
    tone: Tensor | None = None
    quality: Tensor | None = None
    video: Tensor | None = None

    def without_damage(self) -> Sensor:
        """The same colours without blur, noise and compression: for the ground truth."""
        return replace(self, blur=None, shot_noise=None, read_noise=None, grain=None, quality=None, video=None)

    def at_frames(self, frames: Sequence[int]) -> Sensor:
        """The sensor for some of the frames of the clip."""
        if self.exposure is None:
            return self
        return replace(self, exposure=self.exposure[:, list(frames)])

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Sensor:
        """The same sensor on another device or in another precision."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return Sensor(**{name: None if value is None else value.to(device, dtype) for name, value in values.items()})


def sample_sensor(batch: int, frames: int, generator: torch.Generator, *, effects: Sequence[str] = EFFECTS) -> Sensor:
    """Draw random sensors.

    Args:
        batch, frames: number and length of the clips.
        generator: on the CPU.
        effects: which of `EFFECTS` to include.
    """
    unknown = [effect for effect in effects if effect not in EFFECTS]
    if unknown:
        raise ValueError(f"unknown sensor effects {unknown}; choose from {', '.join(EFFECTS)}.")

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    drift = 0.02 * normal(batch, 1) * torch.arange(frames) + 0.01 * normal(batch, frames)
    drawn = Sensor(
        exposure=torch.exp(0.15 * normal(batch, 1) + drift),
        white_balance=torch.exp(0.08 * normal(batch, 3)),
        vignetting=0.5 * uniform(batch) ** 2,
        blur=0.3 + 0.9 * uniform(batch) ** 2,
        shot_noise=10.0 ** (-4.6 + 2.2 * uniform(batch)),
        read_noise=10.0 ** (-4.0 + 1.8 * uniform(batch)),
        tone=torch.exp(0.12 * normal(batch)),
        quality=40.0 + 58.0 * uniform(batch) ** 0.6,
        video=(uniform(batch) < 0.5).float(),
        grain=0.7 * uniform(batch),
    )
    owners = {
        "exposure": "exposure",
        "white_balance": "white balance",
        "vignetting": "vignetting",
        "blur": "blur",
        "shot_noise": "noise",
        "read_noise": "noise",
        "grain": "noise",
        "tone": "tone",
        "quality": "compression",
        "video": "compression",
    }
    # Everything is drawn and unwanted effects are dropped: leaving one out does not change the others.
    kept = {name: getattr(drawn, name) if owner in effects else None for name, owner in owners.items()}
    return Sensor(**kept)


def apply_sensor(frames: Tensor, sensor: Sensor, generator: torch.Generator, before: Tensor | None = None) -> Tensor:
    """Apply sensors to frames.

    Args:
        frames: `[B, T, 3, H, W]`, in 0 to 1.
        sensor: of the same batch.
        generator: for the noise; on the CPU or on the device of the frames.
        before: `[B, 3, H, W]`, the frame before the first, after its sensor; None at the start of a clip.

    Returns:
        `[B, T, 3, H, W]`, in 0 to 1.
    """
    if frames.ndim != 5 or frames.shape[2] != 3:
        raise ValueError(f"frames must be [B, T, 3, H, W], got {tuple(frames.shape)}.")
    sensor = sensor.to(frames.device, frames.dtype)
    light = frames.clamp(0.0, 1.0) ** DISPLAY_GAMMA
    if sensor.exposure is not None:
        if sensor.exposure.shape != frames.shape[:2]:
            raise ValueError(
                f"the sensor was made for clips [B, T] = {tuple(sensor.exposure.shape)}, the frames are "
                f"{tuple(frames.shape[:2])}; use Sensor.at_frames for some frames of a clip."
            )
        light = light * sensor.exposure[:, :, None, None, None]
    if sensor.white_balance is not None:
        light = light * sensor.white_balance[:, None, :, None, None]
    if sensor.vignetting is not None:
        light = light * _vignette(sensor.vignetting, frames)
    if sensor.blur is not None:
        light = _blurred(light, sensor.blur)
    light = _noisy(light, sensor, generator)
    tone = 1.0 if sensor.tone is None else sensor.tone.reshape(-1, 1, 1, 1, 1)
    shown = light.clamp(0.0, 1.0) ** (1.0 / (DISPLAY_GAMMA * tone))
    return shown if sensor.quality is None else _compressed(shown, sensor.quality, sensor.video, before)


def _compressed(frames: Tensor, quality: Tensor, video: Tensor | None, before: Tensor | None) -> Tensor:
    """Compress clips `[B, T, 3, H, W]`, each frame on its own or predicted from the previous one; see `Sensor`."""
    result = compress(frames.flatten(0, 1), quality.repeat_interleave(frames.shape[1])).reshape(frames.shape)
    chosen = (video > 0.5).nonzero()[:, 0] if video is not None else quality.new_zeros(0).long()
    if len(chosen) == 0:
        return result
    previous = None if before is None else before[chosen]
    for step in range(frames.shape[1]):
        previous = compress_video(frames[chosen, step], previous, quality[chosen])
        result[chosen, step] = previous
    return result


def _vignette(strength: Tensor, frames: Tensor) -> Tensor:
    """Remaining light: `[B, 1, 1, H, W]`, falling with the square of the distance from the centre."""
    height, width = frames.shape[-2:]
    y = torch.linspace(-1.0, 1.0, height, dtype=frames.dtype, device=frames.device)[:, None]
    x = torch.linspace(-1.0, 1.0, width, dtype=frames.dtype, device=frames.device)[None]
    return 1.0 - strength.reshape(-1, 1, 1, 1, 1) * 0.5 * (x.square() + y.square())


def _blurred(light: Tensor, sigma: Tensor) -> Tensor:
    """Blur light `[B, T, 3, H, W]` by a Gaussian of each clip's own width, along columns and then along rows."""
    kernel = _gaussian(sigma, light)[:, :, None, None, None, None]
    height, width = light.shape[-2:]
    padded = F.pad(light.flatten(0, 1), [BLUR_REACH] * 4, mode="replicate").reshape(
        *light.shape[:3], height + 2 * BLUR_REACH, width + 2 * BLUR_REACH
    )
    rows = sum((kernel[:, tap] * padded[..., tap : tap + height, :] for tap in range(kernel.shape[1])), torch.zeros(()))
    return sum((kernel[:, tap] * rows[..., tap : tap + width] for tap in range(kernel.shape[1])), torch.zeros(()))


def _gaussian(sigma: Tensor, like: Tensor) -> Tensor:
    """Weights `[B, 7]` of Gaussian windows of widths `[B]`."""
    taps = torch.arange(-BLUR_REACH, BLUR_REACH + 1, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * (taps / sigma[:, None].clamp_min(1e-3)).square())
    return weights / weights.sum(1, keepdim=True)


def _noisy(light: Tensor, sensor: Sensor, generator: torch.Generator) -> Tensor:
    if sensor.shot_noise is None and sensor.read_noise is None:
        return light
    variance = torch.zeros_like(light)
    if sensor.shot_noise is not None:
        variance = variance + sensor.shot_noise.reshape(-1, 1, 1, 1, 1) * light.clamp_min(0.0)
    if sensor.read_noise is not None:
        variance = variance + sensor.read_noise.reshape(-1, 1, 1, 1, 1).square()
    if generator.device != light.device:
        seed = int(torch.randint(2**62, (1,), generator=generator, device=generator.device))
        generator = torch.Generator(light.device).manual_seed(seed)
    noise = torch.randn(light.shape, generator=generator, dtype=light.dtype, device=light.device)
    if sensor.grain is not None:
        noise = _blurred(noise, sensor.grain) / _gaussian(sensor.grain, light).square().sum(1).reshape(-1, 1, 1, 1, 1)
    return light + variance.sqrt() * noise
