"""Scenes: textured flat surfaces, each with its motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from qrsc.simulate.camera.curves import HomographyCurve
from qrsc.simulate.paint.atlas import Atlas

OPAQUE = -1
INFINITE = (-math.inf, -math.inf, math.inf, math.inf)
Rows = tuple[tuple[float, float, float], tuple[float, float, float]]


@dataclass(frozen=True)
class Surface:
    """The appearance of one surface, for scenes built by hand. `Surfaces.of` makes a batch of them.

    Attributes:
        extent: `(u_min, v_min, u_max, v_max)`: the rectangle of the surface, in its own coordinates.
        texture: number of its texture in the scene's `colours`.
        texture_map: 2 x 3 matrix from (u, v, 1) to texture coordinates (s, t).
        mask: number of its opacity in the scene's `masks`, or `OPAQUE` for none.
        mask_map: as `texture_map`, for the mask.
        gain, offset: applied to the colour of the texture, per channel: `gain * colour + offset`.
    """

    extent: tuple[float, float, float, float]
    texture: int
    texture_map: Rows
    mask: int = OPAQUE
    mask_map: Rows = ((0.0, 0.0, 0.5), (0.0, 0.0, 0.5))
    gain: tuple[float, float, float] = (1.0, 1.0, 1.0)
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Surfaces:
    """The appearance of a batch of surfaces; see `Surface` for the attributes.

    Attributes:
        extent: `[B, S, 4]`.
        texture: `[B, S]`, int64.
        texture_map: `[B, S, 2, 3]`.
        mask: `[B, S]`, int64.
        mask_map: `[B, S, 2, 3]`.
        gain: `[B, S, 3]`.
        offset: `[B, S, 3]`.
    """

    extent: Tensor
    texture: Tensor
    texture_map: Tensor
    mask: Tensor
    mask_map: Tensor
    gain: Tensor
    offset: Tensor

    @classmethod
    def of(cls, scenes: Sequence[Sequence[Surface]]) -> Surfaces:
        """Make a batch from lists of surfaces of equal length."""
        lengths = {len(scene) for scene in scenes}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"every scene needs the same number of surfaces, at least one; got {sorted(lengths)}.")
        columns = {
            field.name: torch.tensor([[getattr(surface, field.name) for surface in scene] for scene in scenes])
            for field in fields(cls)
        }
        return cls(**columns)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Surfaces:
        """The same surfaces on another device or in another precision."""

        def moved(value: Tensor) -> Tensor:
            return value.to(device, dtype if value.is_floating_point() else None)

        return Surfaces(**{field.name: moved(getattr(self, field.name)) for field in fields(self)})


@dataclass(frozen=True)
class Scene:
    """A batch of scenes with the same picture size and number of surfaces.

    Attributes:
        size: `(height, width)` of the picture.
        curve: motion of the `[B, S]` surfaces.
        surfaces: their appearance.
        colours: textures with 3 channels, RGB.
        masks: textures with 1 channel: opacity, 0 to 1.
        backdrop: `[B, 3]`, the colour where there is no surface.
        haze: `[B, 4]`, colour of the haze and its density per unit of depth, or None.
    """

    size: tuple[int, int]
    curve: HomographyCurve
    surfaces: Surfaces
    colours: Atlas
    masks: Atlas
    backdrop: Tensor
    haze: Tensor | None = None

    def __post_init__(self) -> None:
        expected = tuple(self.curve.coefficients.shape[:2])
        got = tuple(self.surfaces.texture.shape)
        if expected != got:
            raise ValueError(f"the curve has [B, S] = {expected} surfaces, but {got} have an appearance.")
        if tuple(self.backdrop.shape) != (expected[0], 3):
            raise ValueError(f"backdrop must be [B, 3] = {(expected[0], 3)}, got {tuple(self.backdrop.shape)}.")

    @property
    def batch(self) -> int:
        """Number of scenes."""
        return self.surfaces.texture.shape[0]

    @property
    def count(self) -> int:
        """Number of surfaces in each scene."""
        return self.surfaces.texture.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of the rendered pictures."""
        return self.backdrop.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the rendered pictures and the ground truth."""
        return self.backdrop.dtype

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Scene:
        """The same scenes on another device or in another precision."""
        return replace(
            self,
            curve=self.curve.to(device),
            surfaces=self.surfaces.to(device, dtype),
            colours=self.colours.to(device, dtype),
            masks=self.masks.to(device, dtype),
            backdrop=self.backdrop.to(device, dtype),
            haze=None if self.haze is None else self.haze.to(device, dtype),
        )
