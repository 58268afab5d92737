"""The perceptual loss of the fusion networks: how much two pictures differ to VGG-16.

It is what ST-LPIPS measures, with another trunk than the figures are measured with (those have AlexNet), and at its
first taps alone: they are what the sharpness and the grain of a picture are seen at.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from qrsc.fusion.networks import arrange
from qrsc.learn.fusion.shift_tolerant import Trunk, load_trunk

TAPS = 3


def perceptual(device: torch.device | str = "cpu", trunk: Trunk | None = None) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss, from pictures and their truth, both `[B, 3, H, W]` in [0, 1], to `[B]`.

    On a CUDA device the trunk works in bfloat16; lengths, differences and means are those of float32.

    Args:
        trunk: in place of VGG-16's first taps.

    Raises:
        ValueError: the weights are not there; nothing is ever downloaded.
    """
    network = (load_trunk("vgg", TAPS) if trunk is None else trunk).to(device)
    arrange(network)

    def features(pictures: Tensor) -> list[Tensor]:
        scaled = (2.0 * pictures - 1.0).contiguous(memory_format=torch.channels_last)
        with torch.autocast(pictures.device.type, torch.bfloat16, enabled=pictures.is_cuda):
            found: list[Tensor] = network(scaled)
        return found

    def loss(picture: Tensor, truth: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = features(truth)
        found = network.differences([each.float() for each in features(picture)], [each.float() for each in wanted])
        return torch.stack([each.mean((1, 2, 3)) for each in found]).sum(0)

    return loss
