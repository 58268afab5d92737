"""Videos made on the fly, and what a video says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.media.planes import Colours, frame_of, layout_of, reformatted
from qrsc.timing import Readout
from qrsc.warp import sample

TIME_BASE = Fraction(1, 90000)
READOUT = Readout(0.8)


def texture(seed: int, height: int = 72, width: int = 224) -> Tensor:
    """A smooth picture `[3, H, W]`."""
    coarse = torch.rand(1, 3, height // 5, width // 5, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0].clamp(0, 1)


def place(when: Tensor | float) -> Any:
    """How far the texture has run to the left, in pixels, at a time: faster and faster."""
    return 5.0 * when + 0.15 * when**2


def seen(picture: Tensor, at: float, gamma: float = READOUT.gamma, width: int = 96) -> Tensor:
    """The rolling-shutter frame `[3, H, width]` that starts at a time; with gamma 0 a global-shutter one."""
    height = picture.shape[1]
    rows = at + gamma * torch.arange(height) / height
    x = torch.arange(width) + 10.0 + place(rows)[:, None]
    y = torch.arange(height, dtype=torch.float32)[:, None].expand(-1, width)
    return sample(picture, torch.stack([x, y])).image


def texture_frames(count: int, height: int = 48, width: int = 64, step: int = 3) -> list[torch.Tensor]:
    """Frames `[3, H, W]` of a smooth texture that runs to the right."""
    coarse = torch.rand(
        1, 3, height // 4 + 1, (width + step * count) // 4 + 1, generator=torch.Generator().manual_seed(3)
    )
    wide = torch.nn.functional.interpolate(coarse, (height, width + step * count), mode="bicubic")[0].clamp(0, 1)
    return [wide[:, :, step * (count - k) : step * (count - k) + width] for k in range(count)]


@dataclass
class Recipe:
    """A video to make; every field has a plain value."""

    frames: Sequence[torch.Tensor]
    codec: str = "libx264"
    pixel_format: str = "yuv420p"
    stamps: Sequence[int] | None = None  # in 1/90000 s
    options: dict[str, str] = field(default_factory=lambda: {"crf": "8"})
    colours: Colours = field(default_factory=Colours)
    rotation: int = 0  # degrees, counter-clockwise, as PyAV has it
    mirrored: bool = False
    pixel_aspect: Fraction | None = None
    sound: int = 0  # tracks
    subtitles: str = ""  # an encoder of them
    second: bool = False  # a second video, with frames that are not stored in the order in which they are shown
    cover: bool = False  # a cover picture
    alpha: bool = False  # the upper half is half transparent
    rate: int | None = None  # frames per second, for encoders that need their own unit of time
    metadata: dict[str, str] = field(default_factory=dict)
    chapters: list[dict[str, Any]] = field(default_factory=list)


def make_video(path: Path, recipe: Recipe) -> Path:
    """Writes a video after a recipe."""
    stamps = recipe.stamps or [3000 * k for k in range(len(recipe.frames))]
    layout = layout_of(recipe.pixel_format)
    with av.open(str(path), "w") as container:
        video: Any = container.add_stream(recipe.codec, rate=recipe.rate or 30, options=recipe.options)
        time_base = TIME_BASE if recipe.rate is None else Fraction(1, recipe.rate)
        video.time_base = video.codec_context.time_base = time_base
        video.height, video.width = recipe.frames[0].shape[-2:]
        video.pix_fmt = recipe.pixel_format
        context, colours = video.codec_context, recipe.colours
        context.colorspace, context.color_primaries = colours.matrix, colours.primaries
        context.color_trc, context.color_range = colours.transfer, colours.range
        if recipe.pixel_aspect is not None:
            context.sample_aspect_ratio = recipe.pixel_aspect
        if recipe.rotation or recipe.mirrored:
            video.set_display_rotation(recipe.rotation, hflip=recipe.mirrored)
        sounds: list[Any] = [container.add_stream("aac", rate=48000, layout="stereo") for _ in range(recipe.sound)]
        for number, sound in enumerate(sounds):
            sound.metadata["language"] = ("eng", "deu", "fra")[number]
        subtitle: Any = container.add_mux_stream(recipe.subtitles) if recipe.subtitles else None
        second = _second_video(container) if recipe.second else None
        cover = _cover(container) if recipe.cover else None
        container.metadata.update(recipe.metadata)
        if recipe.chapters:
            container.set_chapters(recipe.chapters)  # type: ignore[arg-type]  # PyAV's stubs
        for frame, stamp in zip(recipe.frames, stamps, strict=True):
            opacity = _half_transparent(frame, layout.bits) if recipe.alpha else None
            picture: Any = reformatted(frame_of(frame, layout, colours, opacity), format=recipe.pixel_format)
            picture.pts, picture.time_base = stamp, TIME_BASE
            container.mux(video.encode(picture))
            if second is not None:
                container.mux(second.encode(_small_frame(stamp)))
        for stream in (video, second):
            container.mux(stream.encode(None) if stream is not None else [])
        if cover is not None:
            container.mux([*cover.encode(_small_frame(0, "yuvj420p")), *cover.encode(None)])
        seconds = (stamps[-1] + 3000) / 90000
        for number, sound in enumerate(sounds):
            _sing(container, sound, seconds, stamps[0] / 90000, number)
        if subtitle is not None:
            _write_subtitles(container, subtitle, seconds)
    return path


def _second_video(container: Any) -> Any:
    stream = container.add_stream("libx264", rate=30, options={"bf": "2", "b-adapt": "0"})
    stream.time_base = stream.codec_context.time_base = TIME_BASE
    stream.height, stream.width, stream.pix_fmt = 32, 32, "yuv420p"
    return stream


def _cover(container: Any) -> Any:
    stream = container.add_stream("mjpeg", rate=1)
    stream.height, stream.width, stream.pix_fmt, stream.disposition = 32, 32, "yuvj420p", 1 << 10
    stream.codec_context.time_base = TIME_BASE
    return stream


def _small_frame(stamp: int, pixel_format: str = "yuv420p") -> Any:
    frame: Any = reformatted(
        frame_of(texture(stamp % 97, 32, 32), layout_of("yuv420p"), Colours()), format=pixel_format
    )
    frame.pts, frame.time_base = stamp, TIME_BASE
    return frame


def _half_transparent(frame: Tensor, bits: int) -> npt.NDArray[Any]:
    alpha = np.full(frame.shape[-2:], 2**bits - 1, np.uint8 if bits == 8 else np.uint16)
    alpha[: frame.shape[-2] // 2] = 2 ** (bits - 1)
    return alpha


def _sing(container: Any, stream: Any, seconds: float, start: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for index in range(int((seconds - start) * 48000) // 1024):
        wave = (0.1 * rng.standard_normal((2, 1024))).astype(np.float32)
        frame: Any = av.AudioFrame.from_ndarray(wave, format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = 48000, round(start * 48000) + 1024 * index, Fraction(1, 48000)
        container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def _write_subtitles(container: Any, stream: Any, seconds: float) -> None:
    text = b"\x00\x05Hello" if stream.container.format.name == "mp4" else b"Hello"
    for index in range(2):
        packet = av.Packet(text)
        packet.stream = stream
        packet.time_base = Fraction(1, 1000)
        packet.pts = packet.dts = round(1000 * seconds * index / 2)
        packet.duration = round(400 * seconds)
        container.mux(packet)


@dataclass(frozen=True)
class Facts:
    """What a video says about itself; times are exact."""

    times: list[Fraction]
    size: tuple[int, int]
    codec: str
    pixel_format: str
    colours: tuple[int, int, int, int]
    matrix: bytes | None
    pixel_aspect: Fraction | None
    tracks: list[tuple[str, str, dict[str, str], list[tuple[Fraction, bytes]]]]  # kind, codec, metadata, packets
    chapters: list[tuple[Fraction, Fraction, str]]
    metadata: dict[str, str]
    side_data: dict[str, bytes]


def facts(path: Path) -> Facts:
    """Reads all of it."""
    with av.open(str(path)) as container:
        video: Any = container.streams.video[0]
        decoded: list[Any] = list(container.decode(video))
        first = decoded[0]
        side_data = {part.type.name: bytes(part) for part in first.side_data}
        found: list[Any] = list(container.chapters())
        chapters = [
            (c["start"] * c["time_base"], c["end"] * c["time_base"], c["metadata"].get("title", "")) for c in found
        ]
        return Facts(
            times=[frame.pts * video.time_base for frame in decoded],
            size=(first.height, first.width),
            codec=video.codec_context.name,
            pixel_format=first.format.name,
            colours=(first.colorspace, first.color_primaries, first.color_trc, first.color_range),
            matrix=side_data.get("DISPLAYMATRIX"),
            pixel_aspect=video.sample_aspect_ratio,
            tracks=[_track(path, stream) for stream in container.streams if stream.index != video.index],
            chapters=[(Fraction(a), Fraction(b), title) for a, b, title in chapters],
            metadata=dict(container.metadata),
            side_data=side_data,
        )


def _track(path: Path, stream: Any) -> tuple[str, str, dict[str, str], list[tuple[Fraction, bytes]]]:
    with av.open(str(path)) as container:
        same: Any = container.streams[stream.index]
        packets = [((p.pts or 0) * p.time_base, bytes(p)) for p in container.demux(same) if p.size]
        name = "" if same.codec_context is None else same.codec_context.name
        kept = {key: value for key, value in same.metadata.items() if key in ("language", "title", "handler_name")}
        return same.type, name, kept, packets


def planes(path: Path) -> list[list[npt.NDArray[Any]]]:
    """The decoded samples of every frame, plane by plane."""
    from qrsc.media.planes import plane_of

    with av.open(str(path)) as container:
        return [
            [plane_of(frame, index).copy() for index in range(len(frame.planes))]
            for frame in container.decode(container.streams.video[0])
        ]
