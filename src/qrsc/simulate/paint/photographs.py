"""Textures from a folder of photographs: cropped, mirrored, recoloured and blended."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from qrsc.media.image_folder import list_frames, read_frame
from qrsc.simulate.paint.textures import fractal_noise


def load_photographs(folder: Path | str, *, longest: int = 1024) -> list[Tensor]:
    """Load the pictures of a folder, sorted by name.

    Args:
        folder: of pictures, in any format that frames can have.
        longest: larger pictures are downsampled to this length of their longer side.

    Returns:
        `[3, h, w]` each, RGB in 0 to 1.
    """
    pictures = []
    for path in list_frames(Path(folder)):
        picture = read_frame(path).frame
        scale = longest / max(picture.shape[1:])
        if scale < 1.0:
            size = [max(1, round(side * scale)) for side in picture.shape[1:]]
            picture = F.interpolate(picture[None], size=size, mode="bilinear", antialias=True, align_corners=False)[0]
        pictures.append(picture)
    return pictures


def varied(photographs: list[Tensor], count: int, generator: torch.Generator) -> list[Tensor]:
    """Make textures from photographs: random crops, mirrored and recoloured, some blended in pairs.

    Args:
        photographs: `[3, h, w]` each.
        count: number of textures.
    """
    if not photographs:
        raise ValueError("there are no photographs to make textures from.")
    made = []
    for _ in range(count):
        texture = _part(photographs, generator)
        if torch.rand(1, generator=generator) < 0.3:
            other = _part(photographs, generator)
            other = F.interpolate(other[None], size=texture.shape[1:], mode="area")[0]
            border = fractal_noise(texture.shape[1], texture.shape[2], generator, cells=2, octaves=5)
            texture = torch.lerp(texture, other, (border / 0.2 + 0.5).clamp(0.0, 1.0))
        made.append(_recoloured(texture, generator))
    return made


def _part(photographs: list[Tensor], generator: torch.Generator) -> Tensor:
    """A random crop of one photograph, at least half of each side, sometimes mirrored or transposed."""
    photograph = photographs[int(torch.randint(len(photographs), (1,), generator=generator))]
    height, width = photograph.shape[1:]
    part_y, part_x, at_y, at_x, mirror, turn = torch.rand(6, generator=generator).tolist()
    rows, columns = max(1, int(height * (0.5 + 0.5 * part_y))), max(1, int(width * (0.5 + 0.5 * part_x)))
    top, left = int((height - rows) * at_y), int((width - columns) * at_x)
    part = photograph[:, top : top + rows, left : left + columns]
    part = part.flip(2) if mirror < 0.5 else part
    return part.transpose(1, 2) if turn < 0.15 else part


def _recoloured(texture: Tensor, generator: torch.Generator) -> Tensor:
    """Mix the channels slightly, and change contrast and brightness."""
    mix = torch.eye(3) + 0.12 * torch.randn(3, 3, generator=generator)
    mix = mix / mix.sum(1, keepdim=True).clamp_min(0.3)
    contrast, level = torch.rand(2, generator=generator).tolist()
    changed = torch.matmul(mix, texture.flatten(1)).reshape(texture.shape)
    changed = (changed - 0.5).mul(0.75 + 0.45 * contrast).add(0.42 + 0.16 * level)
    return changed.clamp(0.0, 1.0)
