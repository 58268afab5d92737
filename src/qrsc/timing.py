"""When each row of a frame is exposed: the one place where gamma meets a picture's size.

Convention
    Time is in frame intervals; frame `k` starts its readout at time `k`. In a picture of `H` rows that is read from
    the top, row `y` is exposed at `k + offset + gamma * y / H`. For the other three scans the same holds for the row
    or column counted from the edge that is read first. "Row" always means a line of the scan: for a sideways scan it
    is a column of the picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor

from qrsc.names import Instant, Scan

__all__ = ["INSTANTS", "SCANS", "Instant", "Readout", "Scan", "parse_scan"]

SCANS: tuple[Scan, ...] = get_args(Scan)
INSTANTS: tuple[Instant, ...] = get_args(Instant)

_FLIPPED_VERTICALLY: dict[Scan, Scan] = {"top-down": "bottom-up", "bottom-up": "top-down"}
_FLIPPED_HORIZONTALLY: dict[Scan, Scan] = {"left-right": "right-left", "right-left": "left-right"}
_TRANSPOSED: dict[Scan, Scan] = {
    "top-down": "left-right",
    "left-right": "top-down",
    "bottom-up": "right-left",
    "right-left": "bottom-up",
}


@dataclass(frozen=True)
class Readout:
    """How a camera reads its frames.

    Attributes:
        gamma: readout time / frame interval, in [0, 1]. 1 means that the last row is read just before the next
            frame starts; 0 is a global shutter, for which there is nothing to correct.
        scan: where the first row lies and which way the readout moves, in the picture as decoded.
        offset: time from the start of the frame to the first row of the picture; other than 0 only after a crop or a
            resize.
    """

    gamma: float
    scan: Scan = "top-down"
    offset: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, (int, float)) or not 0.0 <= self.gamma <= 1.0:
            raise ValueError(
                f"gamma must be a number from 0 to 1, got {self.gamma!r}. It is the readout time as a fraction of the "
                "frame interval: readout_ms * fps / 1000. For a readout in milliseconds use "
                "Readout.from_milliseconds(readout_ms, fps), for per cent Readout.from_percent(percent)."
            )
        if self.scan not in SCANS:
            raise ValueError(f"unknown scan {self.scan!r}; choose one of {', '.join(SCANS)}.")
        if not math.isfinite(self.offset):
            raise ValueError(f"offset must be a finite time in frame intervals, got {self.offset!r}.")

    @classmethod
    def from_ratio(cls, gamma: float, scan: Scan = "top-down") -> Readout:
        """The same as `Readout(gamma, scan)`, to go with the other two constructors."""
        return cls(gamma, scan)

    @classmethod
    def from_milliseconds(cls, readout_ms: float, fps: float, scan: Scan = "top-down") -> Readout:
        """From the time between the first and the last row, in milliseconds, and the frame rate."""
        if not (math.isfinite(fps) and fps > 0):
            raise ValueError(f"fps must be a positive frame rate, got {fps!r}.")
        if not (math.isfinite(readout_ms) and readout_ms >= 0):
            raise ValueError(f"readout_ms must be a readout time in milliseconds, 0 or more, got {readout_ms!r}.")
        gamma = readout_ms * fps / 1000.0
        if gamma > 1.0 + 1e-9:  # 1000 / fps milliseconds are 1 only up to rounding
            raise ValueError(
                f"a readout of {readout_ms:g} ms does not fit between two frames at {fps:g} fps, which are "
                f"{1000.0 / fps:.3g} ms apart (gamma would be {gamma:.3g}, the most is 1). Check the frame rate that "
                "the clip was recorded at: slow motion is often stored at a lower one."
            )
        return cls(min(gamma, 1.0), scan)

    @classmethod
    def from_percent(cls, percent: float, scan: Scan = "top-down") -> Readout:
        """From the readout time as a percentage of the frame interval, as editing programs give it."""
        if not 0.0 <= percent <= 100.0:
            raise ValueError(
                f"percent must be from 0 to 100 (the readout time over the frame interval), got {percent!r}."
            )
        return cls(percent / 100.0, scan)

    def milliseconds(self, fps: float) -> float:
        """The readout time in milliseconds at a frame rate."""
        return self.gamma * 1000.0 / fps

    def instant(self, at: Instant) -> float:
        """The target time tau, from the start of the frame, at which the first, middle or last row is exposed."""
        if at not in INSTANTS:
            raise ValueError(f"unknown instant {at!r}; choose one of {', '.join(INSTANTS)}, or give tau as a number.")
        return self.offset + self.gamma * {"first": 0.0, "middle": 0.5, "last": 1.0}[at]

    # --- the direction of the scan ---

    @property
    def sideways(self) -> bool:
        """Whether columns, not rows, are exposed one after the other."""
        return self.scan in ("left-right", "right-left")

    @property
    def backwards(self) -> bool:
        """Whether the readout runs against the pixel coordinate (bottom-up, right-left)."""
        return self.scan in ("bottom-up", "right-left")

    def row_count(self, height: int, width: int) -> int:
        """How many rows are exposed one after the other in a picture of this size."""
        return width if self.sideways else height

    def scan_component(self, flow: Tensor) -> Tensor:
        """The component along the scan of a flow or a coordinate `[..., 2, H, W]` (x, y): `[..., 1, H, W]`."""
        return flow.narrow(-3, 0 if self.sideways else 1, 1)

    # --- times ---

    def time_per_pixel(self, height: int, width: int) -> float:
        """The difference in exposure time between neighbouring pixels along the scanned coordinate (x or y)."""
        slope = self.gamma / self.row_count(height, width)
        return -slope if self.backwards else slope

    def row_time(self, coordinate: Tensor, height: int, width: int) -> Tensor:
        """Exposure times of (fractional) row coordinates of any shape, since the start of the frame."""
        first_row = self.row_count(height, width) - 1 if self.backwards else 0
        return self.offset + self.time_per_pixel(height, width) * (coordinate - first_row)

    def row_times(
        self,
        height: int,
        width: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Exposure times of all rows since the start of the frame, shaped to broadcast over pictures `[..., C, H, W]`.

        Returns:
            `[1, H, 1]`, or `[1, 1, W]` for a sideways scan.
        """
        rows = torch.arange(self.row_count(height, width), dtype=dtype, device=device)
        times = self.row_time(rows, height, width)
        return times.reshape(1, 1, -1) if self.sideways else times.reshape(1, -1, 1)

    def flight_time(self, flow: Tensor, frames: Tensor | float) -> Tensor:
        """Time between the exposures of a point in one frame and in another.

        The row on which the point lands says when it was exposed, so the time is not a whole number of frame intervals.

        Args:
            flow: `[..., 2, H, W]`, displacement of the point from this frame to the other.
            frames: how many frame intervals later the other one starts (negative: earlier).

        Returns:
            `[..., 1, H, W]`.
        """
        height, width = flow.shape[-2:]
        return frames + self.time_per_pixel(height, width) * self.scan_component(flow)

    # --- the readout of an edited picture ---

    def flipped_vertically(self) -> Readout:
        """The readout of the picture mirrored top to bottom."""
        return replace(self, scan=_FLIPPED_VERTICALLY.get(self.scan, self.scan))

    def flipped_horizontally(self) -> Readout:
        """The readout of the picture mirrored left to right."""
        return replace(self, scan=_FLIPPED_HORIZONTALLY.get(self.scan, self.scan))

    def transposed(self) -> Readout:
        """The readout of the picture with rows and columns exchanged."""
        return replace(self, scan=_TRANSPOSED[self.scan])

    def rotated(self, quarter_turns: int) -> Readout:
        """The readout of the picture rotated counter-clockwise by a number of quarter turns (as `torch.rot90`)."""
        readout = self
        for _ in range(quarter_turns % 4):
            readout = readout.transposed().flipped_vertically()
        return readout

    def resized(self, size: tuple[int, int], new_size: tuple[int, int]) -> Readout:
        """The readout of the picture resized from `(H, W)` to a new size, with the corners of the frame kept.

        Gamma stays the same. The centre of the first row moves by less than a row, old or new; `offset` accounts for
        that.
        """
        _require_size(size)
        _require_size(new_size)
        shift = 0.5 * self.gamma * (1.0 / self.row_count(*new_size) - 1.0 / self.row_count(*size))
        return replace(self, offset=self.offset + shift)

    def cropped(self, box: tuple[int, int, int, int], size: tuple[int, int]) -> Readout:
        """The readout of a part of the picture.

        Args:
            box: `(top, left, height, width)` of the part that is kept.
            size: `(H, W)` of the whole picture.
        """
        _require_size(size)
        top, left, height, width = box
        if height < 1 or width < 1 or top < 0 or left < 0 or top + height > size[0] or left + width > size[1]:
            raise ValueError(
                f"the crop (top, left, height, width) = {box} does not lie inside a picture of (H, W) = {size}."
            )
        start, kept, whole = (left, width, size[1]) if self.sideways else (top, height, size[0])
        skipped = whole - start - kept if self.backwards else start
        return replace(self, gamma=self.gamma * kept / whole, offset=self.offset + self.gamma * skipped / whole)


def parse_scan(text: str) -> Scan:
    """A scan by its name; raises for any other word."""
    for scan in SCANS:
        if scan == text:
            return scan
    raise ValueError(f"unknown scan {text!r}; choose one of {', '.join(SCANS)}.")


def _require_size(size: tuple[int, int]) -> None:
    if len(size) != 2 or min(size) < 1:
        raise ValueError(f"a picture size is (height, width), both at least 1; got {size!r}.")
