"""Random photometric augmentation: exposure, tint, contrast, saturation, gamma, blur and noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.image.colour import luma

Draw = Callable[..., Tensor]


def photometric(first: Tensor, second: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Augment the colours of pairs of frames: strongly for both frames together, slightly for each frame alone.

    Neighbouring frames of a clip have nearly the same exposure and colours. A network that is trained on larger
    differences loses precision; one that never sees a flickering lamp fails to match such frames. Three pairs in four
    therefore differ by noise alone.

    Args:
        first, second: `[B, 3, H, W]`, in [0, 1].
        generator: on the frames' device.

    Returns:
        The same shapes, in [0, 1], in steps of 1 / 255.
    """
    batch = first.shape[0]
    device = first.device

    def uniform(low: float, high: float, channels: int = 1) -> Tensor:
        return low + (high - low) * torch.rand(batch, channels, 1, 1, generator=generator, device=device)

    def sometimes(share: float) -> Tensor:
        return (uniform(0.0, 1.0) < share).float()

    common = _draw_factors(uniform, 1.0)
    differs = sometimes(0.25)
    blurs = sometimes(0.2) * uniform(0.3, 1.0)
    noise = uniform(0.0, 1.0) ** 2 * 0.04
    changed = []
    for frame in (first, second):
        own = _draw_factors(uniform, 0.25)
        factors = {name: common[name] * (1.0 + differs * (own[name] - 1.0)) for name in common}
        frame = _graded(frame, factors)
        frame = torch.lerp(frame, _blurred(frame), blurs)
        # The standard deviation of photon noise grows with the square root of the signal.
        grain = torch.randn(frame.shape, generator=generator, device=device)
        frame = frame + noise * (0.3 + frame.sqrt()) * grain
        changed.append(in_bytes(frame))
    return changed[0], changed[1]


def in_bytes(frames: Tensor) -> Tensor:
    """Clamp to [0, 1] and quantise to 8 bits."""
    return (frames.clamp(0.0, 1.0) * 255.0).round() / 255.0


def _draw_factors(uniform: Draw, strength: float) -> dict[str, Tensor]:
    """Random factors around 1 for each kind of change, `[B, 1 or 3, 1, 1]`."""

    def factor(spread: float, channels: int = 1) -> Tensor:
        spread = spread * strength
        return torch.exp(uniform(-spread, spread, channels))

    return {
        "exposure": factor(math.log(1.6)),
        "tint": factor(math.log(1.2), 3),
        "contrast": factor(math.log(1.5)),
        "saturation": factor(math.log(1.8)),
        "power": factor(math.log(1.4)),
    }


def _graded(frame: Tensor, factors: dict[str, Tensor]) -> Tensor:
    frame = frame * factors["exposure"] * factors["tint"]
    frame = 0.45 + (frame - 0.45) * factors["contrast"]
    shades = luma(frame)
    frame = (shades + (frame - shades) * factors["saturation"]).clamp(1e-4, 1.0)
    return frame ** factors["power"]


def _blurred(frame: Tensor) -> Tensor:
    """Blur with a binomial kernel whose standard deviation is 1 pixel."""
    kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device=frame.device, dtype=frame.dtype) / 16.0
    padded = F.pad(frame, (2, 2, 2, 2), mode="replicate")
    across = F.conv2d(padded, kernel.reshape(1, 1, 1, 5).expand(3, 1, 1, 5), groups=3)
    return F.conv2d(across, kernel.reshape(1, 1, 5, 1).expand(3, 1, 5, 1), groups=3)
