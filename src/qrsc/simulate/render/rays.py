"""Intersections of pixel rays with surfaces, and the coverage of pixels by surfaces."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import invert_homographies
from qrsc.simulate.render.surfaces import Scene

GPU_ELEMENTS = 1 << 24  # points on surfaces that a GPU processes at a time; 64 MiB for each intermediate


@dataclass(frozen=True)
class Hits:
    """Intersections of rays with surfaces. The tensors share one shape, or broadcast to one.

    Attributes:
        u, v: coordinates on the surface.
        inverse_depth: 1 / depth; 0 or less where the surface is not in front of the camera.
        gradients: `du/dx, du/dy, dv/dx, dv/dy`, from pixel to pixel at a fixed time.
    """

    u: Tensor
    v: Tensor
    inverse_depth: Tensor
    gradients: tuple[Tensor, Tensor, Tensor, Tensor]

    def select(self, index: Tensor) -> Hits:
        """The hits with the indices `[K]`."""
        u_x, u_y, v_x, v_y = (gradient.index_select(0, index) for gradient in self.gradients)
        u, v, depth = (value.index_select(0, index) for value in (self.u, self.v, self.inverse_depth))
        return Hits(u, v, depth, (u_x, u_y, v_x, v_y))


def inverse_rows(scene: Scene, times: Tensor) -> Tensor:
    """Inverse homographies for pictures whose rows are exposed at given times.

    The time is constant along a row, so that a picture needs only one matrix per row. They are computed in float64,
    which costs little at this size and avoids cancellation in the inverse for float32 pictures.

    Args:
        times: `[H, 1]`, or `[1, W]` for columns: absolute times.

    Returns:
        `[S, B, 3, 3, H, 1]` or `[S, B, 3, 3, 1, W]`, in the scene's dtype.
    """
    inverse = invert_homographies(scene.curve.matrices(times.flatten()))  # [B, S, N, 3, 3]
    inverse = inverse.permute(1, 0, 3, 4, 2).contiguous()
    return inverse.reshape(*inverse.shape[:4], *times.shape).to(scene.dtype)


def pixel_grid(scene: Scene) -> tuple[Tensor, Tensor]:
    """Coordinates of the pixel centres: x `[1, W]` and y `[H, 1]`."""
    height, width = scene.size
    x = torch.arange(width, dtype=scene.dtype, device=scene.device).reshape(1, -1)
    y = torch.arange(height, dtype=scene.dtype, device=scene.device).reshape(-1, 1)
    return x, y


def surface_groups(scene: Scene, points: int | None = None) -> list[slice]:
    """Groups of surfaces to process at a time, for work on all surfaces at many points.

    A CPU processes one surface at a time, so that intermediates stay in the cache. A GPU processes many, because
    launching a kernel takes longer than running it on the pixels of one surface.

    Args:
        points: number of points per surface; all pixels if None.
    """
    points = scene.batch * scene.size[0] * scene.size[1] if points is None else points
    together = 1 if scene.device.type == "cpu" else max(1, GPU_ELEMENTS // max(1, points))
    return [slice(first, min(first + together, scene.count)) for first in range(0, scene.count, together)]


def cast(inverse: Tensor, x: Tensor, y: Tensor) -> Hits:
    """Intersect rays through pixels with one surface each.

    Args:
        inverse: `[M, 3, 3, ...]`, inverse homographies.
        x, y: pixel coordinates, broadcastable with `[M, ...]`.
    """
    scaled_u = inverse[:, 0, 0] * x + (inverse[:, 0, 1] * y + inverse[:, 0, 2])
    scaled_v = inverse[:, 1, 0] * x + (inverse[:, 1, 1] * y + inverse[:, 1, 2])
    inverse_depth = inverse[:, 2, 0] * x + (inverse[:, 2, 1] * y + inverse[:, 2, 2])
    depth = 1.0 / torch.where(inverse_depth > 0, inverse_depth, 1.0)
    u, v = scaled_u * depth, scaled_v * depth
    gradients = (
        (inverse[:, 0, 0] - u * inverse[:, 2, 0]) * depth,
        (inverse[:, 0, 1] - u * inverse[:, 2, 1]) * depth,
        (inverse[:, 1, 0] - v * inverse[:, 2, 0]) * depth,
        (inverse[:, 1, 1] - v * inverse[:, 2, 1]) * depth,
    )
    return Hits(u, v, inverse_depth, gradients)


def edge_lines(scene: Scene, inverse: Tensor) -> Tensor:
    """Image lines of the edges of the surfaces' rectangles, and of their horizons.

    The point seen by a pixel has `(u, v, 1) / depth` linear in x and y, so that `(u - u_min) / depth` is linear too:
    it is 0 along the image of an edge, and divided by its gradient it is the distance from it in pixels.

    Args:
        inverse: from `inverse_rows`.

    Returns:
        `[S, B, 5, 3, H, 1]` (or `1, W`): for u_min, u_max, v_min, v_max and the horizon the coefficients of x, y and 1
        of the signed distance in pixels, positive inside the surface.
    """
    # The edges of an infinite surface coincide with its horizon to single precision.
    limits = scene.surfaces.extent.transpose(0, 1).double().clamp(-1e6, 1e6)  # [S, B, 4]
    u_min, v_min, u_max, v_max = limits[..., None, None, None].unbind(2)
    u, v, w = inverse.double().unbind(2)  # [S, B, 3, H, 1] each
    lines = torch.stack([u - u_min * w, u_max * w - u, v - v_min * w, v_max * w - v, w], dim=2)
    length = torch.hypot(lines[:, :, :, 0], lines[:, :, :, 1])[:, :, :, None]
    # A layer of constant depth has no horizon: its distance is infinite, which gives full coverage.
    return (lines / (length + torch.finfo(torch.float64).tiny)).clamp(-1e30, 1e30).to(inverse.dtype)


def coverage(lines: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Fraction of each pixel that the rectangles of surfaces cover, antialiased; `[G, B, H, W]`, 0 to 1.

    A strip thinner than a pixel gets its exact fraction, which keeps thin poles from flickering.

    Args:
        lines: `[G, B, 5, 3, ...]`, of G surfaces, from `edge_lines`.
        x, y: pixel coordinates, broadcastable to `[G, B, H, W]`.
    """
    inside = [
        torch.addcmul(lines[:, :, edge, 1] * y + (lines[:, :, edge, 2] + 0.5), lines[:, :, edge, 0], x).clamp_(0.0, 1.0)
        for edge in range(4)
    ]
    across = (inside[0] + inside[1]).sub_(1.0).clamp_min_(0.0)
    along = (inside[2] + inside[3]).sub_(1.0).clamp_min_(0.0)
    horizon = torch.addcmul(lines[:, :, 4, 1] * y + lines[:, :, 4, 2], lines[:, :, 4, 0], x)
    return across.mul_(along).mul_(horizon.clamp_(0.0, 1.0))


