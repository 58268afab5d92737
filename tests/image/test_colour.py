from __future__ import annotations

import torch

from qrsc.image.colour import from_ycbcr, to_ycbcr


def test_brightness_and_colours_and_back() -> None:
    pictures = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
    ycbcr = to_ycbcr(pictures)
    luma = 0.299 * pictures[:, 0] + 0.587 * pictures[:, 1] + 0.114 * pictures[:, 2]
    torch.testing.assert_close(ycbcr[:, 0], luma)
    torch.testing.assert_close(from_ycbcr(ycbcr), pictures)
    grey = pictures[:, :1].expand(-1, 3, -1, -1)
    torch.testing.assert_close(to_ycbcr(grey)[:, 1:], torch.zeros(2, 2, 4, 5), atol=1e-6, rtol=0)
    assert to_ycbcr(pictures.half()).dtype == torch.float32
    assert to_ycbcr(pictures.double()).dtype == torch.float64
