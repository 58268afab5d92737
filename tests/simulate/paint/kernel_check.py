"""The Triton kernel against an explicit sum: in interpreter mode as a script run by `test_gather.py`, or on a GPU."""

from __future__ import annotations

import torch


def lookups(dtype: torch.dtype, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Index, tables and weights; the last lookups of a block are left empty."""
    generator = torch.Generator().manual_seed(0)
    index = torch.randint(17, (300, 3), generator=generator)
    tables = torch.randn(2, 17, 9, generator=generator, dtype=torch.float64)
    weight = torch.rand(300, 3, generator=generator, dtype=torch.float64)
    return index.to(device), tables.to(device, dtype), weight.to(device, dtype)


def compare(dtype: torch.dtype, device: str) -> float:
    """Largest difference between the kernel and an explicit sum."""
    from qrsc.simulate.paint.gather_kernel import weighted_rows as kernel

    index, tables, weight = lookups(dtype, device)
    expected = torch.einsum("mk,gmkc->gcm", weight, tables[:, index])
    return float((kernel(index, tables, weight) - expected).abs().max())


if __name__ == "__main__":
    for kind, most in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        print(compare(kind, "cpu") < most)  # noqa: T201  # a script's output
