"""The residual over gamma as a curve: two lines of text, or a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from qrsc.calibrate.estimate import Calibration
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame

BARS = "▁▂▃▄▅▆▇█"
SIZE = (360, 640)
_INK, _GRID, _MARK, _SHADE = (26, 30, 36), (216, 222, 230), (0, 114, 178), (204, 230, 255)  # RGB


def curve_text(found: Calibration) -> str:
    """Two lines: bars of the residual cost, lowest where gamma fits best, and the ends of the gamma axis."""
    if not len(found.curve_costs):
        return ""
    costs = found.curve_costs - found.curve_costs.min()
    levels = np.round(costs / max(float(costs.max()), 1e-9) * (len(BARS) - 1)).astype(int)
    bars = "  ".join(BARS[level] for level in levels)
    low, high = f"{found.curve_gammas[0]:+.2f}", f"{found.curve_gammas[-1]:+.2f}"
    return f"{bars}\n{low}{high.rjust(max(1, len(bars) - len(low)))}"


def write_curve(path: Path, found: Calibration, title: str) -> None:
    """Write the curve as a PNG, with the estimate and its interval marked."""
    import cv2

    if not len(found.curve_costs):
        raise ValueError(f"there is no curve to draw: {found.reason}.")
    height, width = SIZE
    left, right, top, bottom = 50, width - 20, 50, height - 50
    pixels = np.full((height, width, 3), 255, dtype=np.uint8)
    gammas, costs = found.curve_gammas, found.curve_costs - found.curve_costs.min()
    span = max(float(costs.max()), 1e-9)

    def across(gamma: float) -> int:
        return round(left + (right - left) * float((gamma - gammas[0]) / (gammas[-1] - gammas[0])))

    for tick in np.arange(np.ceil(gammas[0] * 2) / 2, gammas[-1] + 1e-9, 0.5):
        cv2.line(pixels, (across(tick), top), (across(tick), bottom), _GRID, 1)
        cv2.putText(pixels, f"{tick:g}", (across(tick) - 10, bottom + 20), cv2.FONT_HERSHEY_SIMPLEX, 0.45, _INK, 1)
    sign = -1.0 if found.scan in ("bottom-up", "right-left") else 1.0
    edges = sorted(across(sign * value) for value in (found.low, found.high))
    pixels[top:bottom, max(left, edges[0]) : min(right, edges[1] + 1)] = _SHADE
    points = np.array(
        [(across(g), round(bottom - (bottom - top) * c / span)) for g, c in zip(gammas, costs, strict=True)]
    )
    cv2.polylines(pixels, [points.astype(np.int32)], False, _INK, 2, cv2.LINE_AA)
    if found.determined:
        cv2.line(pixels, (across(sign * found.gamma), top), (across(sign * found.gamma), bottom), _MARK, 2)
    cv2.putText(pixels, title, (left, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)
    caption = "gamma (negative: bottom-up, right-left)      residual, lower is better"
    cv2.putText(pixels, caption, (left, height - 10), cv2.FONT_HERSHEY_SIMPLEX, 0.4, _INK, 1, cv2.LINE_AA)
    with atomic_file(path) as work:
        write_frame(work, torch.from_numpy(pixels).permute(2, 0, 1).float() / 255.0)
