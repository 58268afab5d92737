"""Figures that need the truth of a simulation: errors of correction fields, hidden pixels, straightness of lines."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.image.sampling import inside, pixel_grid, sample

LINES = 16  # per frame
MIN_POINTS = 8  # a line of which fewer points are visible is skipped


def endpoint_error(correction_field: Tensor, truth: Tensor, seen: Tensor) -> float:
    """Mean distance in pixels between two fields `[2, H, W]` where `seen` `[1, H, W]` is true; NaN if it never is."""
    if correction_field.shape != truth.shape or seen.shape[-2:] != truth.shape[-2:]:
        raise ValueError(
            f"two fields [2, H, W] and a mask of one size were expected; got {list(correction_field.shape)}, "
            f"{list(truth.shape)} and {list(seen.shape)}."
        )
    return float((correction_field - truth).norm(dim=0)[seen[0]].mean())


def unseen_parts(distortion_field: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Pixels of the global-shutter frame that the rolling-shutter frame does not show, by the reason.

    Args:
        distortion_field: `[2, H, W]`, the true one, GS to RS on the GS grid.
        seen: `[1, H, W]` bool, the point is visible in the RS frame.

    Returns:
        `[1, H, W]` bool each: the point lay outside the frame (border), or inside it and was hidden (occlusion). A
        frame covers half a pixel around its outermost pixel centres, as in `qrsc.image.sampling.inside`.
    """
    height, width = distortion_field.shape[-2:]
    grid = pixel_grid(height, width, dtype=distortion_field.dtype, device=distortion_field.device)
    x, y = (grid + distortion_field).unbind(0)
    in_frame = inside(x, y, height, width)
    return ~seen & ~in_frame, ~seen & in_frame


def line_bend(correction_field: Tensor, distortion_field: Tensor, seen: Tensor) -> float:
    """How far lines that are straight in the truth are from straight after a correction, in pixels.

    The lines are columns of the global-shutter frame. The truth says where the rolling-shutter frame shows each of
    their points; the correction moves the points from there. A straight line is fitted to the corrected points. The
    result is the root mean square of their distances from it, over all lines.

    Args:
        correction_field: `[2, H, W]`, of a method, RS to GS on the RS grid; zeros measure the frame as it came.
        distortion_field: `[2, H, W]`, the true one, GS to RS on the GS grid.
        seen: `[1, H, W]` bool, the point is visible in the RS frame.

    Returns:
        NaN if no line is visible.
    """
    height, width = distortion_field.shape[-2:]
    grid = pixel_grid(height, width, dtype=distortion_field.dtype, device=distortion_field.device)
    seen_at = grid + distortion_field  # [2, H, W], where the RS frame shows the points of the GS grid
    landed = seen_at + sample(correction_field, seen_at).image
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
    # The line runs along the direction of largest variance; the residuals lie across it.
    _, directions = torch.linalg.eigh(centred @ centred.T)  # eigenvalues ascending
    across: Tensor = directions[:, 0] @ centred
    return across.abs()
