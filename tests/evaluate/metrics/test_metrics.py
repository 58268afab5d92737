from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from skimage.metrics import structural_similarity
from torch import Tensor

from qrsc.evaluate.metrics.image_quality import masked_psnr, psnr, ssim, to_eight_bits


def pair(*shape: int) -> tuple[Tensor, Tensor]:
    """A smooth picture with noise, and the same with other noise: SSIM well between 0 and 1."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(*shape[:-2], 6, 6, generator=generator).reshape(-1, 3, 6, 6)
    smooth = torch.nn.functional.interpolate(coarse, shape[-2:], mode="bilinear").reshape(shape)
    return tuple((smooth + 0.05 * torch.randn(shape, generator=generator)).clamp(0, 1) for _ in range(2))  # type: ignore[return-value]  # two of them


def test_psnr_by_hand() -> None:
    truth = torch.full((3, 4, 5), 100 / 255)
    picture = truth.clone()
    picture[0, 0, 0] += 51 / 255  # squared error 0.04 in one of 60 values
    assert psnr(picture, truth).item() == pytest.approx(-10 * math.log10(0.04 / 60), abs=1e-4)


def test_psnr_of_known_offset() -> None:
    assert psnr(torch.full((3, 2, 2), 0.8), torch.full((3, 2, 2), 0.6)).item() == pytest.approx(13.9794, abs=1e-4)


def test_psnr_measures_what_an_8_bit_file_would_hold() -> None:
    truth = torch.full((3, 4, 4), 0.5)
    assert psnr(truth + 0.4 / 255 * 0.5, truth) == math.inf, "less than half a step is nothing"
    assert psnr(torch.full((3, 4, 4), 1.7), torch.ones(3, 4, 4)) == math.inf, "clamped"
    one_step = psnr(torch.full((3, 4, 4), 128 / 255), torch.full((3, 4, 4), 127 / 255))
    assert one_step.item() == pytest.approx(20 * math.log10(255), abs=1e-5)


def test_masked_psnr_by_hand() -> None:
    truth = torch.zeros(3, 2, 2)
    picture = torch.zeros(3, 2, 2)
    picture[:, 0, 0] = torch.tensor([0.2, 0.4, 0.0])  # on the mask: (0.04 + 0.16) over 2 pixels of 3 channels
    picture[:, 1, 1] = 1.0  # off the mask
    mask = torch.tensor([[[True, True], [False, False]]])
    assert masked_psnr(picture, truth, mask).item() == pytest.approx(-10 * math.log10(0.2 / 6), abs=1e-6)


def test_masked_psnr_with_a_full_mask_is_psnr() -> None:
    picture, truth = pair(2, 3, 13, 17)
    torch.testing.assert_close(masked_psnr(picture, truth, torch.ones(1, 13, 17).bool()), psnr(picture, truth))


def test_masked_psnr_ignores_what_lies_outside_even_nan() -> None:
    picture, truth = pair(3, 8, 8)
    mask = torch.zeros(1, 8, 8, dtype=torch.bool)
    mask[:, :4] = True
    spoilt = torch.where(mask, picture, torch.nan)
    expected = psnr(picture[:, :4], truth[:, :4])
    torch.testing.assert_close(masked_psnr(spoilt, truth, mask), expected)


def test_equal_pictures_are_infinite_and_an_empty_mask_is_not_a_number() -> None:
    picture, _ = pair(3, 8, 8)
    assert psnr(picture, picture) == math.inf
    assert masked_psnr(picture, picture, torch.ones(1, 8, 8).bool()) == math.inf
    assert masked_psnr(picture, 1 - picture, torch.zeros(1, 8, 8).bool()).isnan()
    torch.testing.assert_close(ssim(pair(3, 16, 16)[0], pair(3, 16, 16)[0]), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("size", [(11, 11), (32, 47), (100, 40)])
def test_ssim_equals_that_of_scikit_image(size: tuple[int, int]) -> None:
    picture, truth = pair(3, *size)
    expected = structural_similarity(
        to_eight_bits(picture).numpy(),
        to_eight_bits(truth).numpy(),
        channel_axis=0,
        data_range=1.0,
        gaussian_weights=True,
        sigma=1.5,
        use_sample_covariance=False,
    )
    assert 0.2 < expected < 0.98
    assert ssim(picture, truth).item() == pytest.approx(expected, abs=1e-5)


def test_figures_equal_those_of_torchmetrics() -> None:
    from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

    picture, truth = (to_eight_bits(part).unsqueeze(0) for part in pair(3, 40, 47))
    expected = peak_signal_noise_ratio(picture, truth, data_range=1.0)
    torch.testing.assert_close(psnr(picture, truth)[0], expected, atol=1e-5, rtol=0)  # it takes log 10 in float32
    # Its mean takes in the border, padded by reflection; its map without the border is ours.
    _, similarity = structural_similarity_index_measure(picture, truth, data_range=1.0, return_full_image=True)
    torch.testing.assert_close(ssim(picture, truth)[0], similarity[..., 5:-5, 5:-5].mean(), atol=1e-5, rtol=0)


def test_one_figure_for_each_picture() -> None:
    picture, truth = pair(2, 4, 3, 16, 20)
    mask = torch.rand(2, 4, 1, 16, 20, generator=torch.Generator().manual_seed(0)) > 0.5
    for measure in (psnr, ssim):
        figures = measure(picture, truth)
        assert figures.shape == (2, 4)
        assert figures.dtype == torch.float64
        torch.testing.assert_close(figures[1, 2], measure(picture[1, 2], truth[1, 2]))
    masked = masked_psnr(picture, truth, mask)
    torch.testing.assert_close(masked[1, 2], masked_psnr(picture[1, 2], truth[1, 2], mask[1, 2]))


@pytest.mark.parametrize("measure", [psnr, ssim])
def test_shapes_that_do_not_fit_are_refused(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(ValueError, match=r"got \[3, 8, 8\] and \[3, 8, 9\]"):
        measure(torch.zeros(3, 8, 8), torch.zeros(3, 8, 9))
    with pytest.raises(ValueError, match=r"\[\.\.\., 3, H, W\]"):
        measure(torch.zeros(8, 8, 3), torch.zeros(8, 8, 3))


def test_masks_and_sizes_that_do_not_fit_are_refused() -> None:
    picture = torch.zeros(3, 8, 8)
    with pytest.raises(TypeError, match=r"bool tensor, got torch\.float32"):
        masked_psnr(picture, picture, torch.ones(1, 8, 8))
    with pytest.raises(ValueError, match=r"\[\.\.\., 1, H, W\]"):
        masked_psnr(picture, picture, torch.ones(3, 8, 8).bool())
    with pytest.raises(ValueError, match="at least 11x11 pixels, got 8x8"):
        ssim(picture, picture)


def test_to_eight_bits_rounds_as_numpy_does() -> None:
    values = torch.rand(1000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    np.testing.assert_array_equal((to_eight_bits(values) * 255).round().numpy(), np.rint(values.numpy() * 255))
