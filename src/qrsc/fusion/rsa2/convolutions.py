"""Convolutions of RSA^2-Net in the form that is fastest on a GPU: 2-D, channels last, channels in multiples of 8.

A 3 x 3 x 3 convolution over T frames equals a 3 x 3 convolution over the concatenated channels of all T frames, with
weights of 0 between frames that are not neighbours. For three frames it is the same amount of arithmetic, in the
library's best kernels and in one memory layout from end to end. In 3-D, and with channel counts that are not multiples
of 8, a tenth of the time of RSA^2-Net went into changing layouts and a fifteenth into padding (H200, 1920 x 1088,
bfloat16). The parameters keep their shapes; what they are rearranged to is kept until they change.

On a CPU the layers are PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.convolutions import after, rectified, state_of

Arranged = tuple[Tensor, Tensor]  # weights and biases
EIGHT = 8  # tensor cores take channels in multiples of this
MOST_FRAMES = 4  # with more, most of the weights between frames are 0

_always: bool | None = None


@contextmanager
def fast_forms(use: bool) -> Iterator[None]:
    """Force the GPU forms on or off on any device: for tests and comparisons."""
    global _always
    before, _always = _always, use
    try:
        yield
    finally:
        _always = before


def fast(values: Tensor, frames: int = 1) -> bool:
    """Whether to use the GPU forms."""
    return (values.is_cuda if _always is None else _always) and frames <= MOST_FRAMES


class FramesConv(nn.Conv3d):
    """A 3 x 3 x 3 convolution over frames and pixels, `[B, C, T, H, W]`."""

    def __init__(self, incoming: int, channels: int, stride: int = 1) -> None:
        super().__init__(incoming, channels, 3, stride=(1, stride, stride), padding=1)

    def forward(self, features: Tensor, slope: float | None = None, skip: Tensor | None = None) -> Tensor:
        """`[B, C, T, H, W]` to `[B, C', T, H / stride, W / stride]`.

        Args:
            features: the input.
            slope: rectify the result with this slope for negative values.
            skip: added to the result before that, of its shape.
        """
        frames = features.shape[2]
        if not fast(features, frames):
            found = super().forward(features)
            found = found if skip is None else skip + found
            return found if slope is None else F.leaky_relu(found, slope)
        missing = -self.in_channels % EIGHT

        def arranged() -> tuple[Tensor, Tensor]:
            assert self.bias is not None
            weight = F.pad(self.weight, (0, 0, 0, 0, 0, 0, 0, missing))
            return _between_frames(weight, frames), self.bias.repeat(frames)

        weight, bias = _kept(self, frames, arranged)
        beside = _side_by_side(features, missing)
        found = F.conv2d(beside, weight, None, stride=self.stride[1:], padding=1)
        return _one_by_one(after(found, bias, None if skip is None else _side_by_side(skip), slope)[0], frames)


class FramesEnlarge(nn.ConvTranspose3d):
    """A transposed 3 x 4 x 4 convolution over frames and pixels that doubles the resolution."""

    def __init__(self, incoming: int, channels: int) -> None:
        super().__init__(incoming, channels, (3, 4, 4), stride=(1, 2, 2), padding=1)

    def forward(self, features: Tensor, output_size: list[int] | None = None, *, slope: float | None = None) -> Tensor:
        """`[B, C, T, H, W]` to `[B, C', T, 2 H, 2 W]`, rectified if a slope for negative values is given."""
        frames = features.shape[2]
        if not fast(features, frames):
            found = super().forward(features, output_size)
            return found if slope is None else F.leaky_relu(found, slope)

        def arranged() -> tuple[Tensor, Tensor]:
            assert self.bias is not None
            return _between_frames(self.weight, frames), self.bias.repeat(frames)

        weight, bias = _kept(self, frames, arranged)
        found = F.conv_transpose2d(_side_by_side(features), weight, None, stride=2, padding=1)
        return _one_by_one(after(found, bias, None, slope)[0], frames)


class Subnet(nn.Sequential):
    """Three convolutions, from `channels` via `width` channels to `outputs` at twice the resolution."""

    def __init__(self, channels: int, width: int, outputs: int, slope: float = 0.0) -> None:
        super().__init__(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, width, 3, padding=1),
            nn.LeakyReLU(slope) if slope else nn.ReLU(),
            nn.ConvTranspose2d(width, outputs, 3, stride=2, padding=1, output_padding=1),
        )

    def forward(self, features: Tensor) -> Tensor:
        """`[N, channels, H, W]` to `[N, outputs, 2 H, 2 W]`."""
        if not fast(features):
            for layer in self:
                features = layer(features)
            return features
        first, _, second, rectify_second, last = self
        assert isinstance(second, nn.Conv2d)
        assert isinstance(last, nn.ConvTranspose2d)
        assert isinstance(first, nn.Conv2d)
        missing = -second.out_channels % EIGHT

        def arranged() -> tuple[Tensor, Tensor]:
            assert second.bias is not None
            return F.pad(second.weight, (0, 0, 0, 0, 0, 0, 0, missing)), F.pad(second.bias, (0, missing))

        weight, bias = _kept(second, "padded", arranged)
        slope = rectify_second.negative_slope if isinstance(rectify_second, nn.LeakyReLU) else 0.0
        hidden = after(F.conv2d(rectified(features, first), weight, None, padding=1), bias, None, slope)[0]
        return _doubled(hidden, last, missing)


def each_frame(features: Tensor) -> Tensor:
    """`[B, C, T, H, W]` as single frames `[B T, C, H, W]`."""
    if not fast(features):
        return features.transpose(1, 2).flatten(0, 1)
    return features.permute(0, 2, 3, 4, 1).contiguous().flatten(0, 1).permute(0, 3, 1, 2)  # channels last


def join_channels(parts: Sequence[Tensor]) -> Tensor:
    """Concatenate features `[B, C, T, H, W]` along the channels, in the layout that `FramesConv` needs no copy of."""
    if not fast(parts[0], parts[0].shape[2]):
        return torch.cat(list(parts), 1)
    return torch.cat([part.permute(0, 3, 4, 2, 1) for part in parts], -1).permute(0, 4, 3, 1, 2)


def _side_by_side(features: Tensor, missing: int = 0) -> Tensor:
    """`[B, C, T, H, W]` as `[B, T (C + missing), H, W]`, channels last; a view if it has that layout already."""
    beside = features.permute(0, 3, 4, 2, 1)
    if missing:
        beside = F.pad(beside, (0, missing))
    return beside.contiguous().flatten(3).permute(0, 3, 1, 2)


def _one_by_one(beside: Tensor, frames: int) -> Tensor:
    """`[B, T C, H, W]` as `[B, C, T, H, W]`, a view."""
    return beside.reshape(len(beside), frames, -1, *beside.shape[2:]).transpose(1, 2)


def _kept(layer: nn.Module, how: Hashable, arranged: Callable[[], Arranged]) -> Arranged:
    """Rearranged parameters of a layer, until they change; always anew where a gradient is needed."""
    own = list(layer.parameters())
    if torch.compiler.is_compiling() or (torch.is_grad_enabled() and any(each.requires_grad for each in own)):
        return arranged()
    state = state_of(layer)
    known: dict[Hashable, tuple[Hashable, Arranged]] = layer.__dict__.setdefault("_rearranged", {})
    if how not in known or known[how][0] != state:
        with torch.inference_mode(False), torch.no_grad():
            known[how] = state, arranged()
    return known[how][1]


def _between_frames(weight: Tensor, frames: int) -> Tensor:
    """Weights `[M, N, 3, h, w]` of a 3-D convolution as those of a 2-D one over all frames, `[T M, T N, h, w]`.

    Block (i, j) is plane `j - i + 1` of the weights, or 0. i is the output frame of a convolution, and the input frame
    of a transposed one.
    """
    # [M, 2 T - 1, h, w, N]: the three planes padded with 0; for one frame the middle plane only.
    planes = F.pad(weight.permute(0, 2, 3, 4, 1), (0, 0, 0, 0, 0, 0, frames - 2, frames - 2))
    rows = [
        planes[:, frames - 1 - row : 2 * frames - 1 - row].permute(0, 2, 3, 1, 4)  # [M, h, w, T, N]
        for row in range(frames)
    ]
    blocks = torch.stack(rows)  # [T, M, h, w, T, N]
    return blocks.flatten(4).flatten(0, 1).permute(0, 3, 1, 2)


def _doubled(features: Tensor, last: nn.ConvTranspose2d, missing: int) -> Tensor:
    """A transposed 3 x 3 convolution of stride 2, as a 2 x 2 convolution to four pixels per cell and a pixel shuffle.

    Args:
        features: `[N, C + missing, H, W]`.
        last: from C to C' channels.
        missing: number of padding channels.
    """
    outputs = 4 * last.out_channels

    def arranged() -> tuple[Tensor, Tensor]:
        columns = _phases(last.weight)  # [C, C', 3, 2, 2]: row of the tap; column of the pixel, of the cell
        both = _phases(columns.movedim(2, -1))  # [C, C', 2, 2, 2, 2]: column of the pixel, of the cell; row of both
        weight = both.permute(1, 4, 2, 5, 3, 0).flatten(0, 2)  # [4 C', 2, 2, C]
        surplus = -outputs % EIGHT
        weight = F.pad(weight, (0, missing, 0, 0, 0, 0, 0, surplus)).permute(0, 3, 1, 2)
        assert last.bias is not None
        return weight, F.pad(last.bias.unsqueeze(1).expand(-1, 4).flatten(), (0, surplus))

    weight, bias = _kept(last, missing, arranged)
    found = after(F.conv2d(F.pad(features, (0, 1, 0, 1)), weight, None), bias)[0]
    # As `pixel_shuffle`, but contiguous, as `adacof` reads it: otherwise 6 of 36 ms went into copies (H200, 1920 x
    # 1088).
    cells = found[:, :outputs].reshape(len(found), -1, 2, 2, *found.shape[2:]).permute(0, 1, 4, 2, 5, 3)
    return cells.contiguous().flatten(4).flatten(2, 3)


def _phases(weight: Tensor) -> Tensor:
    """The three taps along one dimension, `[..., 3]`, as those of an even and an odd pixel in two cells, `[..., 2, 2]`.

    With stride 2 and one pixel of padding, pixel 2 y is tap 1 of cell y, and pixel 2 y + 1 is tap 2 of cell y with
    tap 0 of cell y + 1.
    """
    padded = F.pad(weight, (0, 1))
    return torch.stack([padded[..., 1::2], padded[..., 0::2].flip(-1)], -2)
