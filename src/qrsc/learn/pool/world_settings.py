"""What the random scenes of both trainings share: their textures and the longest exposure."""

from __future__ import annotations

from pathlib import Path

import torch

from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.paint.photographs import load_photographs, varied

LONGEST_EXPOSURE = 0.4  # frame intervals, of the samples with motion blur


def training_textures(
    photographs: Path | None, device: torch.device | str, *, variety: int = 8, crops: int = 160, seed: int = 0
) -> TextureLibrary:
    """Painted textures, and crops of the photographs of a folder if there is one.

    Args:
        photographs: folder of them.
        device: where scenes are rendered.
        variety: painted textures of each kind.
        crops: textures made from the photographs.
        seed: of all random choices.
    """
    generator = torch.Generator().manual_seed(seed)
    pictures = []
    if photographs is not None:
        pictures = varied(load_photographs(photographs, longest=768), crops, generator)
    return texture_library(generator, photographs=pictures, variety=variety).to(device)
