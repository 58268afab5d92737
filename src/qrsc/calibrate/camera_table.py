"""Readout times of cameras by name: where to start from when a clip does not tell.

The values stand in `cameras.csv` beside this file, with their source. A camera reads different sizes and rates at
different speeds, so a name alone is rarely enough: the clip's own size and rate pick the rows that count.
"""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

# How close the clip's size and rate must be to those of a row, as a part.
SIZE_SLACK = 0.02
RATE_SLACK = 0.03
# Names less alike than this are not meant.
ALIKE = 0.6
# Rows of one camera whose readouts differ by less than this part tell the same.
AGREEMENT = 0.05


@dataclass(frozen=True)
class CameraMode:
    """A camera in one of its recording modes.

    Attributes:
        brand, model: its name.
        width, height: of the picture.
        fps: frames per second.
        readout_ms: readout time in milliseconds, the median of the profiles.
        profiles: how many profiles it stands on.
        spread_ms: how far these differ.
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
        """The readout ratio at a frame rate; the mode's own if None. Never over 1."""
        return min(1.0, self.readout_ms * (self.fps if fps is None else fps) / 1000.0)

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


def find_modes(
    query: str, *, size: tuple[int, int] | None = None, fps: float | None = None, modes: Sequence[CameraMode] = ()
) -> list[CameraMode]:
    """The modes of the cameras whose names fit a query best.

    A query fits a name that holds all its words (`a7 iv` fits `Sony A7 IV`, `gopro 9` fits `GoPro HERO9 Black`); if
    there is none, names that are spelt alike.

    Args:
        query: name, or parts of it; everything fits an empty one.
        size: `(height, width)` of the clip: keeps the modes of this size, turned or not.
        fps: keeps the modes of this rate.
        modes: the table; the package's own if empty.
    """
    table = modes or all_modes()
    words = _words(query)
    found = [mode for mode in table if all(_holds(_words(mode.name), word) for word in words)]
    whole = [mode for mode in found if "".join(_words(mode.name)).endswith("".join(words))]
    found = whole or found
    if not found:
        names = {"".join(_words(mode.name)): mode.name for mode in table}
        names |= {"".join(_words(mode.model)): mode.name for mode in table}
        close = difflib.get_close_matches("".join(words), list(names), n=3, cutoff=ALIKE)
        wanted = {names[name] for name in close}
        found = [mode for mode in table if mode.name in wanted]
    if size is not None:
        found = [mode for mode in found if _same_size(mode, size)]
    if fps is not None:
        found = [mode for mode in found if abs(mode.fps - fps) <= RATE_SLACK * fps]
    return found


def choose_mode(query: str, *, size: tuple[int, int], fps: float | None) -> tuple[CameraMode, list[CameraMode]]:
    """The mode that a clip was most likely recorded in, and the others that it might have been.

    Args:
        query: name of the camera.
        size: `(height, width)` of the clip.
        fps: its rate, or None if nobody knows.

    Raises:
        ValueError: no such camera, or none of its modes has this size and rate; the message lists what there is.
    """
    named = find_modes(query)
    if not named:
        raise ValueError(
            f"no camera called {query!r} in the table; `qrsc cameras` lists them. Or leave the camera out: the readout "
            "is then looked for in the clip."
        )
    fitting = find_modes(query, size=size, fps=fps)
    if not fitting:
        known = "; ".join(str(mode) for mode in named[:4]) + ("; ..." if len(named) > 4 else "")
        at = "" if fps is None else f" at {fps:g} fps"
        raise ValueError(
            f"no readout time is known for {query!r} recording {size[1]}x{size[0]}{at}. Known: {known}. "
            "Give --readout in milliseconds, or leave the camera out."
        )
    best = max(fitting, key=lambda mode: (mode.profiles, -mode.spread_ms))
    others = [
        mode
        for mode in fitting
        if mode is not best and abs(mode.readout_ms - best.readout_ms) > AGREEMENT * best.readout_ms
    ]
    return best, others


def _words(name: str) -> list[str]:
    """A name in small letters, split where letters meet digits: `HERO9 Black` is hero, 9, black."""
    return re.findall(r"[a-z]+|\d+", name.casefold())


def _holds(words: list[str], word: str) -> bool:
    # Digits are whole words (9 is not 90), letters may be shortened (pana for panasonic).
    return any(own == word or (word.isalpha() and own.startswith(word)) for own in words)


def _same_size(mode: CameraMode, size: tuple[int, int]) -> bool:
    def close(wanted: tuple[int, int]) -> bool:
        return all(abs(a - b) <= SIZE_SLACK * b for a, b in zip((mode.height, mode.width), wanted, strict=True))

    return close(size) or close((size[1], size[0]))
