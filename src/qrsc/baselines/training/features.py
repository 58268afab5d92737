"""The loss on the features of VGG-16, with the features of a batch's truths found once for all networks."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from qrsc.fusion.networks import arrange
from qrsc.learn.fusion.perceptual import TAPS
from qrsc.learn.fusion.shift_tolerant import Trunk, load_trunk


class SharedFeatures(nn.Module):
    """How much two pictures differ to VGG-16: the package's perceptual loss, called with a picture and its truth.

    Args:
        trunk: in place of VGG-16's first taps.

    Raises:
        ValueError: the weights are not there; nothing is ever downloaded.
    """

    def __init__(self, trunk: Trunk | None = None) -> None:
        super().__init__()
        self.trunk = load_trunk("vgg", TAPS) if trunk is None else trunk
        self._known: list[tuple[Tensor, list[Tensor]]] = []

    def arranged(self, device: torch.device) -> SharedFeatures:
        """The same on a device, in the layout that it prefers."""
        self.to(device)
        arrange(self.trunk)
        return self

    @torch.no_grad()
    def remember(self, truths: Sequence[Tensor]) -> None:
        """Keep the features of these truths, until others are kept.

        Those of tensors that have been remembered last time, and hold new pictures now, go where the old ones were: a
        recorded step reads them there.
        """
        found = [self._features(truth) for truth in truths]
        if len(truths) == len(self._known) and all(map(operator.is_, truths, (known for known, _ in self._known))):
            for (_, kept), features in zip(self._known, found, strict=True):
                torch._foreach_copy_(kept, features)
        else:
            self._known = list(zip(truths, found, strict=True))

    def forward(self, picture: Tensor, truth: Tensor) -> Tensor:
        """Pictures and truths, `[B, 3, H, W]` each in [0, 1], to `[B]`."""
        wanted = next((features for known, features in self._known if known is truth), None)
        if wanted is None:
            with torch.no_grad():
                wanted = self._features(truth)
        with torch.autocast(picture.device.type, enabled=False):
            found = [each.float() for each in self._features(picture)]
            differences = self.trunk.differences(found, [each.float() for each in wanted])
            return torch.stack([each.mean((1, 2, 3)) for each in differences]).sum(0)

    def _features(self, pictures: Tensor) -> list[Tensor]:
        scaled = (2.0 * pictures.float() - 1.0).contiguous(memory_format=torch.channels_last)
        with torch.autocast(pictures.device.type, torch.bfloat16, enabled=pictures.is_cuda):
            found: list[Tensor] = self.trunk(scaled)
        return found


def no_features(picture: Tensor, truth: Tensor) -> Tensor:
    """In place of the loss on features: 0 for each picture, `[B]`."""
    return (picture - truth).flatten(1).sum(1) * 0.0
