"""The measures that a trained fusion is scored by besides PSNR."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from qrsc.evaluate.metrics.detail import detail
from qrsc.evaluate.metrics.image_quality import ssim
from qrsc.evaluate.metrics.st_lpips import load_st_lpips


def sample_measures() -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    """SSIM, detail, and ST-LPIPS if its weights are installed, by heading.

    Each takes pictures and their truths, `[B, 3, H, W]` in [0, 1], and returns one figure for each, `[B]`.
    """
    measures: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"SSIM": ssim, "detail": detail}
    try:
        measures["ST-LPIPS"] = load_st_lpips()
    except ValueError:
        return measures  # nothing is missed that was asked for: the scores are shown without that column
    return measures
