"""The Triton kernels in interpreter mode against PyTorch; run as a script by `test_blur.py`.

Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.image import blur, blur_kernels, fill_kernels, pyramid_fill


def noise(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape)))


def blurs() -> None:
    for size in ((7, 133), (3, 2)):
        values = noise(2, *size)[None]
        for step in (1, 2):  # not farther than the picture is high
            found = blur_kernels.triangle_blur(values, 1, step)
            torch.testing.assert_close(found, blur._plain_binomial(values, step), atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(
            blur_kernels.triangle_blur(values, 3), blur._plain_triangle(values), atol=2e-6, rtol=1e-5
        )
        torch.testing.assert_close(blur_kernels.box_mean(values, 5), blur._plain_box(values, 5), atol=2e-6, rtol=1e-5)


def filling() -> None:
    for size in ((12, 7), (5, 16)):
        values, weight = noise(2, 2, *size), noise(2, 1, *size) * (noise(2, 1, *size[::-1]).mT > 0.5)
        weight[1] = 0.0
        torch.testing.assert_close(
            pyramid_fill._filled_by_kernels(values, weight),
            pyramid_fill.plainly_filled(values, weight),
            atol=2e-6,
            rtol=1e-5,
        )
        torch.testing.assert_close(fill_kernels.halved(values), pyramid_fill._halved(values), atol=2e-6, rtol=1e-5)


if __name__ == "__main__":
    for case in (blurs, filling):
        case()
        print("as PyTorch:", case.__name__)  # noqa: T201  # a script's output
