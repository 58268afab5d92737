"""How the networks begin: they give back the frame that they are given, and see contrast where they look for motion.

The publications leave the initialisation open. With random kernels throughout a network first has to learn to draw the
frame, and its features are so small that their correlations say nothing; both cost the better part of a short training.
Here some channels carry the colours of the frame from the first layer to the picture, residual blocks change next to
nothing, and velocities are small. Everything is trained from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor, nn

from qrsc.baselines.learned.blocks import FlowHead, ResidualBlock, UNet

COLOURS = (0, 1, 2)  # the channels that carry the frame
# Of the kernels that look for contrast, in the first layer of an encoder and the later ones: the features of rendered
# frames then vary by 0.5 to 1 at all levels.
GAINS = (6.0, 2.0)
_SHARPER = torch.tensor([-0.4, 1.8, -0.4])  # undoes most of the blur of a Gaussian splat
_ENLARGING = torch.tensor([0.25, 0.75, 0.75, 0.25])


@torch.no_grad()
def begin(network: nn.Module) -> None:
    """Draw all kernels anew: as large as rectifiers need them (He et al. 2015), without biases.

    Residuals, flows, and what the U-Nets give are next to nothing.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            # A transposed convolution with a stride of 2 reaches each pixel with a quarter of its taps.
            taps = layer.kernel_size[0] * layer.kernel_size[1] / (4 if isinstance(layer, nn.ConvTranspose2d) else 1)
            layer.weight.normal_(0.0, (2.0 / (taps * layer.in_channels)) ** 0.5)
            if layer.bias is not None:
                layer.bias.zero_()
    for part in network.modules():
        if isinstance(part, ResidualBlock):
            still([part.body[2]])
        elif isinstance(part, FlowHead):
            still([part.flow])
        elif isinstance(part, UNet):
            still([part.last])


@torch.no_grad()
def still(layers: Iterable[nn.Module]) -> None:
    """Let layers give next to nothing: what they are added to stays as it is, and all behind them has a gradient."""
    for layer in layers:
        for weight in layer.parameters():
            weight.mul_(0.01)


@torch.no_grad()
def begin_encoder(stages: Iterable[nn.Module]) -> None:
    """Let the first convolution of each stage carry the colours, and its other kernels answer to contrast alone."""
    for number, stage in enumerate(stages):
        first = next(layer for layer in stage.modules() if isinstance(layer, nn.Conv2d))
        first.weight.sub_(first.weight.mean((1, 2, 3), keepdim=True)).mul_(GAINS[min(number, 1)])
        carry(first)


@torch.no_grad()
def carry(
    layer: nn.Module,
    taken: Sequence[int] = COLOURS,
    given: Sequence[int] = COLOURS,
    share: float = 1.0,
    *,
    alone: bool = True,
) -> None:
    """Let some channels of the result of a convolution be some of the input.

    With a stride of 2 they are the means of 2 x 2 pixels.

    Args:
        taken, given: channels of the input and of the result.
        share: how much of it.
        alone: and nothing else; False adds to what is there.
    """
    assert isinstance(layer, nn.Conv2d)
    kernel = torch.zeros(layer.kernel_size)
    middle = layer.kernel_size[0] // 2
    if layer.stride[0] == 1:
        kernel[middle, middle] = share
    else:
        kernel[middle : middle + 2, middle : middle + 2] = 0.25 * share
    if alone:
        layer.weight[list(given)] = 0.0
    _add(layer.weight, kernel, taken, given)


@torch.no_grad()
def sharpen(layer: nn.Module, shares: Mapping[int, float] = MappingProxyType({0: 1.0})) -> None:
    """Make pictures of the colours in features that were splatted, and so blurred.

    Args:
        shares: how much of each, by the first of its three channels.
    """
    assert isinstance(layer, nn.Conv2d)
    layer.weight.zero_()
    for first, share in shares.items():
        _add(layer.weight, share * torch.outer(_SHARPER, _SHARPER), range(first, first + 3), COLOURS)


@torch.no_grad()
def enlarge(layer: nn.Module, factor: float = 1.0) -> None:
    """Let a transposed convolution enlarge each channel bilinearly, and multiply it."""
    assert isinstance(layer, nn.ConvTranspose2d)
    layer.weight.zero_()
    for channel in range(layer.in_channels):
        layer.weight[channel, channel] = factor * torch.outer(_ENLARGING, _ENLARGING)


def _add(weight: Tensor, kernel: Tensor, taken: Sequence[int], given: Sequence[int]) -> None:
    for source, target in zip(taken, given, strict=True):
        weight[target, source] += kernel
