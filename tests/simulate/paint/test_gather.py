from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qrsc.simulate.paint.gather import weighted_rows

from ...interpreted import interpreted, needs_triton
from .kernel_check import compare, lookups


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


@needs_triton
def test_the_kernel_in_triton_s_interpreter() -> None:
    assert interpreted(Path(__file__).with_name("kernel_check.py")).split() == ["True", "True"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_the_kernel_on_a_gpu(dtype: torch.dtype, tolerance: float) -> None:
    assert compare(dtype, "cuda") < tolerance
