"""What becomes of the edges of a corrected picture, where the frame shows nothing: they are cut off on request."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import interpolate

from qrsc.names import VideoBorder

CROPPED: tuple[VideoBorder, ...] = ("crop", "crop-only")


@dataclass(frozen=True)
class Edges:
    """How pictures of one size are cropped.

    Attributes:
        transparent: what no frame shows is left transparent.
        rows, columns: what is kept of the picture; None keeps all of it.
        size: `(H, W)` of the result. A picture that was cropped to less is scaled to it.
    """

    transparent: bool
    rows: slice | None
    columns: slice | None
    size: tuple[int, int]

    @property
    def crops(self) -> bool:
        """Whether anything is cut off."""
        return self.rows is not None

    def cut(self, picture: Tensor) -> Tensor:
        """Crop a picture `[C, H, W]`, and scale it to the size of the result."""
        if self.rows is None or self.columns is None:
            return picture
        kept = picture[:, self.rows, self.columns]
        if kept.shape[-2:] == self.size:
            return kept
        return interpolate(kept[None], self.size, mode="bicubic", align_corners=False)[0].clamp(0.0, 1.0)


def choose_edges(border: VideoBorder, margin: float, size: tuple[int, int]) -> Edges:
    """The edges of frames of a size `(H, W)`; arguments otherwise as for `correct_video`.

    Raises:
        ValueError: the margin is no part of a side, or leaves nothing.
    """
    if border not in CROPPED:
        return Edges(border == "transparent", None, None, size)
    if not 0.0 < margin < 0.5:
        raise ValueError(f"--margin is a part of each side, over 0 and under 0.5; got {margin!r}.")
    # Even margins keep chroma samples whole.
    down, right = (2 * round(side * margin / 2) for side in size)
    if 2 * down >= size[0] or 2 * right >= size[1]:
        raise ValueError(f"--margin {margin!r} leaves nothing of frames of {size[1]}x{size[0]}; choose less.")
    kept = (size[0] - 2 * down, size[1] - 2 * right)
    rows, columns = slice(down, down + kept[0]), slice(right, right + kept[1])
    return Edges(False, rows, columns, kept if border == "crop-only" else size)
