"""Styles of camera motion: driving, walking, panning, drone, hand shake, zoom, roll."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.simulate.camera.motion_paths import Camera, Path

Seven = tuple[float, float, float, float, float, float, float]
STEADY: Seven = (0.0,) * 7

# Image speeds, in per cent of the picture's width per frame: most clips move by a few, some hardly at all, some by a
# third of the width. Log-normal about the median, with a share of nearly static clips.
MEDIAN_SPEED = 4.0
SPEED_SPREAD = 1.1
FASTEST = 40.0
STILL_SHARE = 0.06
# Slow and fast oscillations of each coordinate, this many of each.
COMPONENTS = 3


@dataclass(frozen=True)
class Style:
    """Proportions of a style of motion. The overall speed is drawn afterwards, so that only ratios matter here.

    Attributes:
        drift: typical speed of each of the seven camera coordinates, per frame interval.
        change: typical change of that speed, per frame interval squared.
        sway: typical speed of slow oscillations.
        shake: typical speed of fast oscillations.
        sway_rate, shake_rate: frequency ranges of these in cycles per frame interval; times 30 for Hz.
        ahead: whether the drift along z is always forward.
    """

    drift: Seven = STEADY
    change: Seven = STEADY
    sway: Seven = STEADY
    shake: Seven = STEADY
    sway_rate: tuple[float, float] = (0.02, 0.1)
    shake_rate: tuple[float, float] = (0.07, 0.35)
    ahead: bool = False


#                yaw    pitch  roll   x     y      z     log focal
STYLES: dict[str, Style] = {
    "driving": Style(
        drift=(0.010, 0.000, 0.000, 0.03, 0.000, 0.50, 0.0),
        change=(0.003, 0.000, 0.000, 0.00, 0.000, 0.04, 0.0),
        sway=(0.006, 0.004, 0.002, 0.00, 0.010, 0.00, 0.0),
        shake=(0.002, 0.005, 0.001, 0.00, 0.006, 0.00, 0.0),
        shake_rate=(0.1, 0.8),
        ahead=True,
    ),
    "walking": Style(
        drift=(0.008, 0.002, 0.000, 0.02, 0.000, 0.06, 0.0),
        change=(0.002, 0.001, 0.000, 0.00, 0.000, 0.00, 0.0),
        sway=(0.016, 0.012, 0.008, 0.02, 0.025, 0.00, 0.0),
        shake=(0.006, 0.006, 0.003, 0.00, 0.008, 0.00, 0.0),
        sway_rate=(0.03, 0.07),
        ahead=True,
    ),
    "panning": Style(
        drift=(0.050, 0.008, 0.000, 0.00, 0.000, 0.00, 0.0),
        change=(0.012, 0.002, 0.000, 0.00, 0.000, 0.00, 0.0),
        sway=(0.004, 0.004, 0.001, 0.00, 0.000, 0.00, 0.0),
        shake=(0.002, 0.002, 0.001, 0.00, 0.000, 0.00, 0.0),
    ),
    "drone": Style(
        drift=(0.012, 0.004, 0.002, 0.25, 0.080, 0.30, 0.0),
        change=(0.003, 0.001, 0.001, 0.03, 0.010, 0.03, 0.0),
        sway=(0.006, 0.006, 0.006, 0.02, 0.020, 0.02, 0.0),
        shake=(0.004, 0.004, 0.003, 0.00, 0.000, 0.00, 0.0),
        shake_rate=(0.4, 1.0),
    ),
    "hand shake": Style(
        drift=(0.006, 0.004, 0.001, 0.01, 0.005, 0.01, 0.0),
        change=(0.002, 0.002, 0.001, 0.00, 0.000, 0.00, 0.0),
        sway=(0.016, 0.014, 0.006, 0.01, 0.010, 0.00, 0.0),
        shake=(0.022, 0.022, 0.010, 0.01, 0.010, 0.00, 0.0),
        shake_rate=(0.07, 1.0),
    ),
    "zoom": Style(
        drift=(0.006, 0.004, 0.000, 0.01, 0.000, 0.02, 0.060),
        change=(0.001, 0.001, 0.000, 0.00, 0.000, 0.00, 0.010),
        sway=(0.006, 0.006, 0.002, 0.00, 0.000, 0.00, 0.010),
        shake=(0.003, 0.003, 0.001, 0.00, 0.000, 0.00, 0.0),
    ),
    "roll": Style(
        drift=(0.008, 0.006, 0.060, 0.02, 0.010, 0.02, 0.0),
        change=(0.002, 0.002, 0.012, 0.00, 0.000, 0.00, 0.0),
        sway=(0.006, 0.006, 0.020, 0.00, 0.000, 0.00, 0.0),
        shake=(0.004, 0.004, 0.006, 0.00, 0.000, 0.00, 0.0),
    ),
}
MIXED = "mixed"


def draw_styles(style: str, batch: int, generator: torch.Generator) -> Tensor:
    """Indices into `STYLES` for a batch of clips: `[B]`; random for `mixed`."""
    names = list(STYLES)
    if style == MIXED:
        return torch.randint(len(names), (batch,), generator=generator)
    if style not in STYLES:
        raise ValueError(f"unknown motion style {style!r}; choose one of {', '.join(names)}, or {MIXED}.")
    return torch.full((batch,), names.index(style))


def draw_speeds(batch: int, width: int, generator: torch.Generator) -> Tensor:
    """Draw typical image speeds in pixels per frame interval: `[B]`."""
    drawn = MEDIAN_SPEED * torch.exp(SPEED_SPREAD * torch.randn(batch, generator=generator, dtype=torch.float64))
    still = torch.rand(batch, generator=generator) < STILL_SHARE
    return torch.where(still, 0.02 * drawn, drawn).clamp_max(FASTEST) * 0.01 * width


def draw_camera(
    styles: Tensor,
    size: tuple[int, int],
    frames: int,
    generator: torch.Generator,
    *,
    pitch: Tensor,
    height: Tensor,
) -> Camera:
    """Draw cameras that move in given styles.

    Args:
        styles: `[B]`, from `draw_styles`.
        size: `(height, width)` of the picture.
        frames: length of the clip.
        pitch: `[B]`, of the view in the middle of the clip.
        height: `[B]`, metres above the ground, which is at y = 0.
    """
    batch = len(styles)
    drift, change, sway, shake = (_table(name)[styles] for name in ("drift", "change", "sway", "shake"))
    ahead = torch.tensor([style.ahead for style in STYLES.values()])[styles]

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    polynomial = torch.zeros(batch, 7, 4, dtype=torch.float64)
    polynomial[..., 1] = drift * normal(batch, 7)
    polynomial[:, 5, 1] = torch.where(ahead, polynomial[:, 5, 1].abs(), polynomial[:, 5, 1])
    polynomial[..., 2] = 0.5 * change * normal(batch, 7)
    polynomial[..., 3] = change / 12.0 * normal(batch, 7)
    rates, amplitudes = [], []
    for level, limits in ((sway, "sway_rate"), (shake, "shake_rate")):
        low, high = _table(limits)[styles].log().unbind(-1)
        drawn = torch.rand(batch, 7, COMPONENTS, generator=generator, dtype=torch.float64)
        rate = torch.exp(low[:, None, None] + (high - low)[:, None, None] * drawn)
        # Speeds fall with the square root of the frequency, so that amplitudes follow the spectra of real hand shake.
        slowest = low.exp()[:, None, None]
        speeds = level[..., None] * normal(batch, 7, COMPONENTS) * (slowest / rate).sqrt()
        rates.append(rate)
        amplitudes.append(speeds / (2.0 * torch.pi * rate))
    phase = 2.0 * torch.pi * torch.rand(batch, 7, 2 * COMPONENTS, generator=generator, dtype=torch.float64)
    focal = size[1] * (0.6 + 0.9 * torch.rand(batch, generator=generator, dtype=torch.float64) ** 1.5)
    polynomial[:, 1, 0], polynomial[:, 4, 0], polynomial[:, 6, 0] = pitch, -height, focal.log()
    polynomial[:, 2, 0] = 0.02 * normal(batch)
    path = Path(polynomial, torch.cat(amplitudes, -1), torch.cat(rates, -1), phase, 0.5 * frames)
    centre = torch.tensor([(size[1] - 1) / 2, (size[0] - 1) / 2], dtype=torch.float64).expand(batch, 2)
    return Camera(path, centre)


def scaled_motion(camera: Camera, factor: Tensor, frames: int) -> Camera:
    """Multiply the motion of cameras by `[B]`, limited so that none overturns, enters the ground or zooms wildly."""
    times = torch.linspace(-1.0, frames + 1.0, 8 * (frames + 2), dtype=torch.float64)
    path = camera.path
    excursion = (path.at(times) - path.polynomial[..., :1]).abs().amax(-1)
    limits = torch.tensor([math.inf, 0.6, math.inf, math.inf, 0.0, 80.0, 0.9], dtype=torch.float64).repeat(
        len(factor), 1
    )
    limits[:, 4] = 0.6 * path.polynomial[:, 4, 0].abs()
    factor = torch.minimum(factor, (limits / excursion.clamp_min(1e-9)).amin(-1))
    return Camera(path.scaled(factor), camera.centre)


def _table(name: str) -> Tensor:
    return torch.tensor([getattr(style, name) for style in STYLES.values()], dtype=torch.float64)
