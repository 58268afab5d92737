"""Readout times of cameras by name: a starting point where a clip does not determine its own.

The values are in `cameras.csv` beside this file, with their source. A camera has different readout times at different
sizes and frame rates, so a name alone is rarely enough: the size and the rate of the clip select the rows.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

# Relative tolerances of the clip's size and rate to those of a row.
SIZE_TOLERANCE = 0.02
RATE_TOLERANCE = 0.03
# Rows of one camera whose readouts differ by a smaller fraction agree.
AGREEMENT = 0.05


@dataclass(frozen=True)
class CameraMode:
    """A camera in one of its recording modes.

    Attributes:
        brand, model: its name.
        width, height: of the picture.
        fps: frames per second.
        readout_ms: readout time in milliseconds, the median of the profiles.
        profiles: number of lens profiles that the median is taken over.
        spread_ms: range of their readout times.
    """

    brand: str
    model: str
    width: int
    height: int
    fps: float
    readout_ms: float
    profiles: int
    spread_ms: float

    @property
    def name(self) -> str:
        """Brand and model."""
        return f"{self.brand} {self.model}"

    def gamma(self, fps: float | None = None) -> float:
        """The readout ratio at a frame rate, at most 1; the mode's own rate if None."""
        return min(1.0, self.readout_ms * (self.fps if fps is None else fps) / 1000.0)

    def figures(self) -> dict[str, Any]:
        """The row as values that JSON can hold, with gamma at the mode's own frame rate."""
        return asdict(self) | {"gamma": round(self.gamma(), 4)}

    def __str__(self) -> str:
        return f"{self.name}, {self.width}x{self.height} at {self.fps:g} fps: {self.readout_ms:g} ms"


@lru_cache(maxsize=1)
def all_modes() -> tuple[CameraMode, ...]:
    """The whole table."""
    text = files("qrsc.calibrate").joinpath("cameras.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        CameraMode(
            row["brand"],
            row["model"],
            int(row["width"]),
            int(row["height"]),
            float(row["fps"]),
            float(row["readout_ms"]),
            int(row["profiles"]),
            float(row["spread_ms"]),
        )
        for row in rows
    )


def find_modes(query: str, *, size: tuple[int, int] | None = None, fps: float | None = None) -> list[CameraMode]:
    """The modes of all cameras whose names contain the words of a query: a search, for people to choose from.

    Args:
        query: words of the name, whole or shortened (`gopro 5 bl`); an empty query matches everything.
        size: `(height, width)` of the clip: only modes of this size, portrait or landscape.
        fps: only modes of this frame rate.
    """
    words = _words(query)
    found = [mode for mode in all_modes() if all(_contains(_words(mode.name), word) for word in words)]
    return _fitting([mode for mode in found if _is_model(mode, words)] or found, size, fps)


def model_modes(name: str) -> list[CameraMode]:
    """The modes of exactly this model, however its name is spaced, hyphenated and capitalised; the brand is optional.

    Raises:
        ValueError: the table does not have this model; the message names the nearest ones.
    """
    words = _words(name)
    found = [mode for mode in all_modes() if _is_model(mode, words)]
    if not found:
        raise ValueError(
            f"the camera {name!r} is not known; nearest: {', '.join(nearest_names(name))}. Readouts of other models "
            "differ: give --readout in milliseconds, or leave the camera out to have the readout found in the clip. "
            "`qrsc cameras` lists all."
        )
    return found


def nearest_names(query: str, count: int = 3) -> list[str]:
    """The names in the table that are most like a query: by shared words, numbers within a series, and spelling."""
    words = _words(query)
    joined = "".join(words)
    names = {mode.name: mode for mode in all_modes()}

    numbers = _numbers(words)

    def likeness(name: str) -> tuple[int, float, float]:
        own = _words(name)
        shared = sum(word in own for word in words)
        spelt = max(
            difflib.SequenceMatcher(None, joined, "".join(_words(text))).ratio() for text in (name, names[name].model)
        )
        apart = [abs(numbers[series] - number) for series, number in _numbers(own).items() if series in numbers]
        return shared, 1.0 / (1 + min(apart)) if apart else 0.0, spelt

    ranked = sorted(names, key=likeness, reverse=True)
    distinct = {"".join(_words(name)): name for name in reversed(ranked)}
    return [name for name in ranked if distinct["".join(_words(name))] == name][:count]


