"""Render a scene: each row at its own time, or all rows at once.

Convention
    Times are absolute, in frame intervals. Pixel centres lie at integer coordinates. A row of the sensor is exposed
    as a whole, so that all samples within its pixels share its time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.simulate.render.rays import (
    Hits,
    Picks,
    cast,
    coverage,
    edge_lines,
    inverse_rows,
    mapped,
    mask_opacity,
    pixel_grid,
    surface_groups,
)
from qrsc.simulate.render.surfaces import OPAQUE, Scene
from qrsc.timing import Readout


def render_rs(
    scene: Scene, readout: Readout, frame: int, *, exposure: float = 0.0, exposures: int = 8, samples: int = 1
) -> Tensor:
    """Render the rolling-shutter frame that a camera would record.

    Args:
        scene: to render.
        readout: of the camera.
        frame: number of the frame, which is also the time at which its readout starts.
        exposure: exposure time of each row in frame intervals, centred on its time; over 0 gives motion blur.
        exposures: number of instants that are averaged over the exposure time.
        samples: rays per pixel and direction; 2 averages four rays.

    Returns:
        `[B, 3, H, W]`, in 0 to 1.
    """
    return render_rows(scene, row_times(scene, readout, frame), exposure=exposure, exposures=exposures, samples=samples)


def render_gs(scene: Scene, time: float, *, exposure: float = 0.0, exposures: int = 8, samples: int = 1) -> Tensor:
    """Render the global-shutter frame at an instant: the ground truth for a correction.

    It equals the rolling-shutter frame of a camera with gamma = 0 exactly. The arguments are those of `render_rs`,
    with an absolute time in place of readout and frame.
    """
    return render_rows(scene, instant(scene, time), exposure=exposure, exposures=exposures, samples=samples)


def row_times(scene: Scene, readout: Readout, frame: int) -> Tensor:
    """Absolute times of a frame's rows: `[H, 1]`, or `[1, W]` for a sideways scan; float64."""
    first = frame + readout.offset
    scene.curve.require(first, first + readout.gamma)
    return frame + readout.row_times(*scene.size, dtype=torch.float64, device=scene.device)[0]


def instant(scene: Scene, time: float) -> Tensor:
    """Times of the rows of a global-shutter frame, all the same: `[H, 1]`, float64."""
    scene.curve.require(time, time)
    return torch.full((scene.size[0], 1), time, dtype=torch.float64, device=scene.device)


def render_rows(scene: Scene, times: Tensor, *, exposure: float = 0.0, exposures: int = 8, samples: int = 1) -> Tensor:
    """Render a frame whose rows are exposed at given times.

    Args:
        times: `[H, 1]`, or `[1, W]` for columns.
        exposure, exposures, samples: as for `render_rs`.

    Returns:
        `[B, 3, H, W]`, in 0 to 1.
    """
    if exposure < 0 or exposures < 1 or samples < 1:
        raise ValueError(
            "exposure must be 0 or more, exposures and samples at least 1; got "
            f"exposure = {exposure}, exposures = {exposures}, samples = {samples}."
        )
    instants = [exposure * ((k + 0.5) / exposures - 0.5) for k in range(exposures)] if exposure > 0 else [0.0]
    shifts = [(k + 0.5) / samples - 0.5 for k in range(samples)]
    x, y = pixel_grid(scene)
    total: Tensor | None = None
    for delay in instants:
        inverse = inverse_rows(scene, times + delay)
        for shift_y in shifts:
            for shift_x in shifts:
                colour = _shade(scene, inverse, x + shift_x, y + shift_y, 1.0 / samples)
                total = colour if total is None else total.add_(colour)
    assert total is not None  # there is at least one instant and one sample
    return total.mul_(1.0 / (len(instants) * samples * samples)).clamp_(0.0, 1.0)


def _shade(scene: Scene, inverse: Tensor, x: Tensor, y: Tensor, spacing: float) -> Tensor:
    """Colours along rays that lie `spacing` pixels apart: `[B, 3, H, W]`.

    Most surfaces cover a small part of the picture. Masks, visibility and colours, which cost most, are therefore
    computed only for the (surface, pixel) pairs that need them.
    """
    depths, opacity = _geometry(scene, inverse, x, y)  # [S, B, H, W] each
    picks = Picks.where(_possibly_visible(scene, inverse, depths, opacity))
    matrices = picks.matrices(inverse)
    hits = cast(matrices, x.flatten()[picks.column], y.flatten()[picks.row])
    flat_opacity = opacity.flatten(1)
    own = _masked_opacity(scene, picks, hits, flat_opacity)
    # Most pixels see a single surface: nothing can be in front of it there.
    shared = _indices((opacity > 0).sum(0).flatten().index_select(0, picks.pixel) > 1)
    clear = _visibility(
        scene, picks.select(shared), hits.select(shared), matrices[shared], inverse, depths.flatten(1), flat_opacity
    )
    weight = own.index_copy(0, shared, own[shared] * clear)
    seen = torch.zeros_like(flat_opacity[0]).index_add_(0, picks.pixel, weight)
    through = (1.0 - flat_opacity).prod(0)
    # Where three surfaces meet in a pixel, the weights do not sum to the covered fraction; rescale them.
    scale = (1.0 - through) / torch.where(seen > 0, seen, 1.0)
    weight = weight * scale.index_select(0, picks.pixel)
    shown = _indices(weight > 0)
    colour = _surface_colour(scene, picks.select(shown), hits.select(shown), spacing) * weight[shown][:, None]
    backdrop = through.reshape(scene.batch, -1, 1) * scene.backdrop[:, None]
    result = backdrop.reshape(-1, 3).index_add_(0, picks.pixel[shown], colour)
    return result.reshape(scene.batch, *scene.size, 3).permute(0, 3, 1, 2).contiguous()


