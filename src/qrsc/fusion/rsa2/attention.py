"""Separable attention: in space within windows of each frame, in time over the frames at each pixel."""

from __future__ import annotations

from importlib.util import find_spec

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.kernels import by_kernel

TRITON = find_spec("triton") is not None


class WindowAttention(nn.Module):
    """Self-attention within square windows of each frame.

    The grid of windows starts `shift` pixels before the frame. Windows that reach beyond the frame are padded with
    zeros, which take part in the attention: they mark the edge of the frame.
    """

    def __init__(self, channels: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.qkv = nn.Linear(channels, 3 * channels)
        self.project = nn.Linear(channels, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens `[B, T, H, W, C]` to the same shape."""
        batch, frames, height, width, channels = tokens.shape
        side, shift = self.window, self.shift
        below, right = (-(height + shift)) % side, (-(width + shift)) % side
        if shift or below or right:  # padding by nothing would still copy
            tokens = F.pad(tokens, (0, 0, shift, right, shift, below))
        rows, columns = tokens.shape[2] // side, tokens.shape[3] // side
        tokens = tokens.reshape(batch * frames, rows, side, columns, side, channels).transpose(2, 3)
        windows = tokens.reshape(-1, side * side, channels)  # [B T rows columns, side^2, C]
        mixed = attend(self.qkv(windows).unflatten(-1, (3, self.heads, -1)))  # [windows, side^2, heads, C / heads]
        windows = self.project(mixed.flatten(2))
        tokens = windows.reshape(batch * frames, rows, columns, side, side, channels).transpose(2, 3)
        tokens = tokens.reshape(batch, frames, rows * side, columns * side, channels)
        return tokens[:, :, shift : shift + height, shift : shift + width]


def attend(qkv: Tensor) -> Tensor:
    """Attention among the tokens of each window: our own kernel on a GPU if no gradient is needed, else PyTorch's.

    Args:
        qkv: `[windows, tokens, 3, heads, C]`, queries, keys and values.

    Returns:
        `[windows, tokens, heads, C]`.
    """
    tokens = qkv.shape[1]
    half = qkv.dtype in (torch.bfloat16, torch.float16)
    square = tokens >= 16 and tokens & (tokens - 1) == 0
    if TRITON and qkv.is_cuda and half and square and not (torch.is_grad_enabled() and qkv.requires_grad):
        # Calling the operator imports the compiler, which takes seconds: only where it compiles.
        result: Tensor = (_attend_windows if torch.compiler.is_compiling() else _by_kernel)(qkv)
        return result
    query, key, value = qkv.permute(2, 0, 3, 1, 4)
    return F.scaled_dot_product_attention(query, key, value).transpose(1, 2)


def _by_kernel(qkv: Tensor) -> Tensor:
    from qrsc.fusion.rsa2.window_kernels import attend_windows

    return attend_windows(qkv)


_attend_windows = torch.library.custom_op("qrsc::attend_windows", _by_kernel, mutates_args=())


@_attend_windows.register_fake
def _(qkv: Tensor) -> Tensor:
    return qkv.new_empty(qkv.shape[0], qkv.shape[1], qkv.shape[3], qkv.shape[4])


class TemporalAttention(nn.Module):
    """Self-attention over the frames at each pixel.

    Written out in elementary operations: there are as many sequences as pixels, more than the fused kernels take in one
    launch (65535), and each is only a few frames long.
    """

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(channels, 3 * channels)
        self.project = nn.Linear(channels, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens `[B, T, H, W, C]` to the same shape."""
        qkv = self.qkv(tokens).unflatten(-1, (3, self.heads, -1))  # [B, T, H, W, 3, heads, c]

        def kernel() -> Tensor:
            from qrsc.fusion.rsa2 import token_kernels

            return token_kernels.attend_frames(qkv)

        mixed = by_kernel("attention over frames", kernel, lambda: plainly_attended(qkv), qkv)
        result: Tensor = self.project(mixed.flatten(-2))
        return result


def plainly_attended(qkv: Tensor) -> Tensor:
    """Attention over frames, from queries, keys and values `[B, T, H, W, 3, heads, c]`: `[B, T, H, W, heads, c]`."""
    query, key, value = qkv.unbind(-3)
    mixed = []
    # The sums are short: 16 products, a few frames. Autocasting would make float32 copies of everything.
    with torch.autocast(qkv.device.type, enabled=False):
        query = query * query.shape[-1] ** -0.5
        for frame in range(qkv.shape[1]):
            scores = (query[:, frame : frame + 1] * key).sum(-1, keepdim=True)  # [B, T, H, W, heads, 1]
            mixed.append((torch.softmax(scores, 1) * value).sum(1))
    return torch.stack(mixed, 1)


class Norm(nn.LayerNorm):
    """PyTorch's layer norm in the precision of its tokens, which autocasting would turn into float32 from here on.

    The sums inside are in float32 in any case.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens `[..., C]` to the same shape."""
        return self.after(tokens, None)[1]

    def after(self, tokens: Tensor, change: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens `[..., C]` with a change added, and these normalised."""
        given = (tokens, change, self.weight, self.bias, self.eps)

        def kernel() -> tuple[Tensor, Tensor]:
            from qrsc.fusion.rsa2 import token_kernels

            return token_kernels.normalised(*given)

        return by_kernel("layer norm", kernel, lambda: plainly_normalised(*given), tokens, self.weight)


def plainly_normalised(
    tokens: Tensor, change: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """The slow twin of `Norm.after`."""
    tokens = tokens if change is None else tokens + change
    weight, bias = weight.to(tokens.dtype), bias.to(tokens.dtype)
    with torch.autocast(tokens.device.type, enabled=False):
        return tokens, F.layer_norm(tokens, weight.shape, weight, bias, epsilon)


class Block(nn.Module):
    """Window attention, temporal attention and a multi-layer perceptron, each with a skip connection."""

    def __init__(self, channels: int, heads: int, window: int, shift: int, mlp_ratio: int) -> None:
        super().__init__()
        self.spatial_norm = Norm(channels)
        self.spatial = WindowAttention(channels, heads, window, shift)
        self.temporal_norm = Norm(channels)
        self.temporal = TemporalAttention(channels, heads)
        self.mlp_norm = Norm(channels)
        self.expand = nn.Linear(channels, mlp_ratio * channels)
        self.reduce = nn.Linear(mlp_ratio * channels, channels)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens `[B, T, H, W, C]` to the same shape."""
        tokens, normal = self.temporal_norm.after(tokens, self.spatial(self.spatial_norm(tokens)))
        tokens, normal = self.mlp_norm.after(tokens, self.temporal(normal))
        mixed: Tensor = self.reduce(F.gelu(self.expand(normal)))
        return tokens + mixed
