"""The encoder of an output video, with its pixel format and quality."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from pathlib import Path

from qrsc.media.errors import MediaError
from qrsc.media.planes import Layout, layout_of
from qrsc.media.probe import ClipInfo, pyav

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
# The encoder by the codec of the source; any other becomes H.264, or HEVC beyond 8 bits.
_SAME = {
    "h264": "libx264",
    "hevc": "libx265",
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
    encoder = _encoder(container, info, source, codec)
    if codec is None and encoder == "libx264" and source.kind == "rgb" and pixel_format is None:
        encoder = "libx264rgb"
    stored = _pixel_format(encoder, source, pixel_format, alpha)
    layout = layout_of(stored)
    options = _quality(encoder, layout, crf, preset or (_QUICK.get(encoder) if quick else None))
    if info is not None:
        _add_hdr_metadata(options, encoder, info)
    if container == "avi" and encoder == "libx264":
        options["bf"] = "0"  # AVI has no timestamps, so frames must be stored in display order
    tag = "hvc1" if encoder == "libx265" and container in ("mp4", "mov") else ""
    return Encoding(container, encoder, layout, stored, options, tag)


def _encoder(container: str, info: ClipInfo | None, source: Layout, codec: str | None) -> str:
    av = pyav()
    if codec is not None:
        name = ENCODERS.get(codec.lower(), codec)
    elif container == "webm":
        name = "libvpx-vp9"
    else:
        name = _SAME.get(info.codec if info is not None else "", "libx264" if source.bits == 8 else "libx265")
        if not _expected_in(container, name):
            name = "libx264" if source.bits == 8 else "libx265"
    try:
        found = av.Codec(name, "w")
    except Exception as error:  # PyAV's exception classes have changed between versions
        known = ", ".join(ENCODERS)
        raise MediaError(
            f"there is no encoder {name!r} here; choose one of {known}, or FFmpeg's name of another."
        ) from error
    if found.type != "video":
        raise MediaError(f"{name} encodes {found.type}, not video; choose one of {', '.join(ENCODERS)}.")
    return name


def _expected_in(container: str, encoder: str) -> bool:
    """Whether players expect a codec in a file format; FFmpeg itself allows more."""
    if container == "mpegts":  # FFmpeg writes AV1 into it, and cannot read it back
        return encoder in ("libx264", "libx265")
    if container == "mp4":
        return encoder in ("libx264", "libx265", "libsvtav1", "libvpx-vp9")
    if container == "avi":
        return encoder in ("libx264", "ffv1")
    if container == "mov":
        return encoder in ("libx264", "libx265", "prores_ks")
    return True


def _pixel_format(encoder: str, source: Layout, pixel_format: str | None, alpha: bool) -> str:
    av = pyav()
    formats = {each.name for each in av.Codec(encoder, "w").video_formats or ()}
    if pixel_format is not None:
        try:
            layout_of(pixel_format)
        except ValueError as error:
            raise MediaError(f"the pixel format {pixel_format!r} cannot be used: {error}") from error
        if formats and pixel_format not in formats:
            raise MediaError(f"{encoder} cannot store {pixel_format}; it takes {', '.join(sorted(formats))}.")
        return pixel_format
    for name in _candidates(source, alpha):
        if not formats or name in formats:
            return name
    if alpha:
        raise MediaError(
            f"{encoder} has no transparency; write PNG files into a folder, or a .mov with --codec prores, or a .webm."
        )
    return "yuv420p"


def _candidates(source: Layout, alpha: bool) -> list[str]:
    """Pixel formats in order of preference: those that keep chroma resolution and bit depth of the source first."""
    if source.kind == "rgb":
        opaque = [source.name.replace("gbrap", "gbrp"), *(["bgr0", "rgb24", "bgr24"] if source.bits == 8 else [])]
        transparent = [source.name.replace("gbrp", "gbrap"), *(["bgra", "rgba"] if source.bits == 8 else [])]
        as_yuv = replace(source, name=f"yuv444p{'' if source.bits == 8 else f'{source.bits}le'}", kind="yuv")
        if alpha:
            return [*transparent, *_candidates(as_yuv, True)]
        return [*(transparent if source.alpha else []), *opaque, *_candidates(replace(as_yuv, alpha=False), False)]
    depth = "" if source.bits == 8 else f"{source.bits}le"
    chroma = {(2, 2): "420", (2, 1): "422", (1, 1): "444"}.get((source.across, source.down), "444")
    if source.kind == "grey":
        chroma = "420"
    if alpha or source.alpha:
        shapes = [f"yuva{shape}p{bits}" for bits in (depth, "10le", "") for shape in (chroma, "444", "422", "420")]
        if alpha:
            return [*([source.name] if source.alpha else []), *shapes]
        return [source.name, *shapes, *_candidates(layout_of(source.name.replace("yuva", "yuv")), False)]
    depths = [
        depth,
        *(f"{bits}le" for bits in (10, 12, 16) if bits > source.bits > 8),
        *(["10le"] if depth else []),
        "",
    ]
    return [
        source.name.replace("yuvj", "yuv"),
        *(f"yuv{shape}p{bits}" for bits in depths for shape in (chroma, "444", "422", "420")),
    ]


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
    elif encoder == "libsvtav1":
        options["preset"] = preset or "8"
    elif encoder == "prores_ks":
        options["profile"] = preset or ("4444" if layout.alpha or layout.across == 1 else "hq")
        options["vendor"] = "apl0"
    elif preset is not None:
        options["preset"] = preset
    return options


def _add_hdr_metadata(options: dict[str, str], encoder: str, info: ClipInfo) -> None:
    """Pass on mastering display and content light levels of HDR video, for encoders that take them."""
    parts = []
    names = {"libx265": ("master-display", "max-cll"), "libx264": ("mastering-display", "cll")}.get(encoder)
    if names is None:
        return
    if info.mastering is not None:
        parts.append(f"{names[0]}={_mastering(info.mastering)}")
    if info.light is not None:
        brightest, average = struct.unpack("=2I", info.light[:8])
        parts.append(f"{names[1]}={brightest},{average}")
    if parts:
        key = "x265-params" if encoder == "libx265" else "x264-params"
        options[key] = ":".join([*([options[key]] if key in options else []), *parts])


def _mastering(data: bytes) -> str:
    """FFmpeg's mastering display structure in the syntax of x265.

    It holds rationals: x and y of red, green, blue and white, then minimum and maximum luminance.
    """
    numbers = struct.unpack("=20i", data[:80])
    values = [top / bottom if bottom else 0.0 for top, bottom in zip(numbers[::2], numbers[1::2], strict=True)]
    red, green, blue, white = ([round(50000 * v) for v in values[i : i + 2]] for i in (0, 2, 4, 6))
    darkest, brightest = (round(10000 * v) for v in values[8:10])
    points = "".join(f"{name}({x},{y})" for name, (x, y) in zip("GBR", (green, blue, red), strict=True))
    return f"{points}WP({white[0]},{white[1]})L({brightest},{darkest})"
