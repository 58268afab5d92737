"""The picture that is written for a corrected frame: cropped, with the alpha that its pixels had."""

from __future__ import annotations

from torch import Tensor

from qrsc.image.resize import resized_picture
from qrsc.pipeline import Corrected
from qrsc.video.compare import ComparedPicture
from qrsc.video.edges import Edges
from qrsc.video.source import SourceFrame
from qrsc.video.target import Picture, stored_alpha
from qrsc.warp import apply_correction


def picture_of(corrected: Corrected, source: SourceFrame, edges: Edges, *, compared: bool = False) -> Picture:
    """The picture of a frame; `compared` keeps the frame as it came, too."""
    frame: Tensor | None = corrected.frame
    before, alpha = source.frame, _alpha(corrected, source, transparent=edges.transparent)
    if edges.crops:
        frame, before = edges.cut(corrected.frame), edges.cut(before)
        alpha = None if alpha is None else edges.cut(alpha)
    elif corrected.unchanged and not edges.transparent:
        frame, alpha = None, None
    if compared:
        return ComparedPicture(frame, source.origin, alpha, before)
    return Picture(frame, source.origin, alpha)


def _alpha(corrected: Corrected, source: SourceFrame, *, transparent: bool) -> Tensor | None:
    """The alpha of a corrected frame `[1, H, W]`: moved as its pixels were, and 0 where no frame shows one."""
    stored = stored_alpha(source.origin)
    alpha = None if stored is None else stored.to(corrected.frame)
    if alpha is not None and not corrected.unchanged:
        field = resized_picture(corrected.correction_field[None], alpha.shape[-2:])[0]  # in pixels of the frame already
        alpha = apply_correction(alpha, field, interpolation="bicubic").image.clamp(0.0, 1.0)
    if not transparent:
        return alpha
    shown = corrected.valid.to(corrected.frame)
    return shown if alpha is None else alpha * shown
