from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from qrsc.image.blur import binomial_blur, box_mean, fine_detail, median_filter

from ..interpreted import interpreted, needs_triton


@pytest.mark.parametrize("step", [1, 2])
def test_a_point_becomes_the_window_and_a_flat_picture_stays(step: int) -> None:
    point = torch.zeros(1, 1, 9, 9)
    point[..., 4, 4] = 16.0
    places = torch.tensor([4 - step, 4, 4 + step])
    window = binomial_blur(point, step)[0, 0][places[:, None], places]
    assert window.tolist() == [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    flat = torch.full((2, 3, 5, 4), 0.3)
    torch.testing.assert_close(binomial_blur(flat, step), flat)


def test_fine_detail_by_hand() -> None:
    ramp = torch.linspace(0.0, 1.0, 40).expand(2, 3, 30, 40)
    assert float(fine_detail(ramp)[..., 8:-8].abs().max()) < 1e-6, "what is smooth is not fine"
    stripes = torch.zeros(1, 3, 30, 40)
    stripes[..., ::2] = 1.0
    torch.testing.assert_close(fine_detail(stripes)[..., 8:-8], (stripes - 0.5)[..., 8:-8])


@pytest.mark.parametrize("size", [(7, 9), (2, 3), (1, 1)])
def test_a_box_counts_what_lies_inside(size: tuple[int, int]) -> None:
    values = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = F.avg_pool2d(values, 5, 1, 2, count_include_pad=False)
    torch.testing.assert_close(box_mean(values, 5), expected)
    values.requires_grad_()
    assert torch.autograd.gradcheck(lambda given: box_mean(given, 3), values)


def test_half_precision_counts_right() -> None:
    ones = torch.ones(1, 1, 3, 1100, dtype=torch.bfloat16)
    assert torch.equal(box_mean(ones, 5), ones)


@pytest.mark.parametrize("side", [3, 5])
def test_median_filter_is_the_same_by_opencv_and_by_torch(side: int) -> None:
    values = torch.rand(2, 3, 9, 12, generator=torch.Generator().manual_seed(0))
    filtered = median_filter(values, side)
    assert torch.equal(filtered.double(), median_filter(values.double(), side))
    assert float(filtered[1, 2, 4, 6]) == float(
        values[1, 2, 4 - side // 2 : 5 + side // 2, 6 - side // 2 : 7 + side // 2].median()
    )
    single = torch.zeros(1, 1, 9, 9)
    single[0, 0, 4, 4] = 1.0
    assert float(median_filter(single, side).max()) == 0.0


@needs_triton
def test_triton_kernels_are_what_torch_makes_of_the_same() -> None:
    said = interpreted(Path(__file__).with_name("kernel_check.py"))
    assert said.count("as PyTorch") == 2
