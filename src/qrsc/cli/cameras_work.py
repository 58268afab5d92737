"""What `qrsc cameras` does between its options and its table."""

from __future__ import annotations

import json
from dataclasses import asdict

from qrsc.calibrate.camera_table import CameraMode, find_modes
from qrsc.cli.demo_work import parse_size


def camera_table(query: str, *, size: str | None, fps: float | None, as_json: bool) -> str:
    """The modes that fit, as aligned lines or as JSON."""
    modes = find_modes(query, size=None if size is None else parse_size(size), fps=fps)
    if not modes and not as_json:
        raise ValueError(f"no camera in the table fits {query!r} with these options; `qrsc cameras` lists all.")
    if as_json:
        return json.dumps([asdict(mode) | {"gamma": round(mode.gamma(), 4)} for mode in modes], indent=2)
    return mode_lines(modes)


def mode_lines(modes: list[CameraMode]) -> str:
    """One line a mode, under a heading."""
    rows = [("camera", "size", "fps", "readout ms", "gamma", "profiles", "spread ms")]
    for mode in modes:
        rows.append(
            (
                mode.name,
                f"{mode.width}x{mode.height}",
                f"{mode.fps:g}",
                f"{mode.readout_ms:g}",
                f"{mode.gamma():.3f}",
                str(mode.profiles),
                f"{mode.spread_ms:g}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        name, *figures = row
        lines.append(
            "  ".join(
                [name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(figures, widths[1:], strict=True))]
            )
        )
    return "\n".join(lines)
