"""Figures that need the truth of a simulation: errors of correction fields, what a frame cannot see, straight lines."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.warp import pixel_grid, sample

LINES = 16  # known lines a frame
MIN_POINTS = 8  # a line of fewer points that are seen is passed over


def endpoint_error(correction_field: Tensor, truth: Tensor, seen: Tensor) -> float:
    """Mean distance in pixels between two fields `[2, H, W]` where `seen` `[1, H, W]` is true; NaN if it nowhere is."""
    if correction_field.shape != truth.shape or seen.shape[-2:] != truth.shape[-2:]:
        raise ValueError(
            f"two fields [2, H, W] and a mask of one size were expected; got {list(correction_field.shape)}, "
            f"{list(truth.shape)} and {list(seen.shape)}."
        )
    return float((correction_field - truth).norm(dim=0)[seen[0]].mean())


def unseen_parts(distortion_field: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Where the rolling-shutter frame does not show what the global-shutter frame shows, by the reason.

    Args:
        distortion_field: `[2, H, W]`, the true one, GS to RS on the GS grid.
        seen: `[1, H, W]` bool, the point is seen in the RS frame.

    Returns:
        `[1, H, W]` bool each: the point lay outside the frame (border), or inside but behind something (occlusion).
    """
    height, width = distortion_field.shape[-2:]
    grid = pixel_grid(height, width, dtype=distortion_field.dtype, device=distortion_field.device)
    x, y = (grid + distortion_field).unbind(0)
    inside = (x >= -0.5) & (x <= width - 0.5) & (y >= -0.5) & (y <= height - 0.5)
    return ~seen & ~inside, ~seen & inside


def line_bend(correction_field: Tensor, distortion_field: Tensor, seen: Tensor) -> float:
    """How far from straight lines that are straight in truth are after a correction, in pixels.

    The known lines are columns of the global-shutter frame: whatever straight edge lies along one is bent by the
    rolling shutter as its points are. The truth says where each point was seen; the correction moves it from there. A
    straight line is fitted to where the points come to lie, and the root mean square of their distances from it is
    taken over all lines.

    Args:
        correction_field: `[2, H, W]`, of a method, RS to GS on the RS grid; zeros measure the frame as it came.
        distortion_field: `[2, H, W]`, the true one, GS to RS on the GS grid.
        seen: `[1, H, W]` bool, the point is seen in the RS frame.

    Returns:
        NaN if no line is seen.
    """
    height, width = distortion_field.shape[-2:]
    grid = pixel_grid(height, width, dtype=distortion_field.dtype, device=distortion_field.device)
    started = grid + distortion_field  # [2, H, W], where points of the GS grid were seen
    landed = started + sample(correction_field, started).image
    columns = torch.linspace(0, width - 1, LINES + 2, device=landed.device)[1:-1].round().long()
    squares, count = 0.0, 0
    for column in columns.tolist():
        points = landed[:, seen[0, :, column], column]  # [2, N]
        if points.shape[1] >= MIN_POINTS:
            squares += float(distance_from_line(points).square().sum())
            count += points.shape[1]
    return (squares / count) ** 0.5 if count else float("nan")


def distance_from_line(points: Tensor) -> Tensor:
    """Distances `[N]` of points `[2, N]` from the straight line that fits them best (least squares of distances)."""
    centred = points.double() - points.double().mean(1, keepdim=True)
    # The line runs along the direction in which the points spread most; what is left lies across.
    _, directions = torch.linalg.eigh(centred @ centred.T)  # in order of growing spread
    across: Tensor = directions[:, 0] @ centred
    return across.abs()
