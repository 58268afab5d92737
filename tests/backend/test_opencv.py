from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from qrsc.backend import opencv
from qrsc.image.blur import box_mean
from qrsc.image.sampling import enlarged, inside

SMALL = st.tuples(st.integers(1, 9), st.integers(1, 9))
MORE = st.tuples(st.integers(0, 30), st.integers(0, 30))


def rand(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def test_only_plain_tensors_are_handed_over() -> None:
    values = rand(1, 1, 2, 3)
    assert opencv.supports(values, values)
    assert not opencv.supports(values, values.double())
    assert not opencv.supports(values[..., :0])
    asked = values.clone().requires_grad_()
    assert not opencv.supports(asked)
    with torch.no_grad():
        assert opencv.supports(asked)


@settings(max_examples=25)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
    st.integers(0, 9),
)
def test_enlarging_is_torchs(size: tuple[int, int], more: tuple[int, int], seed: int) -> None:
    picture = rand(2, 2, *size, seed=seed) - 0.5
    wanted = (size[0] + more[0], size[1] + more[1])
    expected = F.interpolate(picture, size=wanted, mode="bilinear", align_corners=False)
    torch.testing.assert_close(enlarged(picture, wanted), expected, atol=1e-5, rtol=0)
    assert enlarged(picture.requires_grad_(), wanted).requires_grad


def test_parts_of_pictures_are_enlarged_as_they_are_seen() -> None:
    """Tensors that are not contiguous: a frame of a stack, or a mirrored image."""
    stack = rand(2, 3, 4, 5)
    part = stack[:, 1:].flip(-1)
    expected = F.interpolate(part, size=(9, 11), mode="bilinear", align_corners=False)
    torch.testing.assert_close(enlarged(part, (9, 11)), expected)


@pytest.mark.parametrize("block", [(1, 1), (2, 2), (4, 4), (3, 5), (1, 4)])
def test_means_of_blocks_are_torchs(block: tuple[int, int]) -> None:
    picture = rand(2, 3, 3 * block[0], 4 * block[1]) - 0.5
    torch.testing.assert_close(opencv.block_means(picture, (3, 4)), F.avg_pool2d(picture, block))


@pytest.mark.parametrize("size", [(7, 9), (2, 3), (1, 1), (40, 50)])
@pytest.mark.parametrize("side", [1, 3, 5])
def test_sums_over_windows_are_torchs(size: tuple[int, int], side: int) -> None:
    values = rand(2, 3, *size)
    torch.testing.assert_close(box_mean(values, side), box_mean(values.double(), side).float())


def test_inside_is_the_same_for_any_precision() -> None:
    x = torch.tensor([-0.5, -0.6, 0.0, 3.5, 3.6, float("nan"), float("inf")])
    y = torch.full_like(x, 1.5)
    expected = [True, False, True, True, False, False, False]
    for dtype in (torch.float32, torch.float64):
        assert inside(x.to(dtype), y.to(dtype), 2, 4).tolist() == expected
        assert inside(y.to(dtype), x.to(dtype), 4, 2).tolist() == expected
    assert not bool(inside(x, y + 0.1, 2, 4).any())
