"""Fusion without a network that keeps detail: the mean of sharply sampled frames, denoised."""

from __future__ import annotations

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.denoise import band_gains, keep_detail
from qrsc.fusion.mean import CALM_DISAGREEMENT, mean_weights, weighted_mean
from qrsc.warp import Interpolation, Warped


class CoherentFusion:
    """Fuse frames by their weighted mean, and keep of its detail what the frames agree on.

    Attributes:
        interpolation: how to sample the frames it is given.
        interpolation_alone: the same for a single frame, where nothing would remove the noise of sharp sampling.
    """

    interpolation: Interpolation = "bicubic"
    interpolation_alone: Interpolation = "bilinear"

    def __call__(self, aligned: AlignedFrames) -> Warped:
        """Fuse to `[B, 3, H, W]`; valid where any of the frames shows the pixel, `[B, 1, H, W]` bool."""
        weights = mean_weights(aligned, CALM_DISAGREEMENT)
        mean = weighted_mean(aligned, weights)
        if aligned.frames.shape[1] == 1:
            return mean
        return Warped(keep_detail(mean.image, band_gains(aligned, weights)), mean.valid)
