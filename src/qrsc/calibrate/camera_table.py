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
MIN_SIMILARITY = 0.6  # of a misspelt name, as `difflib` measures it
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
    """The modes of the cameras whose names match a query best.

    A name matches if it contains all words of the query (`a7 iv` matches `Sony A7 IV`, `gopro 9` matches `GoPro HERO9
    Black`); if none does, similar spellings match.

    Args:
        query: name, or parts of it; an empty one matches everything.
        size: `(height, width)` of the clip: only modes of this size, portrait or landscape.
        fps: only modes of this frame rate.
    """
    table = all_modes()
    words = _words(query)
    found = [mode for mode in table if all(_contains(_words(mode.name), word) for word in words)]
    exact = [mode for mode in found if "".join(_words(mode.name)).endswith("".join(words))]
    found = exact or found
    if not found:
        names = {"".join(_words(mode.name)): mode.name for mode in table}
        names |= {"".join(_words(mode.model)): mode.name for mode in table}
        close = difflib.get_close_matches("".join(words), list(names), n=3, cutoff=MIN_SIMILARITY)
        wanted = {names[name] for name in close}
        found = [mode for mode in table if mode.name in wanted]
    if size is not None:
        found = [mode for mode in found if _same_size(mode, size)]
    if fps is not None:
        found = [mode for mode in found if abs(mode.fps - fps) <= RATE_TOLERANCE * fps]
    return found


def choose_mode(query: str, *, size: tuple[int, int], fps: float | None) -> tuple[CameraMode, list[CameraMode]]:
    """The mode that a clip was most likely recorded in, and others with another readout that are possible.

    Args:
        query: name of the camera.
        size: `(height, width)` of the clip.
        fps: its frame rate, or None if it is not known.

    Raises:
        ValueError: no such camera, or none of its modes has this size and rate; the message lists what there is.
    """
    named = find_modes(query)
    if not named:
        raise ValueError(
            f"no camera called {query!r} in the table; `qrsc cameras` lists them. Or leave the camera out: the readout "
            "is then estimated from the clip."
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
    return re.findall(r"[a-z]+|\d+", name.casefold())


def _contains(words: list[str], word: str) -> bool:
    # Numbers must match as a whole (9 is not 90), words may be shortened (pana for panasonic).
    return any(own == word or (word.isalpha() and own.startswith(word)) for own in words)


def _same_size(mode: CameraMode, size: tuple[int, int]) -> bool:
    def close(wanted: tuple[int, int]) -> bool:
        return all(abs(a - b) <= SIZE_TOLERANCE * b for a, b in zip((mode.height, mode.width), wanted, strict=True))

    return close(size) or close((size[1], size[0]))
