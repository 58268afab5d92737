"""CVR: the two frames of RSSR, refined and blended by a mask, so that each fills what the other does not show.

Fan, Dai, He: Context-aware video reconstruction for rolling shutter cameras, CVPR 2022.

Two frames, any instant. Both frames are splatted as in RSSR. A second U-Net sees the frames, the splatted frames, the
fields and the flows, and gives residuals of both fields and a mask V; the frames are splatted again and blended by V
and by how near in time the instant is.

Changed: as for RSSR; both frames go to the same instant for any gamma (published: for gamma = 1 alone); single frames
are compared with the truth at all three instants; both U-Nets are trained from the start at one learning rate, not from
RSSR's weights.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from qrsc.baselines.learned.blocks import UNet, roughness
from qrsc.baselines.learned.initial import begin
from qrsc.baselines.learned.rssr import Rectified, Rssr, Splatted, pushed
from qrsc.baselines.learned.window import FeatureLoss, Truths, Window


class Blended(NamedTuple):
    """The result `[B, 3, H, W]`, and the two splatted frames that it was made of."""

    picture: Tensor
    singles: list[Splatted]


class Cvr(Rssr):
    """The network; its first part is RSSR.

    Args:
        width: channels of the U-Nets at full resolution; 32 as published.
    """

    published: ClassVar[float] = 33.33  # 42.70 less PWC-Net's 9.37

    def __init__(self, width: int = 32) -> None:
        super().__init__(width)
        self.context = UNet(20, 5, width)
        begin(self)

    def blended(self, window: Window, rectified: Rectified, tau: Tensor) -> Blended:
        """The result at instants tau of the current frame."""
        fields = self.fields(window, rectified, tau)
        rough = [pushed(window, rectified.flows, fields[each], each).picture for each in (0, 1)]
        found = self.context(
            torch.cat([window.frames.flatten(1, 2), *rough, *fields, rectified.flows.flatten(1, 2)], 1)
        )
        fields = [fields[0] + found[:, :2], fields[1] + found[:, 2:4]]
        singles = [pushed(window, rectified.flows, fields[each], each) for each in (0, 1)]
        visible = torch.sigmoid(found[:, 4:])
        # 0 at the middle row of the previous frame, 1 at that of the current one.
        share = (0.98 * (1.0 + tau - 0.5 * window.gamma) + 0.01).clamp(0.01, 0.99).reshape(-1, 1, 1, 1)
        weights = [(1.0 - share) * visible, share * (1.0 - visible)]
        mixed = weights[0] * singles[0].picture + weights[1] * singles[1].picture
        return Blended(mixed / (weights[0] + weights[1]).clamp_min(1e-6), singles)

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        return self.blended(window, self.rectified(window), tau).picture

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """Mean over three instants of 10 L1 + features, and of 5 L1 and 0.1 roughness over the six single frames."""
        rectified = self.rectified(window)
        middle = 0.5 * window.gamma
        # The three instants one after the other in one batch.
        result = self.blended(
            window.repeated(3),
            Rectified(*(values.repeat(3, *[1] * (values.ndim - 1)) for values in rectified)),
            torch.cat([middle - 1.0, 0.0 * middle, middle]),
        )
        known = (truths.before, truths.first, truths.middle)
        total = 10.0 * (result.picture - torch.cat(known)).abs().mean()
        for picture, truth in zip(result.picture.chunk(3), known, strict=True):
            total = total + features(picture, truth).mean() / 3.0
        for single in result.singles:
            own = 5.0 * (single.picture - torch.cat(known)).abs().mean() + 0.1 * roughness(single.field)
            total = total + 0.5 * own
        return total
