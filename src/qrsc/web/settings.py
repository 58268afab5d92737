"""What is chosen on the page, checked: as arguments of the library, and as the command that does the same."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

from qrsc.names import PresetName, Scan

READOUTS = ("find", "camera", "milliseconds", "gamma")
BORDERS = ("fill", "crop")
MOST_SLOW = 8  # as long
PREVIEW_SECONDS = 2.0
LONGEST_CAMERA = 80  # characters


@dataclass(frozen=True)
class Settings:
    """How a clip is to be corrected.

    Attributes:
        readout: `find`, `camera`, `milliseconds` or `gamma`: how the readout is given.
        camera, milliseconds, gamma: its value, for the one that is named by `readout`.
        scan: direction as seen; None has it found, or taken as top-down.
        preset: of speed and quality.
        strength: part of the correction, 0 to 1.
        border: `fill` or `crop`.
        denoise: remove noise, too.
        slow: slow motion so many times as long; 1 is none.
        beside: write before and after side by side, too.
        start: where the preview starts, in seconds.
    """

    readout: str = "find"
    camera: str = ""
    milliseconds: float = 16.0
    gamma: float = 0.5
    scan: Scan | None = None
    preset: PresetName = "default"
    strength: float = 1.0
    border: str = "fill"
    denoise: bool = False
    slow: int = 1
    beside: bool = True
    start: float = 0.0

    @staticmethod
    def of(given: object) -> Settings:
        """From the JSON of a request.

        Raises:
            ValueError: a value is missing its meaning; the message says what was expected.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f"settings are a JSON object; got {type(given).__name__}.")
        known = asdict(Settings())
        unknown = sorted(str(name)[:40] for name in given if name not in known)
        if unknown:
            raise ValueError(f"there is no setting {unknown[0]!r}; there are {', '.join(known)}.")
        values = known | dict(given)
        scan = values["scan"]
        settings = Settings(
            readout=_one_of("readout", values["readout"], READOUTS),
            camera=_text("camera", values["camera"]),
            milliseconds=_number("milliseconds", values["milliseconds"], 0.0, 1000.0),
            gamma=_number("gamma", values["gamma"], 0.0, 1.0),
            scan=None if scan is None else _one_of("scan", scan, get_args(Scan)),
            preset=_one_of("preset", values["preset"], get_args(PresetName)),
            strength=_number("strength", values["strength"], 0.0, 1.0),
            border=_one_of("border", values["border"], BORDERS),
            denoise=_truth("denoise", values["denoise"]),
            slow=round(_number("slow", values["slow"], 1, MOST_SLOW)),
            beside=_truth("beside", values["beside"]),
            start=_number("start", values["start"], 0.0, 1e6),
        )
        if settings.readout == "camera" and not settings.camera:
            raise ValueError("choose a camera from the list, or have the readout found in the clip.")
        return settings

    @property
    def finds(self) -> bool:
        """Whether readout and scan are to be found in the clip."""
        return self.readout == "find" and self.scan is None

    @property
    def slows(self) -> bool:
        """Whether slow motion is made; strength, borders and a side-by-side video belong to plain correction."""
        return self.slow > 1

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `correct_video`, or of `slowmo_video` for slow motion; defaults are left out."""
        given: dict[str, Any] = {}
        if self.readout != "find":
            name = {"camera": "camera", "milliseconds": "readout_ms", "gamma": "gamma"}[self.readout]
            given[name] = getattr(self, self.readout)
        if self.scan is not None:
            given["scan"] = self.scan
        if self.preset != "default":
            given["preset"] = self.preset
        if self.denoise:
            given["denoise"] = True
        if self.slows:
            return given | {"factor": self.slow}
        if self.strength != 1.0:
            given["strength"] = self.strength
        return given if self.border == "fill" else given | {"border": self.border}

    def command(self, name: str) -> str:
        """The command that does the same in a terminal, for a clip of this name."""
        name = f"./{name}" if name.startswith("-") else name  # which would be taken for an option
        words = ["qrsc", "slowmo" if self.slows else "correct", name, "-o", output_name(name)]
        for argument, value in self.arguments().items():
            if argument == "preset":
                words.append(f"--{value}")
            elif value is True:
                words.append(f"--{argument}")
            else:
                words += [f"--{argument.removesuffix('_ms')}", f"{value:g}" if isinstance(value, float) else str(value)]
        if self.beside and not self.slows:
            words += ["--compare", compare_name(name)]
        return shlex.join(words)


def output_name(name: str) -> str:
    """The name of the corrected video: in the format of the clip if it can be written, else an MP4."""
    from qrsc.media.codecs import is_video_name  # with torch, which the server does without

    path = Path(name)
    return f"{path.stem}-corrected{path.suffix if is_video_name(path) else '.mp4'}"


def compare_name(name: str) -> str:
    """The name of the video with before and after side by side."""
    return f"{Path(name).stem}-side-by-side.mp4"


def _one_of(name: str, value: object, words: tuple[str, ...]) -> Any:
    if value not in words:
        raise ValueError(f"{name} is one of {', '.join(words)}; got {str(value)[:40]!r}.")
    return value


def _number(name: str, value: object, least: float, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is a number from {least:g} to {most:g}; got {str(value)[:40]!r}.")
    if not least <= value <= most:
        raise ValueError(f"{name} is from {least:g} to {most:g}; got {value:g}.")
    return value


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is true or false; got {str(value)[:40]!r}.")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_CAMERA:
        raise ValueError(f"{name} is a text of at most {LONGEST_CAMERA} characters.")
    return value
