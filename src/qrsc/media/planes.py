"""Decoded frames to RGB and back, plane by plane, without a change of colours.

Convention
    A frame is RGB, float32, `[3, H, W]`, with black at 0 and white at 1, in the clip's own transfer curve. Values of a
    video outside that range (brighter than white, or outside the RGB gamut) are kept, not clipped. The matrix and the
    range are those of the clip's tags; a clip without tags is taken for BT.709 from 720 rows on and BT.601 below,
    limited range: since the conversion back is the exact inverse, a wrong guess does not show. Subsampled chroma is
    upsampled by repetition and downsampled by averaging, so that an untouched frame comes back bit for bit, whatever
    its chroma siting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.backend import opencv
from qrsc.media.errors import MediaError

if TYPE_CHECKING:
    import av

# Luma weights (red, blue) by the code of the matrix coefficients in H.273.
_LUMA = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    5: (0.299, 0.114),  # BT.470 B/G, as BT.601
    6: (0.299, 0.114),  # BT.601
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020
    10: (0.2627, 0.0593),
}
_BT709, _BT601 = 1, 6
FULL_RANGE = 2
UNSPECIFIED = 2  # a matrix, primaries or transfer curve that nobody has named
_HD_ROWS = 720

# Interleaved formats, and the planar ones that hold the same values.
_PLANAR = {
    "nv12": "yuv420p",
    "nv21": "yuv420p",
    "nv16": "yuv422p",
    "nv24": "yuv444p",
    "nv42": "yuv444p",
    "p010le": "yuv420p10le",
    "p012le": "yuv420p12le",
    "p016le": "yuv420p16le",
    "p210le": "yuv422p10le",
    "p212le": "yuv422p12le",
    "p216le": "yuv422p16le",
    "p410le": "yuv444p10le",
    "p412le": "yuv444p12le",
    "p416le": "yuv444p16le",
    "yuyv422": "yuv422p",
    "uyvy422": "yuv422p",
    "yvyu422": "yuv422p",
    "y210le": "yuv422p10le",
    "y212le": "yuv422p12le",
    "rgb48le": "gbrp16le",
    "bgr48le": "gbrp16le",
    "rgba64le": "gbrap16le",
    "bgra64le": "gbrap16le",
    "x2rgb10le": "gbrp10le",
    "rgba": "gbrap",
    "bgra": "gbrap",
    "argb": "gbrap",
    "abgr": "gbrap",
    "pal8": "gbrp",
    "monob": "gray",
    "monow": "gray",
    "ya8": "gbrap",
    "ya16le": "gbrap16le",
}


@dataclass(frozen=True)
class Layout:
    """How a planar pixel format stores a frame.

    Attributes:
        name: FFmpeg's name.
        kind: `yuv`, `rgb` (planes in the order green, blue, red) or `grey`.
        bits: per sample, 8 to 16.
        across, down: chroma subsampling in each direction: pixels per chroma sample.
        alpha: whether an alpha plane follows.
    """

    name: str
    kind: str
    bits: int
    across: int
    down: int
    alpha: bool

    @property
    def planes(self) -> int:
        return (1 if self.kind == "grey" else 3) + self.alpha


def layout_of(name: str) -> Layout:
    """The layout of a format, or of the planar one with the same values.

    Raises:
        MediaError: samples are floats, or the format has no planar equivalent.
    """
    import av

    planar = f"{name[:-2]}le" if name.endswith("be") else name
    planar = _PLANAR.get(planar, planar)
    described = av.VideoFormat(planar, 64, 64)
    parts = [c for c in described.components if not c.is_alpha]
    bits = max(c.bits for c in described.components)
    packed = len({c.plane for c in described.components}) != len(described.components)
    if packed or bits < 8:
        if described.is_rgb or described.has_palette:
            return layout_of("gbrp")
        raise MediaError(f"frames of the pixel format {name} are not supported; convert them to yuv420p first.")
    if "f16" in planar or "f32" in planar or bits > 16:
        raise MediaError(f"frames of the pixel format {name} hold floats; convert them to 8 to 16 bit integers first.")
    kind = "grey" if len(parts) == 1 else "rgb" if described.is_rgb else "yuv"
    chroma = parts[1] if kind == "yuv" else parts[0]
    alpha = len(parts) < len(described.components)
    return Layout(planar, kind, bits, 64 // chroma.width, 64 // chroma.height, alpha)


@dataclass(frozen=True)
class Colours:
    """Colour tags by their codes in H.273 (2: unspecified), and the range (2: full)."""

    matrix: int = 2
    primaries: int = 2
    transfer: int = 2
    range: int = 0

    def luma(self, rows: int) -> tuple[float, float]:
        """Weights of red and blue in luma."""
        return _LUMA.get(self.matrix, _LUMA[_BT709 if rows >= _HD_ROWS else _BT601])

    def full(self, layout: Layout) -> bool:
        return self.range == FULL_RANGE or layout.kind == "rgb" or layout.name.startswith("yuvj")


def planar(frame: av.VideoFrame) -> av.VideoFrame:
    """The same frame in a planar format; the frame itself if it already is."""
    layout = layout_of(frame.format.name)
    return frame if frame.format.name == layout.name else reformatted(frame, format=layout.name)


def reformatted(frame: av.VideoFrame, **to: Any) -> av.VideoFrame:
    """`frame.reformat` in one thread.

    With several, FFmpeg 8 now and then leaves grey in the chroma of p010 video: in the first samples of a slice.
    """
    return frame.reformat(**to, threads=1)


def rgb_of(frame: av.VideoFrame, colours: Colours) -> Tensor:
    """A decoded frame as RGB, `[3, H, W]`."""
    frame = planar(frame)
    layout = layout_of(frame.format.name)
    levels = [torch.from_numpy(plane_of(frame, index)) for index in range(layout.planes - layout.alpha)]
    black, scale = _luma_range(layout, colours)
    luma = levels[0].to(torch.float32)
    if layout.kind == "grey":
        return luma.sub_(black).mul_(1.0 / scale).expand(3, -1, -1).contiguous()
    if layout.kind == "rgb":
        green, blue, red = (part.to(torch.float32) for part in levels)
        return torch.stack([red, green, blue]).mul_(1.0 / scale)
    kr, kb = colours.luma(frame.height)
    kg = 1.0 - kr - kb
    centre, spread = _chroma_range(layout, colours)
    cb, cr = ((part.to(torch.float32) - centre) / spread for part in levels[1:])
    red = 2.0 * (1.0 - kr) * cr
    blue = 2.0 * (1.0 - kb) * cb
    green = (kr * red + kb * blue) * (-1.0 / kg)
    shifts = torch.stack([red, green, blue]).sub_(black / scale)  # [3, h, w], to be added to luma
    if layout.across > 1 or layout.down > 1:
        height, width = luma.shape
        # NumPy takes half the time of `F.interpolate`.
        wide = shifts.numpy().repeat(layout.across, 2).repeat(layout.down, 1)
        shifts = torch.from_numpy(wide)[:, :height, :width]
    return torch.add(shifts, luma, alpha=1.0 / scale)


def frame_of(
    rgb: Tensor,
    layout: Layout,
    colours: Colours,
    alpha: npt.NDArray[Any] | None = None,
    *,
    like: av.VideoFrame | None = None,
) -> av.VideoFrame:
    """A frame to encode, from RGB `[3, H, W]` on any device.

    Args:
        rgb: values outside the range of the format are clamped.
        layout: of the frame.
        colours: matrix and range to store it with; they also become its tags.
        alpha: `[H, W]` samples for a format with alpha; opaque if None.
        like: a decoded frame whose side data (closed captions, HDR light levels) the new one takes over, if it has the
            same format and size. Its samples are replaced.
    """
    rgb = rgb.detach().float().cpu()
    height, width = rgb.shape[-2:]
    frame = _frame_to_fill(height, width, layout, like)
    black, scale = _luma_range(layout, colours)
    top = float(2**layout.bits - 1)

    def store(index: int, values: Tensor) -> None:
        rounded = values.round_().clamp_(0.0, top)
        plane_of(frame, index)[:] = rounded.to(torch.uint8 if layout.bits == 8 else torch.int32).numpy()

    red, green, blue = rgb.unbind(0)
    if layout.kind == "rgb":
        for index, part in enumerate((green, blue, red)):
            store(index, part * scale)
    else:
        kr, kb = colours.luma(height)
        luma = torch.mul(red, kr).add_(green, alpha=1.0 - kr - kb).add_(blue, alpha=kb)
        if layout.kind == "yuv":
            centre, spread = _chroma_range(layout, colours)
            for index, part, weight in ((1, blue, kb), (2, red, kr)):
                chroma = _downsampled(part - luma, layout)
                store(index, chroma.mul_(spread / (2.0 * (1.0 - weight))).add_(centre))
        store(0, luma.mul_(scale).add_(black))
    if layout.alpha:
        plane_of(frame, layout.planes - 1)[:] = int(top) if alpha is None else alpha
    _tag(frame, colours)
    return frame


def _frame_to_fill(height: int, width: int, layout: Layout, like: av.VideoFrame | None) -> av.VideoFrame:
    import av

    same = like is not None and (like.format.name, like.height, like.width) == (layout.name, height, width)
    # Side data cannot be attached to a new frame, so the old one is overwritten.
    if like is not None and same:
        like.make_writable()
        return like
    return av.VideoFrame(width, height, layout.name)


def plane_of(frame: av.VideoFrame, index: int) -> npt.NDArray[Any]:
    """The samples of a plane, `[h, w]`: a view into the frame."""
    plane: Any = frame.planes[index]
    layout = layout_of(frame.format.name)
    whole: npt.NDArray[Any] = np.frombuffer(plane, dtype="u1" if layout.bits == 8 else "<u2")
    return whole.reshape(plane.height, -1)[:, : plane.width]


def alpha_of(frame: av.VideoFrame) -> npt.NDArray[Any] | None:
    """The alpha of a decoded frame, `[H, W]` samples, or None."""
    layout = layout_of(frame.format.name)
    return plane_of(planar(frame), layout.planes - 1) if layout.alpha else None


def _downsampled(values: Tensor, layout: Layout) -> Tensor:
    """`[H, W]` downsampled to the chroma planes; blocks across the edge average the pixels inside."""
    if layout.across == layout.down == 1:
        return values
    kernel = (layout.down, layout.across)
    height, width = values.shape
    if height % layout.down == width % layout.across == 0 and opencv.supports(values):
        return opencv.block_means(values[None, None], (height // layout.down, width // layout.across))[0, 0]
    return F.avg_pool2d(values[None, None], kernel, kernel, ceil_mode=True, count_include_pad=False)[0, 0]


def _luma_range(layout: Layout, colours: Colours) -> tuple[float, float]:
    """The sample value of black, and the number of levels from black to white."""
    unit = 2.0 ** (layout.bits - 8)
    return (0.0, 2.0**layout.bits - 1.0) if colours.full(layout) else (16.0 * unit, 219.0 * unit)


def _chroma_range(layout: Layout, colours: Colours) -> tuple[float, float]:
    unit = 2.0 ** (layout.bits - 8)
    return 128.0 * unit, (2.0**layout.bits - 1.0 if colours.full(layout) else 224.0 * unit)


def _tag(frame: av.VideoFrame, colours: Colours) -> None:
    frame.colorspace = colours.matrix
    frame.color_primaries = colours.primaries
    frame.color_trc = colours.transfer
    frame.color_range = colours.range