def _numbers(words: list[str]) -> dict[str, int]:
    """The numbers of models within their series: `hero12` and `hero 12` are 12 of `hero`."""
    return {series: int(number) for series, number in re.findall(r"([a-z]+) ?(\d+)", " ".join(words))}


def choose_mode(name: str, *, size: tuple[int, int], fps: float | None) -> tuple[CameraMode, list[CameraMode]]:
    """The mode that a clip was most likely recorded in, and others with another readout that are possible.

    Args:
        name: the model, as `model_modes` takes it.
        size: `(height, width)` of the clip.
        fps: its frame rate, or None if it is not known.

    Raises:
        ValueError: the table does not have this model, or none of its modes has this size and rate; the message lists
            what there is.
    """
    named = model_modes(name)
    fitting = _fitting(named, size, fps)
    if not fitting:
        known = "; ".join(str(mode) for mode in named[:4]) + ("; ..." if len(named) > 4 else "")
        at = "" if fps is None else f" at {fps:g} fps"
        raise ValueError(
            f"no readout time is known for {name!r} recording {size[1]}x{size[0]}{at}. Known: {known}. "
            "Give --readout in milliseconds, or leave the camera out."
        )
    best = max(fitting, key=lambda mode: (mode.profiles, -mode.spread_ms))
    others = [
        mode
        for mode in fitting
        if mode is not best and abs(mode.readout_ms - best.readout_ms) > AGREEMENT * best.readout_ms
    ]
    return best, others


def modes_text(modes: Sequence[CameraMode]) -> str:
    """An aligned table with a heading, one mode per line."""
    rows = [("camera", "size", "fps", "readout ms", "gamma", "profiles", "spread ms")]
    for mode in modes:
        size, gamma = f"{mode.width}x{mode.height}", f"{mode.gamma():.3f}"
        figures = (f"{mode.fps:g}", f"{mode.readout_ms:g}", gamma, str(mode.profiles), f"{mode.spread_ms:g}")
        rows.append((mode.name, size, *figures))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(cells, widths[1:], strict=True))])
        for name, *cells in rows
    )


def _words(name: str) -> list[str]:
    """Words of a name in lower case, split between letters and digits: `HERO9 Black` is hero, 9, black."""
    return re.findall(r"[^\W\d_]+|\d+", name.casefold())


def _is_model(mode: CameraMode, words: list[str]) -> bool:
    """Whether words are the whole name of a model, with or without its brand."""
    return bool(words) and "".join(words) in ("".join(_words(mode.model)), "".join(_words(mode.name)))


def _fitting(modes: list[CameraMode], size: tuple[int, int] | None, fps: float | None) -> list[CameraMode]:
    """The modes of a size and a frame rate, where these are given."""
    return [
        mode
        for mode in modes
        if (size is None or _same_size(mode, size)) and (fps is None or abs(mode.fps - fps) <= RATE_TOLERANCE * fps)
    ]


def _contains(words: list[str], word: str) -> bool:
    # Numbers must match as a whole (9 is not 90), words may be shortened (pana for panasonic).
    return any(own == word or (word.isalpha() and own.startswith(word)) for own in words)


def _same_size(mode: CameraMode, size: tuple[int, int]) -> bool:
    def close(wanted: tuple[int, int]) -> bool:
        return all(abs(a - b) <= SIZE_TOLERANCE * b for a, b in zip((mode.height, mode.width), wanted, strict=True))

    return close(size) or close((size[1], size[0]))
