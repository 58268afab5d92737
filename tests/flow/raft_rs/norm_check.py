"""The Triton kernels in interpreter mode against PyTorch; run as a script by `test_network.py`.

Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
"""

from __future__ import annotations

import torch

from qrsc.flow.raft_rs import norm_kernels
from qrsc.flow.raft_rs.encoder import plainly_normalised


def check(channels: int, groups: int, size: tuple[int, int], skipped: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(channels)
    features, skip = (3.0 + torch.randn(2, channels, *size, generator=generator) for _ in range(2))
    features, skip = (each.to(dtype).to(memory_format=torch.channels_last) for each in (features, skip))
    bias, weight, shift = (torch.randn(channels, generator=generator) for _ in range(3))
    given = (features, bias, groups, weight, shift, 1e-5, skip if skipped else None)
    found, expected = norm_kernels.normalised(*given), plainly_normalised(*given)
    if not found.is_contiguous(memory_format=torch.channels_last):
        raise SystemExit("the result is not channels last")
    # 7e-6 in float32; bfloat16 is rounded to 8 bits.
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0.0 if dtype == torch.float32 else 2**-7)


if __name__ == "__main__":
    norm_kernels.RUN = 64  # several runs, the last one incomplete
    for case in (
        (48, 3, (9, 17), True, torch.float32),
        (20, 1, (5, 7), False, torch.float32),
        (32, 2, (9, 17), True, torch.bfloat16),
    ):
        check(*case)
        print("as PyTorch:", *case)  # noqa: T201  # a script's output
