"""The last step after a network for frames as sampled: each band of the picture from where it is best.

Coarse structure gains by averaging and loses nothing by denoising: it is taken from `coherent`. Fine detail is the
network's, with a share of the centre frame's own: averaging weakens grain, and people want their own
picture back. Where the network disagrees with the centre frame, that frame is misaligned or hidden there, and nothing
of it is added.
"""

from __future__ import annotations

from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import CoherentFusion
from qrsc.fusion.denoise import anchored
from qrsc.fusion.mean import agreement
from qrsc.image.blur import fine_detail

# Share of the centre frame in the fine detail. PSNR / SSIM / ST-LPIPS on five real Fastec-RS frames, 0, 0.15 and 0.3:
# 29.65 / .8241 / .0298, 29.63 / .8235 / .0294, 29.61 / .8227 / .0289.
OWN = 0.15


def finished(image: Tensor, aligned: AlignedFrames) -> Tensor:
    """Finish the result `[B, 3, H, W]` of a network that was given frames as sampled.

    Args:
        image: the result.
        aligned: the frames it was made from.
    """
    own, coarse = aligned.frames[:, aligned.centre], CoherentFusion()(aligned).image
    share = OWN * agreement(image, own) * aligned.valid[:, aligned.centre].to(image)
    # Where frames contradict each other the network chooses between them, and its coarse structure stays.
    denoised = agreement(image, coarse)
    image = anchored(image, aligned)
    coarse = image + denoised * (coarse - image)
    return coarse - fine_detail(coarse) + fine_detail(image + share * (own - image))
