"""What an output changes or leaves out of its source, in words: nothing is lost silently."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qrsc.media.codecs import Encoding, holds_light_levels
from qrsc.media.encoders import losses
from qrsc.media.orientation import IDENTITY
from qrsc.media.planes import FULL_RANGE, UNSPECIFIED
from qrsc.media.probe import ClipInfo, opened
from qrsc.media.tracks import quicktime_language
from qrsc.media.writer import kept_metadata

if TYPE_CHECKING:
    from av.container import InputContainer

# Encoders by other names than their codecs.
_CODECS = {
    "libx264": "h264",
    "libx264rgb": "h264",
    "libx265": "hevc",
    "libvpx": "vp8",
    "libvpx-vp9": "vp9",
    "libsvtav1": "av1",
    "prores_ks": "prores",
}
_MOST_REORDERED = 8  # frames that an encoder holds back at most
_WITH_COLOUR_TAGS = ("libx264", "libx264rgb", "libx265", "libvpx-vp9", "libsvtav1")  # in their own stream
_KEPT_IN = {"transparency is left out": "; .mov, .mkv and .webm keep it"}


def encoding_changes(info: ClipInfo, encoding: Encoding, suffix: str, *, asked: bool) -> list[str]:
    """What a file format and an encoder cannot keep of a clip's video, as far as is known before it is written.

    Args:
        info: of the source.
        encoding: of the output.
        suffix: of its name.
        asked: the codec was asked for, and a change of it is no news.
    """
    codec = _CODECS.get(encoding.encoder, encoding.encoder)
    found = []
    if codec != info.codec and not asked:
        found.append(f"the video is encoded as {codec}; it was {info.codec}")
    holder = f"{suffix} with {codec}"
    found += [f"{loss} in {holder}{_KEPT_IN.get(loss, '')}" for loss in losses(info.layout, encoding.layout)]
    if info.unread_alpha:
        found.append(f"transparency is left out: FFmpeg was built without libvpx, which decodes that of {info.codec}")
    if (info.mastering or info.light) and not holds_light_levels(encoding.encoder):
        found.append(f"HDR light levels are left out: {holder} cannot hold them here; h264, hevc and av1 can")
    if info.dynamic:
        found.append(f"dynamic HDR metadata is left out: {', '.join(info.dynamic)}")
    return [*found, *_container_changes(info, encoding, suffix)]


def _container_changes(info: ClipInfo, encoding: Encoding, suffix: str) -> list[str]:
    found = []
    if info.matrix != IDENTITY and encoding.container in ("avi", "mpegts"):
        found.append(f"the rotation tag is left out: {suffix} files cannot hold it; .mp4, .mov and .mkv can")
    tags = info.colours
    of_yuv = info.layout.kind != "rgb" and (tags.matrix != UNSPECIFIED or tags.range == FULL_RANGE)
    tagged = of_yuv or (tags.primaries, tags.transfer) != (UNSPECIFIED, UNSPECIFIED)
    if encoding.container == "avi" and tagged and encoding.encoder not in _WITH_COLOUR_TAGS:
        found.append(
            f"colour tags are left out: .avi with {encoding.encoder} cannot hold them; .mp4, .mov and .mkv can"
        )
    if encoding.container == "avi":
        found.append("AVI holds a constant frame rate and no start time; .mp4, .mov and .mkv keep timestamps")
    if encoding.container == "mpegts" and info.start * float(info.time_base) < _MOST_REORDERED * info.interval:
        found.append("a transport stream starts later by the frames that its encoder reorders, all tracks alike")
    if info.earliest < 0 and encoding.container in ("matroska", "webm"):
        found.append(f"{suffix} files have no times before 0: all tracks are moved by {-info.earliest:.3f} s")
    return found


def metadata_left_out(source: Path, output: Path, *, chapters: bool) -> list[str]:
    """What a finished file lacks of the texts and chapters of its source.

    Args:
        source, output: video files.
        chapters: the output has the times of the source, and with them its chapters.
    """
    with opened(source) as container:
        texts = kept_metadata(container.metadata)
        wanted = len(container.chapters())
        languages = _languages(container)
    with opened(output) as container:
        there = {key.lower(): value for key, value in container.metadata.items()}
        found = len(container.chapters())
        there_languages = _languages(container)
    missing = sorted(key for key, value in texts.items() if there.get(key.lower()) != value)
    notes = [f"left out: metadata {', '.join(missing)}, which {output.suffix} files cannot hold"] if missing else []
    if wanted and not chapters:
        notes.append("left out: chapters, whose times belong to the whole clip at its own speed")
    elif found < wanted:
        notes.append(f"left out: {wanted - found} of {wanted} chapters, which {output.suffix} files cannot hold")
    for kind in languages.keys() & there_languages.keys():
        lost = [
            before
            for before, after in zip(languages[kind], there_languages[kind], strict=False)
            if before and quicktime_language(before) != quicktime_language(after)
        ]
        # Tracks that were left out have been named, and the places of the others are not known here.
        if lost and len(languages[kind]) == len(there_languages[kind]):
            notes.append(
                f"left out: languages {', '.join(lost)} of {kind} tracks, which {output.suffix} files cannot hold"
            )
    return notes


def _languages(container: InputContainer) -> dict[str, list[str]]:
    """The languages of tracks in order, by kind; empty where none is said."""
    found: dict[str, list[str]] = {}
    for stream in container.streams:
        code = stream.metadata.get("language", "")
        found.setdefault(stream.type, []).append("" if code == "und" else code)
    return found
