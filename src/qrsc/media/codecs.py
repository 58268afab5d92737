"""The encoder of an output video, with its pixel format and quality."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from qrsc.media.encoders import choose_pixel_format, require_encoder, suggest_encoder
from qrsc.media.errors import MediaError
from qrsc.media.planes import Layout, layout_of
from qrsc.media.probe import ClipInfo

# Common names of codecs, and the encoder for each.
ENCODERS = {
    "h264": "libx264",
    "hevc": "libx265",
    "h265": "libx265",
    "vp9": "libvpx-vp9",
    "av1": "libsvtav1",
    "prores": "prores_ks",
    "ffv1": "ffv1",
}
_FORMATS = {
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".mov": "mov",
    ".mkv": "matroska",
    ".webm": "webm",
    ".avi": "avi",
    ".ts": "mpegts",
    ".mts": "mpegts",
}
# Encoders that refuse a size which is not a multiple of the chroma subsampling.
_WHOLE_CHROMA = ("libx264", "libx265", "libsvtav1")

# Visually lossless constant rate factors: 16 for H.264, and equivalents for the others.
_QUALITY = {"libx264": 16, "libx264rgb": 16, "libx265": 18, "libvpx-vp9": 20, "libsvtav1": 20}
_QUICK = {"libx264": "veryfast", "libx265": "ultrafast", "libvpx-vp9": "8", "libsvtav1": "12"}


@dataclass(frozen=True)
class Encoding:
    """How a video is written.

    Attributes:
        container: FFmpeg's name of the file format.
        encoder: FFmpeg's name of the encoder.
        layout: how its frames are stored, as a planar format.
        pixel_format: the format that the encoder takes: that of the layout, or an interleaved one of the same values.
        options: of the encoder.
        tag: codec tag (FourCC) that some players need; empty for the default.
    """

    container: str
    encoder: str
    layout: Layout
    pixel_format: str
    options: dict[str, str] = field(default_factory=dict)
    tag: str = ""

    def stored_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """The size `(H, W)` that a frame is padded to, if the encoder cannot store its own size."""
        if self.encoder not in _WHOLE_CHROMA:
            return size
        down, across = self.layout.down, self.layout.across
        return -(-size[0] // down) * down, -(-size[1] // across) * across


def is_video_name(path: Path) -> bool:
    """Whether a name has the suffix of a video format that can be written."""
    return path.suffix.lower() in _FORMATS


def same_format(first: Path, second: Path) -> bool:
    """Whether two names have suffixes of one video format that can be written."""
    return is_video_name(first) and _FORMATS[first.suffix.lower()] == _FORMATS.get(second.suffix.lower())


def choose_encoding(
    path: Path,
    info: ClipInfo | None,
    *,
    codec: str | None = None,
    crf: float | None = None,
    pixel_format: str | None = None,
    preset: str | None = None,
    quick: bool = False,
    alpha: bool = False,
) -> Encoding:
    """The encoding of an output: that of the source, except for what is given.

    Args:
        path: of the output; the suffix selects the file format.
        info: of the source; None for 8-bit frames that do not come from a video.
        codec: `h264`, `hevc`, `vp9`, `av1`, `prores`, `ffv1`, or the name of any encoder that FFmpeg has.
        crf: constant rate factor, in the encoder's own scale; 0 is lossless where the encoder supports it.
        pixel_format: FFmpeg's name.
        preset: the encoder's own name of a speed preset.
        quick: use a fast preset if none is given.
        alpha: the output has transparent pixels.

    Raises:
        MediaError: the encoder, the pixel format or the file format is unknown, or they cannot be combined.
    """
    if not is_video_name(path):
        raise MediaError(
            f"{path.name} does not say which kind of video to write; let it end in one of {', '.join(_FORMATS)}."
        )
    container = _FORMATS[path.suffix.lower()]
    source = info.layout if info is not None else layout_of("yuv420p")
    if codec is not None:
        encoder = require_encoder(ENCODERS.get(codec.lower(), codec), ENCODERS)
    else:
        encoder = suggest_encoder(container, info.codec if info is not None else "", source, pixel_format, alpha)
    stored = choose_pixel_format(encoder, container, source, pixel_format, alpha)
    layout = layout_of(stored)
    options = _quality(encoder, layout, crf, preset or (_QUICK.get(encoder) if quick else None))
    if info is not None:
        _add_hdr_metadata(options, encoder, info)
    if container == "avi":
        options["bf"] = "0"  # AVI has no timestamps, so frames must be stored in display order
    tag = "hvc1" if encoder == "libx265" and container in ("mp4", "mov") else ""
    return Encoding(container, encoder, layout, stored, options, tag)


def _quality(encoder: str, layout: Layout, crf: float | None, preset: str | None) -> dict[str, str]:
    options = {}
    wanted = _QUALITY.get(encoder) if crf is None else crf
    if wanted is not None:
        if wanted == 0 and encoder in ("libx264", "libx264rgb"):
            options["qp"] = "0"
        elif wanted == 0 and encoder == "libx265":
            options["x265-params"] = "lossless=1"
        elif wanted == 0 and encoder == "libvpx-vp9":
            options["lossless"] = "1"
        elif encoder in _QUALITY:
            options["crf"] = f"{wanted:g}"
        elif crf is not None and encoder != "ffv1":
            raise MediaError(f"{encoder} has no constant rate factor; leave --crf out.")
    if encoder == "libx265":
        quiet = "log-level=none"
        options["x265-params"] = f"{options['x265-params']}:{quiet}" if "x265-params" in options else quiet
    if encoder == "libvpx-vp9":
        options.update({"b": "0", "row-mt": "1", "cpu-used": preset or "4", "deadline": "good"})
        if layout.alpha:
            options["auto-alt-ref"] = "0"  # libvpx cannot combine invisible frames with alpha
    elif encoder == "libsvtav1":
        options["preset"] = preset or "8"
    elif encoder == "prores_ks":
        options["profile"] = preset or ("4444" if layout.alpha or layout.across == 1 else "hq")
        options["vendor"] = "apl0"
    elif preset is not None:
        options["preset"] = preset
    return options


# For encoders that take light levels: their option, its names for both kinds of them, and the units of chromaticity and
# luminance.
_HDR_OPTIONS = {
    "libx264": ("x264-params", "mastering-display", "cll", 50000, 10000),
    "libx265": ("x265-params", "master-display", "max-cll", 50000, 10000),
    "libsvtav1": ("svtav1-params", "mastering-display", "content-light", None, None),
}


def holds_light_levels(encoder: str) -> bool:
    """Whether an encoder takes the mastering display and the light levels of HDR video."""
    return encoder in _HDR_OPTIONS


def _add_hdr_metadata(options: dict[str, str], encoder: str, info: ClipInfo) -> None:
    """Pass on mastering display and content light levels of HDR video, for encoders that take them."""
    if encoder not in _HDR_OPTIONS:
        return
    key, display, light, points, luminances = _HDR_OPTIONS[encoder]
    parts = []
    if info.mastering is not None:
        parts.append(f"{display}={_mastering(info.mastering, points, luminances)}")
    if info.light is not None:
        brightest, average = struct.unpack("=2I", info.light[:8])
        parts.append(f"{light}={brightest},{average}")
    if parts:
        options[key] = ":".join([*([options[key]] if key in options else []), *parts])


def _mastering(data: bytes, points: int | None, luminances: int | None) -> str:
    """FFmpeg's mastering display structure as text, in whole numbers of the given units or in decimals.

    It holds rationals: x and y of red, green, blue and white, then minimum and maximum luminance.
    """
    numbers = struct.unpack("=20i", data[:80])
    values = [top / bottom if bottom else 0.0 for top, bottom in zip(numbers[::2], numbers[1::2], strict=True)]

    def told(value: float, unit: int | None) -> str:
        return f"{value:.6f}" if unit is None else f"{round(unit * value)}"

    red, green, blue, white = (
        ",".join(told(value, points) for value in values[index : index + 2]) for index in (0, 2, 4, 6)
    )
    darkest, brightest = (told(value, luminances) for value in values[8:10])
    return f"G({green})B({blue})R({red})WP({white})L({brightest},{darkest})"