def _geometry(scene: Scene, inverse: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Inverse depths, and coverage by the surfaces' rectangles: `[S, B, H, W]` each."""
    lines = edge_lines(scene, inverse)
    depths = inverse.new_empty((scene.count, scene.batch, *scene.size))
    filled = torch.empty_like(depths)
    for group in surface_groups(scene):
        third = inverse[group, :, 2]  # [G, B, 3, H, 1]
        torch.addcmul(third[:, :, 1] * y + third[:, :, 2], third[:, :, 0], x, out=depths[group])
        filled[group] = coverage(lines[group], x, y)
    return depths, filled


def _possibly_visible(scene: Scene, inverse: Tensor, depths: Tensor, opacity: Tensor) -> Tensor:
    """Which surfaces may be visible at a pixel, `[S, B, H, W]`; the opacity of the others is set to 0.

    A surface that covers the whole pixel and has no mask hides everything behind it, unless the two intersect within
    the pixel: over half a pixel, an inverse depth changes by half its gradient.
    """
    solid = (scene.surfaces.mask == OPAQUE).t()[:, :, None, None]
    reach = 0.5 * torch.hypot(inverse[:, :, 2, 0], inverse[:, :, 2, 1])
    in_front = torch.where(solid & (opacity >= 1.0), depths - reach, 0.0).amax(0)
    opacity.masked_fill_(depths + reach < in_front, 0.0)
    return opacity > 0


def _masked_opacity(scene: Scene, picks: Picks, hits: Hits, opacity: Tensor) -> Tensor:
    """Opacity of the picks `[M]` including their masks, which is also written back to `opacity` `[S, P]`."""
    own = opacity[picks.surface, picks.pixel]
    masked = _indices(picks.property(scene.surfaces.mask) != OPAQUE)
    chosen = picks.select(masked)
    covered = own[masked] * mask_opacity(scene, chosen, hits.select(masked))
    opacity[chosen.surface, chosen.pixel] = covered
    return own.index_copy(0, masked, covered)


def _indices(chosen: Tensor) -> Tensor:
    """Indices of the true entries of `[M]`, computed once so that the GPU is synchronised only once."""
    return chosen.nonzero()[:, 0]


def _surface_colour(scene: Scene, picks: Picks, hits: Hits, spacing: float) -> Tensor:
    """Colours of the picks, `[M, 3]`."""
    s, t, gradients = mapped(picks.property(scene.surfaces.texture_map), hits)
    if spacing != 1.0:
        gradients = (gradients[0] * spacing, gradients[1] * spacing, gradients[2] * spacing, gradients[3] * spacing)
    colour = scene.colours.sample(picks.property(scene.surfaces.texture), s, t, gradients)
    colour = colour * picks.property(scene.surfaces.gain) + picks.property(scene.surfaces.offset)
    if scene.haze is None:
        return colour
    haze = scene.haze.index_select(0, picks.scene)
    clear = torch.exp(-haze[:, 3] / hits.inverse_depth)[:, None]
    return torch.lerp(haze[:, :3], colour, clear)


def _visibility(
    scene: Scene, picks: Picks, hits: Hits, matrices: Tensor, inverse: Tensor, depths: Tensor, opacity: Tensor
) -> Tensor:
    """Fraction of each pick that no other surface hides: `[M]`, 0 to 1.

    Inverse depths are linear over the image. Where two planes intersect, the distance in pixels from the intersection
    is therefore known, and the seam is antialiased like any other edge.

    Args:
        depths, opacity: `[S, P]`, of all surfaces at all pixels.
    """
    clear = torch.ones_like(hits.u)
    tiny = torch.finfo(clear.dtype).tiny
    slopes = inverse[:, :, 2, :2].flatten(3).permute(2, 0, 1, 3).flatten(2)  # [2, S, B N]
    line = picks.scene * (slopes.shape[2] // scene.batch) + (picks.column if inverse.shape[-1] > 1 else picks.row)
    numbers = torch.arange(scene.count, device=scene.device)[:, None]
    for others in surface_groups(scene, len(clear)):
        slope_x = slopes[0, others].index_select(1, line) - matrices[:, 2, 0]  # [G, M]
        slope_y = slopes[1, others].index_select(1, line) - matrices[:, 2, 1]
        ahead = depths[others].index_select(1, picks.pixel) - hits.inverse_depth
        in_front = (ahead / (torch.hypot(slope_x, slope_y) + tiny) + 0.5).clamp(0.0, 1.0)
        in_front = torch.where(picks.surface == numbers[others], 0.0, in_front)
        clear = clear * (1.0 - opacity[others].index_select(1, picks.pixel) * in_front).prod(0)
    return clear
