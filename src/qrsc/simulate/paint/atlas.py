"""Textures of any size with their mipmaps, in one tensor.

Convention
    Texture coordinates (s, t) run from 0 to 1 over a texture, s to the right and t down. Beyond that the texture is
    mirrored at its edges repeatedly, so that there are no seams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.simulate.paint.gather import weighted_rows


@dataclass(frozen=True)
class Atlas:
    """A set of textures, stored as one list of texels.

    Attributes:
        texels: `[T, C]`, all levels of all textures, row after row.
        offset: `[N, L]`, int32: first texel of each level of a texture. Levels beyond the smallest repeat it.
        height, width: `[N, L]`, int32: size of each level.
    """

    texels: Tensor
    offset: Tensor
    height: Tensor
    width: Tensor

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Atlas:
        """The same textures on another device or in another precision."""
        return Atlas(
            self.texels.to(device, dtype or self.texels.dtype),
            self.offset.to(device),
            self.height.to(device),
            self.width.to(device),
        )

    def sample(self, texture: Tensor, s: Tensor, t: Tensor, gradients: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        """Colours at points of textures, averaged over approximately the footprint of a pixel.

        Args:
            texture: `[M]`, int64: number of the texture of each point.
            s, t: `[M]`, texture coordinates.
            gradients: `ds/dx, ds/dy, dt/dx, dt/dy`, each `[M]`: their change from pixel to pixel.

        Returns:
            `[M, C]`, in the dtype of the texels.
        """
        if texture.numel() == 0:
            return self.texels.new_zeros((0, self.texels.shape[1]))
        level = self._level(texture, gradients)
        fine = level.floor()
        blend = level - fine
        coarse = (fine + 1).clamp_max(self.offset.shape[1] - 1)
        s, t = _mirrored(s), _mirrored(t)
        fine_index, fine_weight = self._bilinear(texture, s, t, fine.int())
        coarse_index, coarse_weight = self._bilinear(texture, s, t, coarse.int())
        sharp = 1.0 - blend
        weights = [weight * sharp for weight in fine_weight] + [weight * blend for weight in coarse_weight]
        weight = torch.stack(weights, dim=1).to(self.texels.dtype)
        index = torch.stack(fine_index + coarse_index, dim=1)  # [M, 8]
        return weighted_rows(index, self.texels[None], weight)[0].t()

    def _level(self, texture: Tensor, gradients: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        """The level with about one texel per pixel, fractional between two levels; `[M]`."""
        height = self.height[:, 0].to(gradients[0].dtype).index_select(0, texture)
        width = self.width[:, 0].to(gradients[0].dtype).index_select(0, texture)
        s_x, s_y, t_x, t_y = gradients[0] * width, gradients[1] * width, gradients[2] * height, gradients[3] * height
        # On a slanted surface the footprint is long and thin. The level for its length blurs too much and that for its
        # width aliases; the square root of the area is a compromise, limited to half the length.
        longest = torch.maximum(s_x.square() + t_x.square(), s_y.square() + t_y.square())
        footprint = torch.maximum((s_x * t_y - s_y * t_x).abs(), 0.25 * longest).clamp_min(1.0)
        return (0.5 * torch.log2(footprint)).clamp_max(self.offset.shape[1] - 1)

    def _bilinear(self, texture: Tensor, s: Tensor, t: Tensor, level: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The four texels around each point and their bilinear weights, `[M]` each."""
        entry = texture * self.offset.shape[1] + level
        width = self.width.flatten().index_select(0, entry)
        height = self.height.flatten().index_select(0, entry)
        offset = self.offset.flatten().index_select(0, entry)
        x, y = s * width - 0.5, t * height - 0.5
        left, top = x.floor(), y.floor()
        right_part, lower_part = x - left, y - top
        left_part, upper_part = 1.0 - right_part, 1.0 - lower_part
        x0, y0 = left.int(), top.int()
        x1, y1 = torch.minimum(x0 + 1, width - 1), torch.minimum(y0 + 1, height - 1)
        x0, y0 = x0.clamp_min(0), y0.clamp_min(0)
        upper, lower = offset + y0 * width, offset + y1 * width
        shares = [upper_part * left_part, upper_part * right_part, lower_part * left_part, lower_part * right_part]
        return [upper + x0, upper + x1, lower + x0, lower + x1], shares


def build_atlas(textures: Sequence[Tensor]) -> Atlas:
    """Build an atlas from pictures.

    Args:
        textures: each `[C, h, w]` with the same C; any sizes.
    """
    if not textures:
        raise ValueError("an atlas needs at least one texture, got none.")
    channels = {texture.shape[0] for texture in textures}
    if any(texture.ndim != 3 for texture in textures) or len(channels) != 1:
        raise ValueError(
            "textures must be [C, h, w] with the same number of channels, got "
            f"{[tuple(texture.shape) for texture in textures]}."
        )
    pyramids = [_pyramid(texture) for texture in textures]
    depth = max(len(pyramid) for pyramid in pyramids)
    texels: list[Tensor] = []
    table: list[list[tuple[int, int, int]]] = []
    position = 0
    for pyramid in pyramids:
        entries = []
        for level in pyramid:
            entries.append((position, level.shape[1], level.shape[2]))
            texels.append(level.flatten(1).t())
            position += level.shape[1] * level.shape[2]
        table.append(entries + [entries[-1]] * (depth - len(entries)))
    if position >= 2**31:
        raise ValueError(
            f"an atlas holds at most 2**31 texels with all levels, got {position}; scale the textures down."
        )
    lookup = torch.tensor(table, dtype=torch.int32, device=textures[0].device)  # [N, L, 3]
    offset, height, width = (part.contiguous() for part in lookup.unbind(-1))
    return Atlas(torch.cat(texels), offset, height, width)


def _pyramid(texture: Tensor) -> list[Tensor]:
    levels = [texture]
    while max(levels[-1].shape[1:]) > 1:
        height, width = levels[-1].shape[1:]
        size = (max(1, height // 2), max(1, width // 2))
        levels.append(F.adaptive_avg_pool2d(levels[-1][None], size)[0])
    return levels


def _mirrored(coordinate: Tensor) -> Tensor:
    """A texture coordinate folded into 0 to 1."""
    return 1.0 - (coordinate.remainder(2.0) - 1.0).abs()
