"""The Triton kernels in interpreter mode against PyTorch; run as a script by `test_invert.py`.

Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend import opencv
from qrsc.pipeline import warping
from qrsc.pipeline.warping import OUTLIER
from qrsc.warp import invert_field, invert_kernels
from qrsc.warp.invert import MAX_RESIDUAL
from qrsc.warp.invert_cpu import MAX_JUMP
from qrsc.warp.invert_kernels import cleaned, inverted
from qrsc.warp.splatting import MAX_COVERAGE


def fields() -> Tensor:
    """Smooth ones, whole ones, and ones of two surfaces that tear and fold; `[3, 2, 18, 27]`."""
    generator = torch.Generator().manual_seed(0)
    smooth = F.interpolate(1.5 * torch.randn(3, 2, 3, 4, generator=generator), size=(18, 27), mode="bicubic")
    smooth[1] = smooth[1].round() + 0.5  # each lands halfway between two
    smooth[2, 0, 5:15, 10:22] += 6.0
    smooth[0, 0, 3, 4] = torch.nan
    return smooth


if __name__ == "__main__":
    opencv.supports = lambda *_: False  # the operators that a GPU would run
    invert_kernels.BLOCK = 512  # a program for each field
    warping.PATCH = 3  # a median of 25 takes a minute here
    given = fields()
    inverse, valid = inverted(given, 8, MAX_JUMP, MAX_RESIDUAL, MAX_COVERAGE)
    expected = invert_field(given)
    # `grid_sample` rescales coordinates, which moves some of them across a limit.
    off = (inverse - expected.field).abs().amax(1, keepdim=True).nan_to_num(0.0) > 1e-3
    other = off | (valid != expected.valid)
    if float(other.float().mean()) > 5e-3 or not 0.3 < float(valid.float().mean()) < 0.97:
        raise SystemExit(f"{int(other.sum())} points differ, {float(valid.float().mean()):.2f} valid")
    print("inverted", int(other.sum()), f"{float(valid.float().mean()):.2f}")  # noqa: T201  # a script's output
    finite = expected.field.nan_to_num(0.0)
    field, voted = cleaned(finite, expected.valid, warping.PATCH, OUTLIER)
    torch.testing.assert_close(field, warping._without_outliers(finite, expected.valid), atol=0.0, rtol=0.0)
    changed = float((field != finite).float().mean())
    if not torch.equal(voted, warping._without_specks(expected.valid)) or not 0.05 < changed < 0.5:
        raise SystemExit(f"votes differ, or {changed} was changed")
    print("cleaned", f"{changed:.2f}")  # noqa: T201  # a script's output
