"""The protocol of flow estimators.

Convention
    Optical flow is `[B, 2, H, W]` holding (dx, dy) in pixels, defined on the pixels of the frame it starts from. Pixel
    `m` of the first frame is seen at `m + forward(m)` in the second frame, and pixel `m` of the second frame at
    `m + backward(m)` in the first.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor


class FlowPair(NamedTuple):
    """Forward and backward flow of pairs of frames, each defined on the frame it starts from.

    Attributes:
        forward: `[B, 2, H, W]`, from the first frame to the second.
        backward: `[B, 2, H, W]`, from the second frame to the first.
    """

    forward: Tensor
    backward: Tensor


class FlowEstimator(Protocol):
    """An optical-flow estimator.

    Takes `first` and `second`, `[B, 3, H, W]` RGB in [0, 1] of any size, and returns the forward and backward flow of
    each pair, with the device and dtype of the frames.
    """

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair: ...


class ConfidentFlows(NamedTuple):
    """Forward and backward flow of pairs of frames with their confidences.

    Attributes:
        flows: forward and backward, `[B, 2, H, W]` each.
        forward_confidence, backward_confidence: `[B, 1, H, W]`, 0 to 1; None if the estimator has none.
    """

    flows: FlowPair
    forward_confidence: Tensor | None
    backward_confidence: Tensor | None


@runtime_checkable
class ConfidentEstimator(Protocol):
    """An estimator that also returns the confidence of its flows."""

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows: ...


@runtime_checkable
class EncodingEstimator(Protocol):
    """An estimator that first works on each frame by itself, which needs to be done once for both of its pairs."""

    def encoded(self, frame: Tensor) -> Any: ...

    def between(self, first: Any, second: Any) -> ConfidentFlows: ...


@runtime_checkable
class ClipFlow(Protocol):
    """The precomputed flows of one clip, by the index of the pair: 0 for the first two frames."""

    def pair(self, number: int, first: Tensor, second: Tensor) -> FlowPair: ...


@runtime_checkable
class ConfidentClipFlow(Protocol):
    """Flows of one clip by the number of the pair, with confidences."""

    def confident_pair(self, number: int, first: Tensor, second: Tensor) -> ConfidentFlows: ...


def find_flows(estimator: FlowEstimator, first: Tensor, second: Tensor, number: int = 0) -> ConfidentFlows:
    """Compute the flows of a pair of frames by an estimator of any kind, with confidences if it has them.

    Args:
        first, second: `[B, 3, H, W]`.
        number: index of the pair in its clip, 0 for the first two frames.
    """
    if isinstance(estimator, ConfidentClipFlow):
        return estimator.confident_pair(number, first, second)
    if isinstance(estimator, ClipFlow):
        return ConfidentFlows(estimator.pair(number, first, second), None, None)
    if isinstance(estimator, ConfidentEstimator):
        return estimator.confident(first, second)
    return ConfidentFlows(estimator(first, second), None, None)


def check_pair(first: Tensor, second: Tensor) -> None:
    """Raise unless both are batches of RGB frames of one size."""
    if first.ndim != 4 or first.shape[1] != 3 or first.shape != second.shape:
        raise ValueError(
            "flow needs two batches of frames [B, 3, H, W] of one size; got "
            f"{tuple(first.shape)} and {tuple(second.shape)}."
        )
