from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.warp import WARP_METHODS, apply_correction, backward_warp, invert_field, jacobian, pixel_grid, sample, splat

from .fields import AFFINE, affine_field, assert_close, rand, translation


def texture(position: Tensor) -> Tensor:
    """A smooth image, defined everywhere: `[3, H, W]` at positions `[2, H, W]`."""
    x, y = position
    waves = [torch.sin(0.31 * x + 0.17 * y + n) + torch.cos(0.23 * y - 0.11 * x * (n + 1)) for n in range(3)]
    return 0.5 + 0.2 * torch.stack(waves)


@pytest.mark.parametrize("name", ["zoom in", "zoom out", "rotation", "squeeze and shear"])
def test_inverting_comes_closer_than_negating(name: str) -> None:
    # The image at p belongs at p + field(p), so the truth at m is the image at m + inverse(m).
    field, inverse = affine_field(*AFFINE[name])
    grid = pixel_grid(40, 40, dtype=torch.float64)
    frame, truth = texture(grid), texture(grid + inverse)
    inner = (slice(None), slice(10, -10), slice(10, -10))
    errors = {
        method: float((apply_correction(frame, field, method).image - truth)[inner].abs().max())
        for method in WARP_METHODS
    }
    assert errors["invert"] < 0.007  # measured: 0.0065, the error of cubic interpolation on this texture
    assert errors["invert"] < errors["negate"] / 4
    assert errors["splat"] < errors["negate"] / 1.8


def test_a_translation_is_corrected_alike_by_every_method() -> None:
    frame = rand(3, 10, 10)
    for method in WARP_METHODS:
        corrected, valid = apply_correction(frame, translation(2, 1, 10, 10), method)
        assert_close(corrected[:, 1:, 2:], frame[:, :-1, :-2], 1e-5)
        assert int(valid.sum()) == 9 * 8


def test_wrong_arguments_say_what_was_expected() -> None:
    image, field = rand(3, 4, 4), torch.zeros(2, 4, 4)
    with pytest.raises(ValueError, match="choose one of bilinear, bicubic"):
        sample(image, field, "nearest")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="choose one of invert, splat, negate"):
        apply_correction(image, field, "inverse")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match=r"field must be \[\.\.\., 2, H, W\].*got \(3, 4, 4\)"):
        backward_warp(image, image)
    with pytest.raises(ValueError, match=r"same leading dimensions; got \(1, 3, 4, 4\) and \(2, 4, 4\)"):
        sample(image[None], field)
    with pytest.raises(
        ValueError, match=r"must have the same shape except for the channels; got \(3, 4, 4\) and \(2, 4, 5\)"
    ):
        splat(image, torch.zeros(2, 4, 5))
    with pytest.raises(ValueError, match="steps must be at least 1, got 0"):
        invert_field(field, steps=0)
    with pytest.raises(ValueError, match=r"field must be .* got \(4, 4\)"):
        jacobian(torch.zeros(4, 4))
