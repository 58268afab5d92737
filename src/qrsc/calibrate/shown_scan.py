"""Scan directions of the picture as seen, and of the stored frames that a rotation tag turns for display.

Convention
    What users give and read is the scan of the picture as seen. Inside, a `Readout` has the scan of the stored frames.
    The display matrix of the clip maps one to the other.
"""

from __future__ import annotations

from dataclasses import replace

from qrsc.calibrate.estimate import Calibration
from qrsc.media.orientation import Matrix, degrees, mirrored, stored_direction
from qrsc.timing import SCANS, Readout, Scan

# Which way (right, down) each scan runs over the picture.
_TOWARDS: dict[Scan, tuple[int, int]] = {
    "top-down": (0, 1),
    "bottom-up": (0, -1),
    "left-right": (1, 0),
    "right-left": (-1, 0),
}


def stored_scan(shown: Scan, matrix: Matrix) -> Scan:
    """The scan of the stored frames, from that of the picture as seen."""
    stored = stored_direction(_TOWARDS[shown], matrix)
    return next(name for name, direction in _TOWARDS.items() if direction == stored)


def shown_scan(stored: Scan, matrix: Matrix) -> Scan:
    """The scan of the picture as seen, from that of the stored frames."""
    return next(shown for shown in SCANS if stored_scan(shown, matrix) == stored)


def turning(matrix: Matrix) -> str:
    """How the stored frames are turned for display, in words; empty if they are shown as they are stored."""
    turned = f"turned by {degrees(matrix)}° clockwise" if degrees(matrix) else ""
    return " and ".join(part for part in (turned, "mirrored" if mirrored(matrix) else "") if part)


def scan_in_words(stored: Scan, matrix: Matrix) -> str:
    """The scan as seen; if the frames are turned for display, with how, and with the scan of the stored frames."""
    shown, turned = shown_scan(stored, matrix), turning(matrix)
    return f"{shown} as seen (the stored frames, read {stored}, are {turned} for display)" if turned else shown


def as_shown(found: Calibration, matrix: Matrix) -> Calibration:
    """A calibration of the stored frames in terms of the picture as seen: its scan, and the signs of its curve."""
    shown = shown_scan(found.scan, matrix)
    if Readout(0.0, shown).backwards == Readout(0.0, found.scan).backwards:
        return replace(found, scan=shown)
    return replace(found, scan=shown, curve_gammas=-found.curve_gammas[::-1], curve_costs=found.curve_costs[::-1])
