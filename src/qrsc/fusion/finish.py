"""The last step after a network for frames as sampled: each band of the picture from where it is best.

Coarse structure gains by averaging and loses nothing by denoising: it is taken from the denoised mean. Fine detail is
the network's, with a share of the centre frame's own: averaging weakens grain, and people want their own picture back.

Where frames do not agree on the finest detail of a picture, it is noise, and a network that averages it leaves grain
that no camera makes. In such pictures luma tends to the centre frame's own grain together with the certain part of the
finest detail, and the finest chroma, which is the noisiest, gives way to somewhat coarser one. Where the network
disagrees with the centre frame, that frame is misaligned or hidden there, and nothing of it is added.
"""

from __future__ import annotations

from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.denoise import anchored, band_gains, detail_bands, keep_detail
from qrsc.fusion.mean import CALM_DISAGREEMENT, agreement, mean_weights, weighted_mean
from qrsc.image.blur import fine_detail
from qrsc.image.colour import luma

# Share of the centre frame in the fine detail of pictures without noise. ST-LPIPS of simulated clips with parallax is
# .0068 and .0064 with it, .0072 and .0070 without.
OWN = 0.15
# The noise of a picture is the share of its finest detail that denoising removes: 0 to 0.26 in luma on clips without
# noise, which below CLEAN are left as they are; 0.4 to 0.83 on those of cameras, which from NOISY on are changed fully.
CLEAN, NOISY = 0.2, 0.4
# The following are for a noise of 1. Share of the centre frame in luma detail of two bands, the finest and that of
# about 3 pixels, and of the denoised mean in each. SSIM / ST-LPIPS / detail on five real Fastec-RS frames:
# .8284 / .0295 / 0.85; shares of 0.75, 0.42 and -0.28: .8285 / .0296 / 0.85; nothing of the mean in the second band:
# SSIM and ST-LPIPS .002 higher, detail 0.05 lower.
NOISY_OWN = 0.87
NOISY_DENOISED = (0.5, -0.35)
# Change of the gain of chroma in these bands. The second makes up for the first: without it SSIM and ST-LPIPS are about
# .0016 and .0030 higher.
NOISY_CHROMA = (-1.5, 0.5)


def finished(image: Tensor, aligned: AlignedFrames) -> Tensor:
    """Finish the result `[B, 3, H, W]` of a network that was given frames as sampled.

    Args:
        image: the result.
        aligned: the frames it was made from.
    """
    several = aligned.frames.shape[1] > 1
    weights = mean_weights(aligned, CALM_DISAGREEMENT)
    mean = weighted_mean(aligned, weights).image
    gains = band_gains(aligned, weights) if several else []
    denoised = keep_detail(mean, gains) if several else mean
    # Where frames contradict each other the network chooses between them, and its coarse structure stays.
    trusted = agreement(image, denoised)
    own = aligned.frames[:, aligned.centre]
    share = agreement(image, own) * aligned.valid[:, aligned.centre].to(image)
    image = anchored(image, aligned, mean)
    to_own, to_denoised = share * (own - image), denoised - image
    coarse = trusted * to_denoised
    if not several:
        return image + coarse - fine_detail(coarse - OWN * to_own)
    noise = 1.0 - gains[0].mean((-2, -1), keepdim=True)  # [B, 3, 1, 1]
    noisy = ((noise - CLEAN) / (NOISY - CLEAN)).clamp(0.0, 1.0)
    changed = noise * noisy
    result = image + coarse - fine_detail(coarse - OWN * (1.0 - noisy[:, :1]) * to_own)
    result = result + changed[:, :1] * _luma_change(luma(to_own), share * luma(to_denoised))
    return result + changed[:, 1:].mean(1, keepdim=True) * _chroma_change(image)


def _luma_change(to_own: Tensor, to_denoised: Tensor) -> Tensor:
    """What noise adds to both bands, from the differences to the centre frame and the denoised mean, `[B, 1, H, W]`."""
    finest, second = (NOISY_OWN * to_own + share * to_denoised for share in NOISY_DENOISED)
    return next(detail_bands(finest)) + list(detail_bands(second))[1]


def _chroma_change(image: Tensor) -> Tensor:
    """What noise adds to the chroma of both bands of a picture, `[B, 3, H, W]`."""
    finest, second = detail_bands(image - luma(image))
    return NOISY_CHROMA[0] * finest + NOISY_CHROMA[1] * second
