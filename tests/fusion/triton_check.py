"""The Triton kernels in interpreter mode against PyTorch; run as a script by `test_adacof.py`.

Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
"""

from __future__ import annotations

import torch

from qrsc.fusion.adacof.kernels import adacof_backward, adacof_forward
from qrsc.fusion.adacof.operator import loop_backward, loop_forward
from qrsc.fusion.lite import filter_kernels
from qrsc.fusion.lite.network import STRIDE, plainly_filtered
from qrsc.fusion.rsa2 import token_kernels
from qrsc.fusion.rsa2.attention import attend, plainly_attended, plainly_normalised
from qrsc.fusion.rsa2.window_kernels import attend_windows


def largest_differences(
    dtype: torch.dtype, taps: int, dilation: int, to_frames: bool, channels: int = 3
) -> list[float]:
    """Of values and of the gradients of frames, weights, alpha and beta, relative to the largest value of each."""
    generator = torch.Generator().manual_seed(taps + dilation)
    shape = (2, taps * taps, 9, 17)
    frames = torch.rand(2, channels, 9, 17, generator=generator).to(dtype)
    weights, alpha, beta = ((torch.randn(shape, generator=generator) * size).to(dtype) for size in (1.0, 3.0, 3.0))
    gradient = torch.randn(2, channels, 9, 17, generator=generator).to(dtype)
    inputs = (frames, weights, alpha, beta, dilation)
    fast = [adacof_forward(*inputs), *adacof_backward(gradient, *inputs, to_frames)]
    slow = [loop_forward(*inputs), *loop_backward(gradient, *inputs, to_frames)]
    differences = []
    for quick, exact in zip(fast, slow, strict=True):
        if quick.shape != exact.shape or quick.dtype != exact.dtype:
            raise SystemExit(f"{quick.shape}, {quick.dtype} instead of {exact.shape}, {exact.dtype}")
        if exact.numel():
            differences.append(float((quick.float() - exact.float()).abs().max() / exact.float().abs().max()))
    return differences


def of_tokens() -> None:
    """Layer norm, and attention over frames."""
    generator = torch.Generator().manual_seed(0)
    given, change = (2.0 + torch.randn(2, 3, 5, 9, 24, generator=generator) for _ in range(2))
    weight, bias = torch.randn(2, 24, generator=generator)
    for added in (None, change):
        found, expected = (
            of(given, added, weight, bias, 1e-5) for of in (token_kernels.normalised, plainly_normalised)
        )
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
    qkv = 3.0 * torch.randn(2, 3, 3, 7, 3, 2, 12, generator=generator)
    torch.testing.assert_close(token_kernels.attend_frames(qkv), plainly_attended(qkv), atol=1e-5, rtol=1e-5)


def filtering() -> None:
    """Kernels for each pixel, of a layer with other channels after them."""
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(2, 3, 8, 12, generator=generator)
    found = torch.randn(2, 9 * STRIDE**2 + 5, 2, 3, generator=generator)
    quick = filter_kernels.filtered(pictures, found, 3, STRIDE)
    torch.testing.assert_close(quick, plainly_filtered(pictures, found, 3), atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    for case in (of_tokens, filtering):
        case()
        print("as PyTorch:", case.__name__)  # noqa: T201  # a script's output
    for dtype, taps, dilation, to_frames, most in (
        (torch.float32, 5, 1, False, 1e-5),
        (torch.float32, 3, 2, True, 1e-5),
        (torch.bfloat16, 3, 1, True, 8e-3),
    ):
        found = largest_differences(dtype, taps, dilation, to_frames)
        if max(found) > most:
            raise SystemExit(f"{dtype}, {taps} x {taps} taps, dilation {dilation}: {found} is more than {most}")
        print(dtype, taps, dilation, *(f"{value:.1e}" for value in found))  # noqa: T201  # a script's output
    for channels in (1, 4):
        found = largest_differences(torch.float32, 3, 1, False, channels)
        if max(found) > 1e-5:
            raise SystemExit(f"{channels} channels: {found}")
    for tokens, heads, channels in ((64, 2, 16), (16, 3, 12)):
        qkv = torch.randn(3, tokens, 3, heads, channels, generator=torch.Generator().manual_seed(0))
        difference = float((attend_windows(qkv) - attend(qkv)).abs().max())
        if difference > 1e-5:
            raise SystemExit(f"windows of {tokens}, {heads} heads of {channels}: {difference}")
        print("windows", tokens, heads, channels, f"{difference:.1e}")  # noqa: T201  # a script's output
