"""ST-LPIPS: how different two pictures look, tolerant of shifts of a pixel or two.

Convention
    Pictures are `[..., 3, H, W]` in [0, 1] and one figure per picture comes back, `[...]`, in float64; 0 where they are
    equal. Both are rounded to 8 bits before, and scaled to [-1, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

from qrsc.evaluate.metrics.image_quality import to_levels
from qrsc.learn.fusion.shift_tolerant import Trunk, load_trunk, weights_file

SMALLEST = 32  # pixels a side: below it nothing is left of a picture at the last taps


def st_lpips(picture: Tensor, truth: Tensor, trunk: Trunk | None = None) -> Tensor:
    """ST-LPIPS (AlexNet, inputs in [-1, 1]): the mean over the picture at each of the five taps, added up.

    Args:
        picture: `[..., 3, H, W]`, at least 32x32.
        truth: the same shape.
        trunk: in place of AlexNet's.

    Raises:
        ValueError: the weights are not there; nothing is ever downloaded.
    """
    if picture.shape != truth.shape or picture.ndim < 3 or picture.shape[-3] != 3:
        raise ValueError(
            f"two pictures [..., 3, H, W] of one shape were expected; got {list(picture.shape)} and "
            f"{list(truth.shape)}."
        )
    height, width = picture.shape[-2:]
    if min(height, width) < SMALLEST:
        raise ValueError(f"ST-LPIPS needs pictures of at least {SMALLEST}x{SMALLEST} pixels, got {width}x{height}.")
    network = (_alex() if trunk is None else trunk).to(truth.device)
    pairs = zip(picture.reshape(-1, 3, height, width), truth.reshape(-1, 3, height, width), strict=True)
    # One by one: the features of a large picture are hundreds of megabytes.
    found = [_differing(network, *pair) for pair in pairs]
    return torch.stack(found).reshape(picture.shape[:-3])


@torch.no_grad()
def _differing(network: Trunk, picture: Tensor, truth: Tensor) -> Tensor:
    pair = torch.stack([to_levels(picture), to_levels(truth)]).float() / 127.5 - 1.0
    features = [each.split(1) for each in network(pair)]
    ours, theirs = ([each[side] for each in features] for side in (0, 1))
    widest = torch.float32 if truth.device.type == "mps" else torch.float64
    return torch.stack([each.mean(dtype=widest) for each in network.differences(ours, theirs)]).sum()


def load_st_lpips() -> Callable[[Tensor, Tensor], Tensor]:
    """The metric, once its weights have been found.

    Raises:
        ValueError: the weights are not installed; nothing is downloaded.
    """
    weights_file("alex")
    return st_lpips


@lru_cache(1)
def _alex() -> Trunk:
    return load_trunk("alex")