def depth_within(scene: Scene, surfaces: slice, inverse: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Inverse depth where a ray hits the rectangle of a surface, else 0; `[G, B, H, W]`.

    Args:
        surfaces: slice of G surfaces.
        inverse: `[G, B, 3, 3, ...]`, their inverse homographies.
        x, y: pixel coordinates, broadcastable to `[G, B, H, W]`.
    """
    limits = scene.surfaces.extent[:, surfaces].transpose(0, 1)[..., None, None]  # [G, B, 4, 1, 1]
    u_min, v_min, u_max, v_max = limits.unbind(2)
    scaled_u, scaled_v, depth = (
        torch.addcmul(torch.addcmul(inverse[:, :, row, 2], inverse[:, :, row, 1], y), inverse[:, :, row, 0], x)
        for row in range(3)
    )
    within = (scaled_u >= u_min * depth) & (scaled_u <= u_max * depth)
    within = within & (scaled_v >= v_min * depth) & (scaled_v <= v_max * depth) & (depth > 0)
    return torch.where(within, depth, 0.0)


@dataclass(frozen=True)
class Picks:
    """A list of M (surface, pixel) pairs, for work that only a few of all pairs need.

    Attributes:
        surface, scene, row, column: `[M]` each, int64.
        pixel: `[M]`, int64: flat index of the pixel among `B H W`.
    """

    surface: Tensor
    scene: Tensor
    row: Tensor
    column: Tensor
    pixel: Tensor

    @classmethod
    def where(cls, chosen: Tensor) -> Picks:
        """The pairs that are true in `[S, B, H, W]`, surface by surface."""
        surface, scene, row, column = chosen.nonzero(as_tuple=True)
        height, width = chosen.shape[-2:]
        return cls(surface, scene, row, column, (scene * height + row) * width + column)

    def select(self, index: Tensor) -> Picks:
        """The pairs with the indices `[K]`."""
        parts = (self.surface, self.scene, self.row, self.column, self.pixel)
        return Picks(*(part.index_select(0, index) for part in parts))

    def matrices(self, inverse: Tensor) -> Tensor:
        """Look up the inverse homographies of the pairs, `[M, 3, 3]`, in the result of `inverse_rows`."""
        surfaces, scenes = inverse.shape[:2]
        sideways = inverse.shape[-1] > 1
        table = inverse.reshape(surfaces, scenes, 9, -1).permute(0, 1, 3, 2).reshape(-1, 9)
        rows = inverse.shape[-1] if sideways else inverse.shape[-2]
        index = (self.surface * scenes + self.scene) * rows + (self.column if sideways else self.row)
        return table.index_select(0, index).reshape(-1, 3, 3)

    def property(self, values: Tensor) -> Tensor:
        """Look up a property `[B, S, ...]` of the surfaces of the pairs: `[M, ...]`."""
        scenes, surfaces = values.shape[:2]
        return values.reshape(scenes * surfaces, *values.shape[2:]).index_select(
            0, self.scene * surfaces + self.surface
        )


def mask_opacity(scene: Scene, picks: Picks, hits: Hits) -> Tensor:
    """Opacity of the masks of surfaces that have one; `[M]`, 0 to 1."""
    s, t, gradients = mapped(picks.property(scene.surfaces.mask_map), hits)
    return scene.masks.sample(picks.property(scene.surfaces.mask), s, t, gradients)[:, 0]


def mapped(matrix: Tensor, hits: Hits) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Texture coordinates and their gradients, from surface coordinates and maps `[M, 2, 3]`."""
    u_x, u_y, v_x, v_y = hits.gradients
    s = matrix[:, 0, 0] * hits.u + matrix[:, 0, 1] * hits.v + matrix[:, 0, 2]
    t = matrix[:, 1, 0] * hits.u + matrix[:, 1, 1] * hits.v + matrix[:, 1, 2]
    gradients = (
        matrix[:, 0, 0] * u_x + matrix[:, 0, 1] * v_x,
        matrix[:, 0, 0] * u_y + matrix[:, 0, 1] * v_y,
        matrix[:, 1, 0] * u_x + matrix[:, 1, 1] * v_x,
        matrix[:, 1, 0] * u_y + matrix[:, 1, 1] * v_y,
    )
    return s, t, gradients
