from __future__ import annotations

import torch

from qrsc.pipeline.warping import warped_frames
from qrsc.warp import backward_warp, invert_field


def specks(image: torch.Tensor) -> int:
    """How many pixels of a black and white image `[1, 3, H, W]` are unlike all eight around them."""
    around = torch.nn.functional.unfold((image[:, :1] > 0.5).float(), 3)[0]  # [9, N]
    return int(((around[4] - (around.sum(0) - around[4]) / 8.0).abs() == 1.0).sum())


def test_hardly_a_single_pixel_of_an_inverted_field_lands_on_another_surface() -> None:
    # Two surfaces that move apart by 12 px. Beside the outline, inverses end on one or the other.
    generator = torch.Generator().manual_seed(0)
    field = torch.zeros(1, 2, 64, 96)
    field[:, 0, :, 48:] = -12.0
    field += 0.8 * torch.rand(1, 2, 64, 96, generator=generator)  # a flow is not exact, least of all at outlines
    frame = torch.zeros(1, 3, 64, 96)
    frame[..., 48:] = 1.0
    usable = torch.ones(1, 1, 64, 96, dtype=torch.bool)
    [warped] = warped_frames([frame], [field], [usable], [(0.0, 1.0)], "invert", "bilinear")
    plain = backward_warp(frame, invert_field(field).field, "bilinear").image
    left, before = specks(warped.image), specks(plain)
    assert before >= 10
    assert left <= before // 10


def test_a_smooth_field_is_warped_to_the_bit_as_it_was() -> None:
    rows, columns = torch.meshgrid(torch.linspace(-1.0, 1.0, 48), torch.linspace(-1.0, 1.0, 64), indexing="ij")
    field = torch.stack([3.0 * rows * rows, 2.0 * columns - rows])[None]
    frame = torch.rand(1, 3, 48, 64, generator=torch.Generator().manual_seed(1))
    usable = torch.ones(1, 1, 48, 64, dtype=torch.bool)
    [warped] = warped_frames([frame], [field], [usable], [(0.0, 1.0)], "invert", "bicubic")
    distortion, valid = invert_field(field)
    expected = backward_warp(frame, distortion, "bicubic").image.clamp(0.0, 1.0)
    assert bool(valid[..., 8:-8, 8:-8].all())
    assert torch.equal(warped.image[..., 8:-8, 8:-8], expected[..., 8:-8, 8:-8])
