"""Convolutions with what follows them: on a GPU without kernels of their own for bias, skip connection and rectifier.

Only for convolutions whose weights have the dtype of the features, as in networks prepared for half precision.
"""

from __future__ import annotations

from typing import overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.kernels import by_kernel, usable


def rectified(features: Tensor, layer: nn.Conv2d) -> Tensor:
    """A convolution of `[B, C, h, w]` and a ReLU, by one call of cuDNN where it can."""

    def kernel() -> Tensor:
        given = features.contiguous(memory_format=torch.channels_last), layer.weight, layer.bias
        return torch.cudnn_convolution_relu(*given, layer.stride, layer.padding, layer.dilation, layer.groups)  # type: ignore[arg-type]  # tuples, not strings

    if not _fitting(features, layer):
        return F.relu(layer(features))
    return by_kernel("convolutions with ReLU", kernel, lambda: F.relu(layer(features)), features, layer.weight)


@overload
def convolved(features: Tensor, layer: nn.Conv2d, skip: Tensor | None = None) -> Tensor: ...
@overload
def convolved(features: Tensor, layer: nn.Conv2d, skip: Tensor | None = None, *, both: bool) -> tuple[Tensor, ...]: ...
def convolved(
    features: Tensor, layer: nn.Conv2d, skip: Tensor | None = None, *, both: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """A convolution of `[B, C, h, w]` with a skip connection; with `both`, that and its ReLU."""
    if not _fitting(features, layer) or not usable(features, layer.weight):
        found = layer(features)
        found = found if skip is None else skip + found
        return (found, F.relu(found)) if both else found
    assert layer.bias is not None  # by `_fitting`
    raw = F.conv2d(features, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)
    results = after(raw, layer.bias, skip, 0.0 if both else None, both)
    return results if both else results[0]


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


def gated(features: Tensor, layer: nn.Conv2d, state: Tensor) -> Tensor:
    """The next state `[B, C, h, w]` of a gated unit, whose candidate and gate a convolution finds together."""
    if not _fitting(features, layer) or not usable(features, layer.weight):
        candidate, gate = layer(features).chunk(2, dim=1)
        return torch.lerp(state, torch.tanh(candidate), torch.sigmoid(gate))
    bias = layer.bias
    assert bias is not None  # by `_fitting`
    raw = F.conv2d(features, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups)

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


def _fitting(features: Tensor, layer: nn.Conv2d) -> bool:
    return features.dtype == layer.weight.dtype and layer.bias is not None and layer.padding_mode == "zeros"
