"""Frames whose brightness changes: flashes, rolling bars of lamps, fades. There flow follows the light, not the scene.

Where the brightness of a pair of frames differs by more than motion explains, flow is found anew in images of even
light, and trusted as far as the structure that it connects is the same, by normalised cross-correlation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.image.blur import box_mean
from qrsc.image.colour import luma
from qrsc.image.resize import resized_picture
from qrsc.motion.fill import TrustedFlow
from qrsc.warp import backward_warp

# A pair is examined if the mean of a region differs by this much, in [0, 1], in this part of the frame.
LEAST_DIFFERENCE, LEAST_PART = 0.05, 0.05
# Sides of regions, of the frame's longer side: those whose brightness is compared, large enough that errors of the flow
# do not matter, and those that are given even light, small enough to lie within a bar.
COMPARED, EVEN = 1.0 / 5.0, 1.0 / 12.0
WINDOW = 9  # pixels of the grid
# Correlations from the first on count as trust; from the second on as full trust. Clipped pixels still correlate a
# little, and mislead: with 0.5 and 0.9, frames beside a flash were moved by up to 1.25 px too far.
UNRELATED, SAME = 0.8, 0.97
# A flash looks like a cut. It is none if the flow in even light has at least the first mean confidence, and the
# second one after `trusted_by_structure`: 0.42 to 0.67 and 0.11 to 0.16 in four simulated flashes, up to 0.35 at cuts.
SAME_SCENE, SAME_STRUCTURE = 0.4, 0.03
FLAT = 1.0 / 255.0  # standard deviation of a window that shows nothing


def light_changes(first: Tensor, second: Tensor, flow: Tensor) -> bool:
    """Whether the brightness of two frames `[1, 3, H, W]` differs by more than a flow `[1, 2, h, w]` explains."""
    here, there = _reduced(first, flow), _reduced(second, flow)
    region = _region(here, COMPARED)
    changed = (box_mean(here, region) - box_mean(backward_warp(there, flow).image, region)).abs() > LEAST_DIFFERENCE
    return float(changed.float().mean()) > LEAST_PART


def even_light(frame: Tensor) -> Tensor:
    """A frame `[1, 3, H, W]` in grey, each region with the same mean and contrast."""
    grey = luma(frame)
    region = _region(grey, EVEN)
    mean = box_mean(grey, region)
    contrast = (box_mean(grey * grey, region) - mean * mean).clamp(min=0.0).sqrt()
    return (0.5 + 0.2 * (grey - mean) / (contrast + FLAT)).clamp(0.0, 1.0).expand(-1, 3, -1, -1)


def trusted_by_structure(trusted: TrustedFlow, frame: Tensor, other: Tensor) -> TrustedFlow:
    """A flow from one frame `[1, 3, H, W]` to another, with less confidence where it connects different things."""
    came = backward_warp(_reduced(other, trusted.flow), trusted.flow).image
    return TrustedFlow(trusted.flow, trusted.confidence * _same_structure(_reduced(frame, trusted.flow), came))


def is_same_scene(agreement: Tensor, trusted: Tensor) -> bool:
    """Whether what looks like a cut is a change of light alone.

    Args:
        agreement: `[1, 1, h, w]`, of the flows in even light, there and back.
        trusted: `[1, 1, h, w]`, the confidence of one of them after `trusted_by_structure`.
    """
    return float(agreement.mean()) >= SAME_SCENE and float(trusted.mean()) >= SAME_STRUCTURE


def _reduced(frame: Tensor, flow: Tensor) -> Tensor:
    """Luma `[1, 1, h, w]` on the grid of a flow."""
    return luma(resized_picture(frame, (flow.shape[-2], flow.shape[-1])))


def _region(image: Tensor, part: float) -> int:
    """Side of a region in pixels, odd, from its part of the image's longer side."""
    return 2 * (max(2, round(max(image.shape[-2:]) * part)) // 2) + 1


def _same_structure(first: Tensor, second: Tensor) -> Tensor:
    """Trust `[1, 1, h, w]` from 0 to 1 in two luma images `[1, 1, h, w]` showing the same thing.

    The edge of a bar of light is a slope, and would correlate with itself where flow follows the bar: slopes are taken
    off first.
    """
    first, second = (image - box_mean(image, WINDOW) for image in (first, second))
    mean, other = box_mean(first, WINDOW), box_mean(second, WINDOW)
    variance = (box_mean(first * first, WINDOW) - mean * mean).clamp(min=0.0)
    other_variance = (box_mean(second * second, WINDOW) - other * other).clamp(min=0.0)
    together = box_mean(first * second, WINDOW) - mean * other
    visible = torch.minimum(variance, other_variance) > FLAT**2
    scale = torch.where(visible, (variance * other_variance).sqrt(), 1.0)
    correlation = torch.where(visible, together / scale, 0.0)
    return ((correlation - UNRELATED) / (SAME - UNRELATED)).clamp(0.0, 1.0)
