from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from qrsc.simulate.paint.gather import weighted_rows


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


def test_the_sum_of_rows() -> None:
    index, tables, weight = lookups(torch.float64)
    expected = torch.einsum("mk,gmkc->gcm", weight, tables[:, index])
    torch.testing.assert_close(weighted_rows(index, tables, weight), expected)
    torch.testing.assert_close(weighted_rows(index.int(), tables[:1], weight), expected[:1])


def test_no_lookups() -> None:
    index, tables, weight = lookups(torch.float32)
    assert weighted_rows(index[:0], tables, weight[:0]).shape == (2, 9, 0)


def test_the_shapes_are_checked() -> None:
    index, tables, weight = lookups(torch.float32)
    with pytest.raises(ValueError, match=r"index and weight as \[M, K\]"):
        weighted_rows(index, tables, weight[:, :2])


def test_the_kernel_in_triton_s_interpreter() -> None:
    """In a process of its own: the interpreter has to be chosen before Triton is imported."""
    pytest.importorskip("triton")
    code = (
        "import sys, torch; sys.path.insert(0, sys.argv[1]); from test_gather import compare; "
        "print(compare(torch.float32, 'cpu') < 1e-5, compare(torch.float64, 'cpu') < 1e-12)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(__file__)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.stdout.split() == ["True", "True"], run.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_kernel_on_a_gpu(dtype: torch.dtype, tolerance: float) -> None:
    assert compare(dtype, "cuda") < tolerance
