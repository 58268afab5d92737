"""Convolutions with what follows them: on a GPU without kernels of their own for bias, skip connection and rectifier.

Only for convolutions whose weights have the dtype of the features, as in networks prepared for half precision.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from qrsc.backend.kernels import by_kernel, usable

Network = TypeVar("Network", bound=nn.Module)


def rectified(features: Tensor, layer: nn.Module) -> Tensor:
    """A convolution of `[B, C, h, w]` and a ReLU.

    cuDNN can do both in one call, which reads its result before it is written, with a factor of 0: not taken here,
    since memory that was in use may hold what is not a number.
    """
    bias = _bias(features, layer)
    if bias is None or not usable(features, bias):
        return F.relu(layer(features))
    return after(_without_bias(features, layer), bias, slope=0.0)[0]


def convolved(features: Tensor, layer: nn.Module, skip: Tensor | None = None) -> Tensor:
    """A convolution of `[B, C, h, w]`, with a skip connection of the result's shape."""
    bias = _bias(features, layer)
    if bias is None or not usable(features, bias):
        found: Tensor = layer(features)
        return found if skip is None else skip + found
    return after(_without_bias(features, layer), bias, skip)[0]


def convolved_both(features: Tensor, layer: nn.Module, skip: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """As `convolved`, and the ReLU of that."""
    bias = _bias(features, layer)
    if bias is None or not usable(features, bias):
        found = convolved(features, layer, skip)
        return found, F.relu(found)
    found, positive = after(_without_bias(features, layer), bias, skip, both=True)
    return found, positive


def after(
    features: Tensor, bias: Tensor, skip: Tensor | None = None, slope: float | None = None, both: bool = False
) -> tuple[Tensor, ...]:
    """A bias `[C]` and a skip connection added to `[B, C, h, w]`.

    Args:
        skip: of the result's shape.
        slope: rectify with this slope for negative values.
        both: return both what is not rectified and what is.
    """

    def kernel() -> tuple[Tensor, ...]:
        from qrsc.backend import pointwise_kernels

        return pointwise_kernels.after(features, bias, skip, slope, both)

    given = (features, bias, skip, slope, both)
    return by_kernel("bias and ReLU", kernel, lambda: plainly_after(*given), features, bias)


def gated(features: Tensor, layer: nn.Module, state: Tensor) -> Tensor:
    """The next state `[B, C, h, w]` of a gated unit, whose candidate and gate a convolution finds together."""
    bias = _bias(features, layer)
    if bias is None or not usable(features, bias, state):
        candidate, gate = layer(features).chunk(2, dim=1)
        return torch.lerp(state, torch.tanh(candidate), torch.sigmoid(gate))
    raw = _without_bias(features, layer)

    def kernel() -> Tensor:
        from qrsc.backend import pointwise_kernels

        return pointwise_kernels.gated(raw, bias, state)

    return by_kernel("gates", kernel, lambda: plainly_gated(raw, bias, state), raw, state)


def plainly_after(
    features: Tensor, bias: Tensor, skip: Tensor | None, slope: float | None, both: bool
) -> tuple[Tensor, ...]:
    """The slow twin of `after`, by PyTorch's operators."""
    found = features + bias.to(features.dtype).reshape(-1, 1, 1)
    found = found if skip is None else found + skip.to(found.dtype)
    if both:
        return found, F.relu(found)
    return (found if slope is None else F.leaky_relu(found, slope),)


def plainly_gated(features: Tensor, bias: Tensor, state: Tensor) -> Tensor:
    """The slow twin of `gated`, from the convolution without its bias."""
    candidate, gate = (features + bias.to(features.dtype).reshape(-1, 1, 1)).chunk(2, dim=1)
    return torch.lerp(state, torch.tanh(candidate).to(state.dtype), torch.sigmoid(gate).to(state.dtype))


def _bias(features: Tensor, layer: nn.Module) -> Tensor | None:
    """The bias of a convolution if it can be applied afterwards: in one dtype with features and weights."""
    assert isinstance(layer, nn.Conv2d)
    return layer.bias if features.dtype == layer.weight.dtype and layer.padding_mode == "zeros" else None


def _without_bias(features: Tensor, layer: nn.Module) -> Tensor:
    assert isinstance(layer, nn.Conv2d)
    return F.conv2d(features, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)


# --- networks in half precision ---


def in_half_precision(network: Network) -> Network:
    """A copy with convolutions and linear layers in bfloat16, for autocast: else each call converts all of them."""
    with torch.inference_mode(False):
        quick = copy.deepcopy(network)
        for layer in quick.modules():
            if isinstance(layer, (_ConvNd, nn.Linear)):
                layer.to(torch.bfloat16)
    return quick


def state_of(network: nn.Module) -> Hashable:
    """Something that changes whenever the parameters of a network are changed or replaced."""
    return tuple((each.data_ptr(), -1 if each.is_inference() else each._version) for each in network.parameters())
