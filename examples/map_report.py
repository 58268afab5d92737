"""How good maps are, as a table and pictures: what `walk_to_map.py` writes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
import pycolmap

WAYS = ("global", "raw", "corrected", "flow", "true", "frames")
COLOURS = {
    "raw": (40, 40, 220),
    "corrected": (200, 120, 20),
    "flow": (60, 170, 220),
    "true": (40, 160, 40),
    "frames": (180, 60, 180),
    "global": (90, 90, 90),
}


@dataclass(frozen=True)
class Score:
    """How good a map is."""

    registered: int
    points: int
    reprojection: float  # px
    rotation: float  # median over frames, degrees
    position: float  # median over frames, per cent of the length of the camera's path


Scores = dict[str, Score | None]
Maps = dict[str, pycolmap.Reconstruction | None]


def table(results: list[tuple[str, Scores]]) -> str:
    """A table in Markdown: each scene and way, and the medians over the scenes; a map that failed is infinitely bad."""
    lines = [
        "| scene | keypoints | frames | points | reprojection px | rotation ° | position % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, scores in results:
        if len(scores) == 1:
            value = scores["global"]
            found = "no map" if value is None else _figures(value)
            lines.append(f"| {name} | global; not used | {found} |" + (" | | | |" if value is None else ""))
            continue
        for way, value in scores.items():
            found = "no map | | | |" if value is None else _figures(value)
            lines.append(f"| {name} | {way} | {found} |")
    used = [scores for _, scores in results if len(scores) > 1]
    for way in WAYS:
        if used:
            values = [scores[way] or Score(0, 0, math.inf, math.inf, math.inf) for scores in used]
            middle = Score(*(float(np.median([getattr(each, key) for each in values])) for key in vars(values[0])))
            lines.append(f"| **median of {len(used)}** | {way} | {_figures(middle)} |")
    return "\n".join(lines) + "\n"


def _figures(value: Score) -> str:
    return (
        f"{value.registered:g} | {value.points:g} | {value.reprojection:.3f} | "
        f"{value.rotation:.3f} | {value.position:.2f}"
    )


def error_plot(results: list[tuple[str, Scores]]) -> np.ndarray:
    """Pose errors, reprojection errors and numbers of points, one group of bars per scene, on logarithmic scales."""
    results = [(name, scores) for name, scores in results if len(scores) > 1]
    step = 22 + 16 * len(WAYS)
    width, height = max(90 + step * len(results), 820), 320
    panels = []
    for key, title, limits in (
        ("rotation", "rotation error, degrees", (0.003, 10.0)),
        ("position", "position error, % of the path", (0.01, 30.0)),
        ("reprojection", "reprojection error, px", (0.05, 2.0)),
        ("points", "points of the map", (50.0, 5000.0)),
    ):
        panel = np.full((height, width, 3), 255, np.uint8)
        span = np.log10(limits[1] / limits[0])
        ticks = [10.0**power for power in range(-2, 4) if limits[0] <= 10.0**power <= limits[1]]
        for tick in ticks:
            y = int(height - 40 - (height - 80) * np.log10(tick / limits[0]) / span)
            cv2.line(panel, (60, y), (width - 10, y), (220, 220, 220), 1)
            cv2.putText(panel, f"{tick:g}", (10, y + 4), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
        for index, (name, scores) in enumerate(results):
            for place, way in enumerate(WAYS):
                value = scores[way]
                if value is None:
                    continue
                share = np.clip(np.log10(max(getattr(value, key), limits[0]) / limits[0]) / span, 0, 1)
                x = 70 + step * index + 16 * place
                cv2.rectangle(
                    panel, (x, int(height - 40 - (height - 80) * share)), (x + 12, height - 40), COLOURS[way], -1
                )
            cv2.putText(
                panel, name, (70 + step * index, height - 22), cv2.FONT_HERSHEY_SIMPLEX, 0.36, (0, 0, 0), 1, cv2.LINE_AA
            )
        cv2.putText(panel, title, (60, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
        panels.append(panel)
    for place, way in enumerate(WAYS):
        cv2.putText(
            panels[0], way, (260 + 90 * place, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.45, COLOURS[way], 1, cv2.LINE_AA
        )
    return np.concatenate(panels)


def clouds(maps: Maps, side: int = 420) -> np.ndarray:
    """The points of each map from above, in the camera frame of its first image, with the camera's path in black."""
    panels = []
    for way in ("raw", "corrected", "true"):
        panel = np.full((side, side, 3), 255, np.uint8)
        cv2.putText(panel, way, (10, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (0, 0, 0), 1, cv2.LINE_AA)
        found = maps[way]
        if found is not None and found.num_points3D():
            first = min((image for image in found.images.values() if image.has_pose), key=lambda image: image.name)
            pose = first.cam_from_world()
            to_camera = lambda points, pose=pose: points @ pose.rotation.matrix().T + pose.translation  # noqa: E731
            points = to_camera(np.array([point.xyz for point in found.points3D.values()]))
            path = to_camera(np.array([image.projection_center() for image in found.images.values() if image.has_pose]))
            reach = float(np.quantile(points[:, 2], 0.8))
            for values, colour, radius in ((points, COLOURS[way], 1), (path, (0, 0, 0), 2)):
                for x, _, z in values:
                    place = (int(side / 2 + 0.45 * side * x / reach), int(side - 20 - 0.9 * side * z / reach))
                    if 0 <= place[0] < side and 0 <= place[1] < side:
                        cv2.circle(panel, place, radius, colour, -1, cv2.LINE_AA)
        panels.append(panel)
    return np.concatenate(panels, axis=1)
