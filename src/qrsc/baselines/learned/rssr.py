"""RSSR: optical flow times a learned factor for every pixel takes each frame to any instant.

Fan, Dai: Inverting a rolling shutter camera, ICCV 2021.

Two frames, any instant. A U-Net sees both frames and the flows between them, and gives two scales c and two residuals
of the flows. A frame is splatted by `T flow`; T is the time from a row to the instant, times 2c (published: c times the
row's distance from the middle one, in half frames, which is the same for gamma = 1). The result is the current frame
alone: holes stay black, as published.

Changed: the flow is the package's own, frozen (there are no weights of PWC-Net here), so flow is not trained with the
rest; the row factor holds true times; the feature loss is that of the package (VGG-16), not VGG-19; sizes are padded to
multiples of 32, never squeezed; frames are warped onto each other without the half-pixel shift.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from qrsc.baselines.learned.blocks import UNet, masked_difference, roughness
from qrsc.baselines.learned.initial import begin
from qrsc.baselines.learned.window import Baseline, FeatureLoss, Truths, Window
from qrsc.data.dataset import TruthInstant
from qrsc.warp import backward_warp, splat

SHARPNESS = 20.0  # of the choice between pixels that land together, by their photometric error


class Splatted(NamedTuple):
    """A frame pushed to an instant: `[B, 3, H, W]`, where something landed `[B, 1, H, W]`, and the field used."""

    picture: Tensor
    covered: Tensor
    field: Tensor


class Rectified(NamedTuple):
    """What the U-Net makes of the flows: flows `[B, 2, 2, H, W]` and scales 2c `[B, 2, 1, H, W]` of both frames."""

    flows: Tensor
    scales: Tensor


class Rssr(Baseline):
    """The network.

    Args:
        width: channels of the U-Net at full resolution; 32 as published.
    """

    multiple: ClassVar[int] = 32
    uses_flow: ClassVar[bool] = True
    instants: ClassVar[tuple[TruthInstant, ...]] = ("first", "middle")
    published: ClassVar[float] = 16.65  # 26.03 less PWC-Net's 9.37
    trained_width: ClassVar[int] = 8

    def __init__(self, width: int = 32) -> None:
        super().__init__(width)
        self.unet = UNet(10, 6, width)
        begin(self)

    def rectified(self, window: Window) -> Rectified:
        """The flows with their residuals, and the scales."""
        found = self.unet(torch.cat([window.frames.flatten(1, 2), window.flows.flatten(1, 2)], 1))
        scales = 2.0 * torch.sigmoid(found[:, :2])
        return Rectified(window.flows + found[:, 2:].unflatten(1, (2, 2)), scales.unsqueeze(2))

    def fields(self, window: Window, rectified: Rectified, tau: Tensor) -> list[Tensor]:
        """The displacements `[B, 2, H, W]` of both frames to instants tau of the current one."""
        height = window.frames.shape[-2]
        # The previous frame starts an interval earlier; the flow of the current one points back in time.
        times = [window.remaining(tau + 1.0, height), -window.remaining(tau, height)]
        return [rectified.scales[:, each] * times[each] * rectified.flows[:, each] for each in (0, 1)]

    def predict(self, window: Window, tau: Tensor) -> Tensor:
        """See `Baseline`."""
        rectified = self.rectified(window)
        field = self.fields(window, rectified, tau)[1]
        return pushed(window, rectified.flows, field, 1).picture

    def loss(self, window: Window, truths: Truths, features: FeatureLoss) -> Tensor:
        """Of both frames at their middle rows: 10 L1 + features + 0.1 roughness; 10 masked L1 between the frames."""
        rectified = self.rectified(window)
        middle = 0.5 * window.gamma
        total = window.frames.new_zeros(())
        for each, tau, truth in ((0, middle - 1.0, truths.before), (1, middle, truths.middle)):
            result = pushed(window, rectified.flows, self.fields(window, rectified, tau)[each], each)
            total = total + 10.0 * (result.picture - truth).abs().mean() + features(result.picture, truth).mean()
            total = total + 0.1 * roughness(result.field)
            onto, inside = backward_warp(window.frames[:, 1 - each], rectified.flows[:, each])
            total = total + 10.0 * masked_difference(onto, window.frames[:, each], inside)
        return total


def pushed(window: Window, flows: Tensor, field: Tensor, each: int) -> Splatted:
    """One of the two frames splatted along a field; where pixels meet, those whose flow fits the frames better win."""
    frame, other = window.frames[:, each].float(), window.frames[:, 1 - each].float()
    fits = (frame - backward_warp(other, flows[:, each].float()).image).abs().mean(1, keepdim=True)
    picture, covered = splat(frame, field.float(), -SHARPNESS * fits)
    return Splatted(picture, covered, field)
