"""Where the ray of a pixel meets a surface, and how much of the pixel the surface fills there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from qrsc.simulate.curves import invert_homographies
from qrsc.simulate.surfaces import Scene


@dataclass(frozen=True)
class Hits:
    """Where rays meet surfaces. The tensors share one shape, or broadcast to one.

    Attributes:
        u, v: the place on the surface.
        inverse_depth: 1 / depth; 0 or less where the surface is not in front of the camera.
        gradients: `du/dx, du/dy, dv/dx, dv/dy`, from pixel to pixel at a fixed time.
    """

    u: Tensor
    v: Tensor
    inverse_depth: Tensor
    gradients: tuple[Tensor, Tensor, Tensor, Tensor]

    def kept(self, mask: Tensor) -> Hits:
        """Those for which `[M]` is true."""
        u_x, u_y, v_x, v_y = self.gradients
        return Hits(self.u[mask], self.v[mask], self.inverse_depth[mask], (u_x[mask], u_y[mask], v_x[mask], v_y[mask]))


def inverse_rows(scene: Scene, times: Tensor) -> Tensor:
    """Inverse homographies for pictures whose rows are exposed at given times.

    The time is the same along a row, so that a picture needs as many matrices as it has rows. They are made in
    float64, which costs nothing at this size and keeps float32 pictures free of the cancellation in the inverse.

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


def cast(inverse: Tensor, x: Tensor, y: Tensor) -> Hits:
    """Rays through pixels against one surface each.

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


def filled_part(scene: Scene, surface: int, hits: Hits, inverse: Tensor) -> Tensor:
    """How much of each pixel the rectangle of a surface fills, antialiased; `[B, H, W]`, 0 to 1."""
    u_min, v_min, u_max, v_max = scene.surfaces.extent[:, surface].reshape(-1, 4, 1, 1).unbind(1)
    tiny = torch.finfo(hits.u.dtype).tiny
    u_slope = torch.hypot(hits.gradients[0], hits.gradients[1]) + tiny
    v_slope = torch.hypot(hits.gradients[2], hits.gradients[3]) + tiny
    filled = _between(hits.u - u_min, u_max - hits.u, u_slope) * _between(hits.v - v_min, v_max - hits.v, v_slope)
    # The horizon of a plane that is not parallel to the image is an edge too: inverse depth is linear up to it.
    horizon = hits.inverse_depth / (torch.hypot(inverse[:, 2, 0], inverse[:, 2, 1]) + tiny)
    return filled * horizon.clamp(0.0, 1.0)


def within(scene: Scene, surface: int, hits: Hits) -> Tensor:
    """Whether the very point of each ray lies on the rectangle of a surface; `[B, H, W]`, bool."""
    u_min, v_min, u_max, v_max = scene.surfaces.extent[:, surface].reshape(-1, 4, 1, 1).unbind(1)
    across = (hits.u >= u_min) & (hits.u <= u_max)
    return across & (hits.v >= v_min) & (hits.v <= v_max) & (hits.inverse_depth > 0)


@dataclass(frozen=True)
class Picks:
    """A list of M (surface, pixel) pairs, for work that only few of all pairs need.

    Attributes:
        surface, scene, row, column: `[M]` each, int64.
        pixel: `[M]`, int64: number of the pixel among `B H W`.
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

    def kept(self, mask: Tensor) -> Picks:
        """Those of the pairs for which `[M]` is true."""
        return Picks(self.surface[mask], self.scene[mask], self.row[mask], self.column[mask], self.pixel[mask])

    def matrices(self, inverse: Tensor) -> Tensor:
        """Inverse homographies of the pairs, `[M, 3, 3]`, from those of `inverse_rows`."""
        surfaces, scenes = inverse.shape[:2]
        sideways = inverse.shape[-1] > 1
        table = inverse.reshape(surfaces, scenes, 9, -1).permute(0, 1, 3, 2).reshape(-1, 9)
        rows = inverse.shape[-1] if sideways else inverse.shape[-2]
        index = (self.surface * scenes + self.scene) * rows + (self.column if sideways else self.row)
        return table.index_select(0, index).reshape(-1, 3, 3)

    def property(self, values: Tensor) -> Tensor:
        """What the surfaces of the pairs have in `[B, S, ...]`: `[M, ...]`."""
        scenes, surfaces = values.shape[:2]
        return values.reshape(scenes * surfaces, *values.shape[2:]).index_select(
            0, self.scene * surfaces + self.surface
        )


def mask_opacity(scene: Scene, picks: Picks, hits: Hits) -> Tensor:
    """Opacity of the masks of surfaces that have one; `[M]`, 0 to 1."""
    s, t, gradients = mapped(picks.property(scene.surfaces.mask_map), hits)
    return scene.masks.sample(picks.property(scene.surfaces.mask), s, t, gradients)[:, 0]


def mapped(matrix: Tensor, hits: Hits) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Texture coordinates and their gradients, from those on the surface and maps `[M, 2, 3]`."""
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


def _between(above: Tensor, below: Tensor, slope: Tensor) -> Tensor:
    """Part of a pixel between two parallel edges, whose distances are `above / slope` and `below / slope` pixels.

    A strip thinner than a pixel gets its true share, which is what keeps thin poles from flickering.
    """
    return ((above / slope + 0.5).clamp(0.0, 1.0) + (below / slope + 0.5).clamp(0.0, 1.0) - 1.0).clamp_min(0.0)
