"""Which encoder and pixel format lose least of a source in a file format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from qrsc.media.errors import MediaError
from qrsc.media.planes import Layout, layout_of
from qrsc.media.probe import pyav

_HARDWARE, _HYBRID = 1 << 18, 1 << 19  # FFmpeg's capabilities of codecs: need hardware, or fall back without it
_TRIAL_SIZE = (320, 240)  # large enough for every hardware encoder
# The encoder by the codec of the source, where there is one.
_SAME = {
    "h264": "libx264",
    "hevc": "libx265",
    "vp9": "libvpx-vp9",
    "av1": "libsvtav1",
    "prores": "prores_ks",
    "ffv1": "ffv1",
    "png": "png",
    "qtrle": "qtrle",
}
# What players expect in each file format; FFmpeg itself allows more. Other codecs become one of the second list: the
# first that keeps transparency, bit depth and chroma resolution.
_EXPECTED = {
    "mp4": ("libx264", "libx265", "libsvtav1", "libvpx-vp9"),
    "mpegts": ("libx264", "libx265"),
    "mov": ("libx264", "libx265", "prores_ks", "png", "qtrle"),
    "matroska": ("libx264", "libx265", "libsvtav1", "libvpx-vp9", "prores_ks", "ffv1"),
    "webm": ("libvpx-vp9", "libsvtav1"),
    "avi": ("libx264", "ffv1", "png"),
}
_INSTEAD = {
    "mp4": ("libx264", "libx265"),
    "mpegts": ("libx264", "libx265"),
    "mov": ("libx264", "libx265", "prores_ks", "qtrle", "png"),
    "matroska": ("libx264", "libx265", "ffv1"),
    "webm": ("libvpx-vp9", "libsvtav1"),
    "avi": ("libx264", "ffv1"),
}


def suggest_encoder(container: str, codec: str, source: Layout, pixel_format: str | None, alpha: bool) -> str:
    """The encoder for a source: that of its own codec, if it keeps as much as any other.

    Args:
        container: FFmpeg's name of the file format.
        codec: FFmpeg's name of the codec of the source; empty for images.
        source: how its frames are stored.
        pixel_format: the one that was asked for, or None.
        alpha: the output has transparent pixels.

    Raises:
        MediaError: no encoder for this file format is there.
    """
    wanted = replace(source, alpha=source.alpha or alpha)
    if codec == "prores" and "prores_ks" in _EXPECTED[container]:
        return "prores_ks"  # its decoder gives 12 bits for what every encoder takes as 10
    names = [name for name in (_SAME.get(codec, ""), *_instead(container, wanted)) if name in _EXPECTED[container]]
    if wanted.kind == "rgb" and wanted.bits == 8 and pixel_format is None:
        # H.264 has an encoder of its own for RGB.
        names = ["libx264rgb" if name == "libx264" else name for name in names]
    there = [name for name in dict.fromkeys(names) if _formats(name, container) is not None]
    if not there:
        tried = ", ".join(dict.fromkeys(names))
        raise MediaError(
            f"none of the encoders for such a file is here ({tried}); give the output another ending, such as .mkv, or "
            "choose another --codec."
        )
    return min(there, key=lambda name: _loss(name, container, wanted, pixel_format))


def _instead(container: str, source: Layout) -> Sequence[str]:
    """Encoders in order of preference; beyond 8 bits H.264 comes last, since few players decode it."""
    return sorted(_INSTEAD[container], key=lambda name: source.bits > 8 and name == "libx264")


def _loss(encoder: str, container: str, source: Layout, pixel_format: str | None) -> tuple[bool, bool, bool, bool]:
    """What an encoder loses of a source, the worst first."""
    if pixel_format is not None:
        formats = _formats(encoder, container)
        return (formats is None or (bool(formats) and pixel_format not in formats), False, False, False)
    stored = layout_of(_best_format(encoder, container, source))
    coarser = stored.across > source.across or stored.down > source.down
    return (
        source.alpha and not stored.alpha,
        stored.bits < source.bits,
        source.kind != "grey" and coarser,
        source.kind == "rgb" != stored.kind,
    )


def losses(source: Layout, stored: Layout) -> list[str]:
    """What a layout loses of another, each in words."""
    found = []
    if source.alpha and not stored.alpha:
        found.append("transparency is left out")
    if stored.bits < source.bits:
        found.append(f"{source.bits} bits per sample become {stored.bits}")
    if source.kind == "rgb" != stored.kind:
        found.append(f"RGB becomes YUV {_sampling(stored)}")
    elif source.kind != "grey" and (stored.across > source.across or stored.down > source.down):
        found.append(f"chroma {_sampling(source)} becomes {_sampling(stored)}")
    return found


def _sampling(layout: Layout) -> str:
    known = {(1, 1): "4:4:4", (2, 1): "4:2:2", (2, 2): "4:2:0", (1, 2): "4:4:0", (4, 1): "4:1:1", (4, 4): "4:1:0"}
    return known.get((layout.across, layout.down), layout.name)


def require_encoder(name: str, known: Mapping[str, str]) -> str:
    """The name of an encoder for video that is there.

    Args:
        name: FFmpeg's, of the encoder.
        known: other encoders, by the names that users have for them.

    Raises:
        MediaError: there is none of that name; the message lists the known ones that are there.
    """
    others = ", ".join(word for word, encoder in known.items() if _kind(encoder) == "video")
    kind = _kind(name)
    if kind is None:
        raise MediaError(f"there is no encoder {name!r} here; choose one of {others}, or FFmpeg's name of another.")
    if kind != "video":
        raise MediaError(f"{name} encodes {kind}, not video; choose one of {others}.")
    if not _starts(name):
        raise MediaError(
            f"the encoder {name!r} needs hardware, or a driver for it, that is not here; choose one of {others}."
        )
    return name


def _starts(encoder: str) -> bool:
    """Whether an encoder for video can be opened, if it is one that needs hardware."""
    av = pyav()
    codec = av.Codec(encoder, "w")
    if not int(codec.capabilities) & (_HARDWARE | _HYBRID):
        return True
    trial = av.CodecContext.create(codec)
    trial.width, trial.height, trial.time_base = *_TRIAL_SIZE, Fraction(1, 30)
    trial.pix_fmt = codec.video_formats[0].name if codec.video_formats else "yuv420p"
    try:
        trial.open()
    except (av.FFmpegError, ValueError):
        return False
    return True


def _kind(encoder: str) -> str | None:
    """What an encoder encodes; None if FFmpeg lacks it."""
    try:
        return str(pyav().Codec(encoder, "w").type)
    except Exception:  # PyAV's exception classes have changed between versions
        return None


def choose_pixel_format(encoder: str, container: str, source: Layout, pixel_format: str | None, alpha: bool) -> str:
    """The pixel format in which an encoder loses least of a source, or the one asked for.

    Raises:
        MediaError: the encoder does not take the one asked for, or has no transparency and has to.
    """
    if pixel_format is not None:
        try:
            layout_of(pixel_format)
        except ValueError as error:
            raise MediaError(f"the pixel format {pixel_format!r} cannot be used: {error}") from error
        formats = _formats(encoder, container)
        if formats and pixel_format not in formats:
            raise MediaError(f"{encoder} cannot store {pixel_format}; it takes {', '.join(sorted(formats))}.")
        return pixel_format
    chosen = _best_format(encoder, container, replace(source, alpha=source.alpha or alpha))
    if alpha and not layout_of(chosen).alpha:
        raise MediaError(
            f"{encoder} has no transparency; write PNG files into a folder, or a .mov with --codec prores, or a .webm."
        )
    return chosen


def _best_format(encoder: str, container: str, source: Layout) -> str:
    formats = _formats(encoder, container)
    for name in _candidates(source):
        if not formats or name in formats:
            return name
    return "yuv420p"


def _formats(encoder: str, container: str) -> set[str] | None:
    """The pixel formats that an encoder can store in a file format; empty for all, None if FFmpeg lacks the encoder."""
    av = pyav()
    try:
        formats = {each.name for each in av.Codec(encoder, "w").video_formats or ()}
    except Exception:  # PyAV's exception classes have changed between versions
        return None
    # Both list alpha that they cannot be opened with: x265 always, libvpx beyond 4:2:0. The alpha of VP9 is a second
    # picture beside each frame, for which MP4 and others have no place.
    if encoder not in ("libx265", "libvpx-vp9"):
        return formats
    beside = {"yuva420p"} if encoder == "libvpx-vp9" and container in ("matroska", "webm") else set()
    return {name for name in formats if name in beside or not name.startswith(("yuva", "gbrap"))}


def _candidates(source: Layout) -> list[str]:
    """Pixel formats in order of preference: first those that keep alpha, bit depth and chroma resolution."""
    opaque = replace(source, name=source.name.replace("gbrap", "gbrp").replace("yuva", "yuv"), alpha=False)
    if source.alpha:
        return [*_transparent(opaque), *_candidates(opaque)]
    packed = {8: ["bgr0", "rgb24", "bgr24"], 16: ["rgb48be"]}
    if source.kind == "rgb":
        planar = [f"gbrp{bits}" for bits in _depths(source)]
        return [source.name, *packed.get(source.bits, []), *planar, *_of_yuv("yuv", source, "444"), *packed[8]]
    return [source.name.replace("yuvj", "yuv"), *_of_yuv("yuv", source, _chroma(source)), *packed[8]]


def _transparent(source: Layout) -> list[str]:
    packed = {8: ["bgra", "rgba", "argb"], 16: ["rgba64be"]}
    if source.kind == "rgb":
        planar = [f"gbrap{bits}" for bits in _depths(source)]
        return [
            source.name.replace("gbrp", "gbrap"),
            *packed.get(source.bits, []),
            *planar,
            *_of_yuv("yuva", source, "444"),
        ]
    return [*_of_yuv("yuva", source, _chroma(source)), *packed[8]]


def _of_yuv(kind: str, source: Layout, chroma: str) -> list[str]:
    return [f"{kind}{shape}p{bits}" for bits in _depths(source) for shape in (chroma, "444", "422", "420")]


def _depths(source: Layout) -> list[str]:
    """The endings of names with as many bits as the source, then with more, then with less."""
    deep = (9, 10, 12, 14, 16)
    more = [bits for bits in deep if bits > source.bits > 8] or ([10] if source.bits == 8 else [])
    less = [bits for bits in reversed(deep) if bits < source.bits]
    known = [source.bits, *more, *less, 8]
    return ["" if bits == 8 else f"{bits}le" for bits in known]


def _chroma(source: Layout) -> str:
    if source.kind == "grey":
        return "420"
    return {(2, 2): "420", (2, 1): "422", (1, 1): "444"}.get((source.across, source.down), "444")
