"""A frame moved along a correction field that may be of another size."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.pipeline.fields import resized_field, resized_picture
from qrsc.pipeline.moments import Moment
from qrsc.warp import Interpolation, Warped, WarpMethod, apply_correction, backward_warp, invert_field

PATCH = 5  # pixels


def warped_frame(
    moment: Moment, known: Tensor, correction: Tensor, method: WarpMethod, interpolation: Interpolation
) -> Warped:
    """A frame corrected to an instant, with the solver's validity carried along.

    Convention
        `correction` is RS -> GS on a grid of any size over the frame, in pixels of that grid; it is inverted there,
        and what the frame is sampled with is enlarged.

    Args:
        moment: the frame.
        known: `[1, 1, h, w]` bool, where the correction can be used.
        correction: `[1, 2, h, w]`.
        method: `invert`, `splat` or `negate`.
        interpolation: for `invert` and `negate`.
    """
    frame, size = moment.frame, moment.frame.shape[-2:]
    if method == "splat":
        return _splatted(moment, known, resized_field(correction, size), interpolation)
    if method == "invert":
        distortion, valid = invert_field(correction)
        valid = _without_specks(valid)
    else:
        distortion, valid = -correction, torch.ones_like(known)
    if not bool(known.all()):
        carried = backward_warp(known.to(frame.dtype), distortion, interpolation).image
        valid = valid & (carried > 0.5)
    image, inside = backward_warp(frame, resized_field(distortion, size), interpolation)
    if valid.shape[-2:] != size:
        valid = resized_picture(valid.to(frame.dtype), size) > 0.5
    return Warped(image.clamp(*moment.limits), valid & inside)


def _without_specks(valid: Tensor) -> Tensor:
    """Validity `[1, 1, h, w]` as most of the pixels around each one have it.

    Where two motions meet, single pixels fold over or do not converge, and a neighbouring frame put in their place one
    by one shows as a dotted seam. Only where a whole patch is not valid is there something to fill.
    """
    around = F.avg_pool2d(valid.float(), PATCH, 1, PATCH // 2, count_include_pad=False)
    return around > 0.5


def _splatted(moment: Moment, known: Tensor, correction: Tensor, interpolation: Interpolation) -> Warped:
    frame = moment.frame
    known = resized_picture(known.to(frame.dtype), frame.shape[-2:])
    image, valid = apply_correction(torch.cat([frame, known], 1), correction, "splat")
    valid = valid & (image[:, 3:] > 0.5)
    # Holes show what an inverse warp would put there, and stay not valid.
    filler = apply_correction(frame, correction, "invert", interpolation=interpolation).image
    return Warped(torch.where(valid, image[:, :3], filler).clamp(*moment.limits), valid)
