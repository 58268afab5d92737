"""Frames moved along correction fields that may be of another size."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from qrsc.image.blur import box_mean
from qrsc.image.resize import resized_field, resized_picture
from qrsc.pipeline.window import Moment
from qrsc.warp import (
    Interpolation,
    InvertedField,
    Warped,
    WarpMethod,
    apply_correction,
    backward_warp,
    invert_field,
)

PATCH = 5  # pixels


def warped_frames(
    moments: Sequence[Moment],
    known: Sequence[Tensor],
    corrections: Sequence[Tensor],
    method: WarpMethod,
    interpolation: Interpolation,
) -> list[Warped]:
    """Frames corrected to an instant, with the solver's validity carried along.

    Convention
        A correction is RS -> GS on a grid of any size over the frame, in pixels of that grid; it is inverted there,
        and what the frame is sampled with is enlarged.

    Args:
        moments: the frames.
        known: `[B, 1, h, w]` bool of each, where the correction can be used.
        corrections: `[B, 2, h, w]` of each.
        method: `invert`, `splat` or `negate`.
        interpolation: for `invert` and `negate`.
    """
    if method == "splat":
        each = zip(moments, known, corrections, strict=True)
        return [_splatted(moment, usable, correction, interpolation) for moment, usable, correction in each]
    back = _way_back(torch.cat(list(known)), torch.cat(list(corrections)), method, interpolation)
    distortions, valid = (each.chunk(len(moments)) for each in back)
    sampled_with = zip(moments, distortions, valid, strict=True)
    return [_sampled(moment, distortion, shown, interpolation) for moment, distortion, shown in sampled_with]


def _way_back(known: Tensor, correction: Tensor, method: WarpMethod, interpolation: Interpolation) -> InvertedField:
    """What frames are sampled with, on the grid of the corrections; small fields take hardly longer together."""
    if method == "invert":
        distortion, valid = invert_field(correction)
        valid = _without_specks(valid)
    else:
        distortion, valid = -correction, torch.ones_like(known)
    if not bool(known.all()):
        carried = backward_warp(known.to(distortion.dtype), distortion, interpolation).image
        valid = valid & (carried > 0.5)
    return InvertedField(distortion, valid)


def _sampled(moment: Moment, distortion: Tensor, valid: Tensor, interpolation: Interpolation) -> Warped:
    frame, size = moment.frame, moment.frame.shape[-2:]
    image, inside = backward_warp(frame, resized_field(distortion, size), interpolation)
    if valid.shape[-2:] != size:
        valid = resized_picture(valid.to(frame.dtype), size) > 0.5
    return Warped(image.clamp(*moment.limits), valid & inside)


def _without_specks(valid: Tensor) -> Tensor:
    """Validity `[B, 1, h, w]` as most of the pixels around each one have it.

    Where two motions meet, single pixels fold over or do not converge, and a neighbouring frame put in their place one
    by one shows as a dotted seam. Only where a whole patch is not valid is there something to fill.
    """
    return box_mean(valid.float(), PATCH) > 0.5


def _splatted(moment: Moment, known: Tensor, correction: Tensor, interpolation: Interpolation) -> Warped:
    frame, size = moment.frame, moment.frame.shape[-2:]
    known, correction = resized_picture(known.to(frame.dtype), size), resized_field(correction, size)
    image, valid = apply_correction(torch.cat([frame, known], 1), correction, "splat")
    valid = valid & (image[:, 3:] > 0.5)
    # Holes show what an inverse warp would put there, and stay not valid.
    filler = apply_correction(frame, correction, "invert", interpolation=interpolation).image
    return Warped(torch.where(valid, image[:, :3], filler).clamp(*moment.limits), valid)
