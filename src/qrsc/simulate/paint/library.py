"""A library of textures, masks and painted objects for worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import torch
from torch import Tensor

from qrsc.simulate.paint import shapes, street, textures
from qrsc.simulate.paint.atlas import Atlas, build_atlas
from qrsc.simulate.paint.textures import Colour


@dataclass(frozen=True)
class PaintedObject:
    """A painted object: numbers of its colour and mask textures, and its size in metres."""

    texture: int
    mask: int
    width: float
    height: float


@dataclass(frozen=True)
class TextureLibrary:
    """Textures by use; every tuple contains numbers of textures in an atlas.

    Attributes:
        colours, masks: the textures themselves.
        backdrops: skies and distant views, with the horizon halfway down.
        grounds, walls: for large surfaces.
        roads: ground with the kerb at the top and the middle of the road at the bottom.
        fronts: house fronts, which stand on the ground.
        anything: for boards and cut-out shapes.
        posts: vertical posts.
        vehicles, people, trees: painted objects.
        outlines: masks that cut shapes out of any texture.
        lattices: masks of railings and fences, which repeat sideways.
        foliage: masks of branches.
        shadow: the mask of a shadow on the ground.
    """

    colours: Atlas
    masks: Atlas
    backdrops: tuple[int, ...]
    grounds: tuple[int, ...]
    walls: tuple[int, ...]
    roads: tuple[int, ...]
    fronts: tuple[PaintedObject, ...]
    anything: tuple[int, ...]
    posts: tuple[int, ...]
    vehicles: tuple[PaintedObject, ...]
    people: tuple[PaintedObject, ...]
    trees: tuple[PaintedObject, ...]
    outlines: tuple[int, ...]
    lattices: tuple[int, ...]
    foliage: tuple[int, ...]
    shadow: int

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> TextureLibrary:
        """The same library on another device or in another precision."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["colours"] = self.colours.to(device, dtype)
        values["masks"] = self.masks.to(device, dtype)
        return TextureLibrary(**values)


@dataclass
class _Pictures:
    """Collects pictures for the two atlases."""

    colours: list[Tensor] = field(default_factory=list)
    masks: list[Tensor] = field(default_factory=list)

    def colour(self, picture: Tensor) -> int:
        self.colours.append(picture)
        return len(self.colours) - 1

    def mask(self, picture: Tensor) -> int:
        self.masks.append(picture)
        return len(self.masks) - 1

    def painted_object(self, painted: tuple[Tensor, Tensor], width: float, height: float) -> PaintedObject:
        return PaintedObject(self.colour(painted[0]), self.mask(painted[1]), width, height)


def texture_library(
    generator: torch.Generator,
    *,
    photographs: Sequence[Tensor] = (),
    variety: int = 4,
    resolution: int = 512,
) -> TextureLibrary:
    """Paint a library of textures, and add photographs if there are any.

    Args:
        generator: on the CPU; decides everything.
        photographs: pictures `[3, h, w]`, RGB in 0 to 1, which then cover most surfaces.
        variety: number of painted textures of each kind.
        resolution: texels along the height of a texture.
    """
    if variety < 1 or resolution < 16:
        raise ValueError(f"variety must be at least 1 and resolution 16; got {variety} and {resolution}.")
    pictures = _Pictures()
    photos = tuple(pictures.colour(picture) for picture in photographs)
    grounds = tuple(pictures.colour(picture) for picture in _grounds(generator, variety, resolution))
    walls = tuple(pictures.colour(picture) for picture in _walls(generator, variety, resolution))
    boards = tuple(pictures.colour(picture) for picture in _boards(generator, variety, resolution))
    backdrops = tuple(pictures.colour(street.landscape(resolution, 2 * resolution, generator)) for _ in range(variety))
    # The centre line of the road is at the edge, where the texture is mirrored.
    roads = tuple(
        pictures.colour(street.pavement(resolution, 2 * resolution, generator, line=0.97)) for _ in range(variety)
    )
    return TextureLibrary(
        backdrops=backdrops + photos[: 2 * variety],
        grounds=grounds + photos[:variety],
        walls=walls + photos,
        roads=roads,
        fronts=_fronts(pictures, generator, variety, resolution),
        anything=boards + walls + photos + photos,
        posts=tuple(
            pictures.colour(street.post(resolution, max(8, resolution // 32), generator)) for _ in range(variety)
        ),
        vehicles=tuple(
            pictures.painted_object(street.van(resolution // 2, resolution, generator, _paint(generator)), 4.8, 2.3)
            if number % 2
            else pictures.painted_object(
                street.car(resolution // 2, resolution, generator, _paint(generator)), 4.2, 1.6
            )
            for number in range(2 * variety)
        ),
        people=tuple(
            pictures.painted_object(street.person(resolution, resolution // 2, generator), 0.85, 1.75)
            for _ in range(variety)
        ),
        trees=tuple(
            pictures.painted_object(street.leaves(resolution, resolution, generator), 4.2, 5.0) for _ in range(variety)
        ),
        outlines=tuple(pictures.mask(shapes.outline(resolution // 2, generator)) for _ in range(3 * variety)),
        lattices=tuple(pictures.mask(shapes.lattice(resolution // 2, generator)) for _ in range(variety)),
        foliage=tuple(pictures.mask(shapes.foliage(resolution, generator)) for _ in range(variety)),
        shadow=pictures.mask(street.soft_shadow(64, 128)),
        colours=build_atlas(pictures.colours),
        masks=build_atlas(pictures.masks),
    )


def _paint(generator: torch.Generator) -> Colour:
    """A typical car colour: mostly grey, sometimes bright."""
    grey, bright, *hue = torch.rand(5, generator=generator).tolist()
    level = 0.15 + 0.75 * grey
    strength = 0.6 if bright < 0.45 else 0.08
    return _clipped(tuple(level * (1.0 - strength) + strength * (0.1 + 0.7 * part) for part in hue))


class _Shades(TypedDict):
    dark: Colour
    light: Colour


def _shades(generator: torch.Generator, low: float = 0.08, high: float = 0.85) -> _Shades:
    """Two colours of related hue, one darker than the other."""
    first, second, *hue = torch.rand(5, generator=generator).tolist()
    dark = low + 0.4 * (high - low) * first
    light = dark + (high - dark) * (0.35 + 0.65 * second)
    cast = [0.25 * (part - 0.5) for part in hue]
    return {
        "dark": _clipped(tuple(dark * (1.0 + part) for part in cast)),
        "light": _clipped(tuple(light * (1.0 + 0.6 * part) for part in cast)),
    }


def _clipped(colour: tuple[float, ...]) -> Colour:
    red, green, blue = (min(max(part, 0.0), 1.0) for part in colour)
    return red, green, blue


def _grounds(generator: torch.Generator, variety: int, resolution: int) -> list[Tensor]:
    side = (resolution, resolution)
    painters = (
        lambda: textures.noise(*side, generator, dark=(0.08, 0.14, 0.04), light=(0.42, 0.5, 0.2)),
        lambda: textures.voronoi(*side, generator, rows=10, **_shades(generator, 0.2)),
        lambda: textures.checkers(*side, generator, rows=8, **_shades(generator, 0.2)),
        lambda: textures.noise(*side, generator, dark=(0.15, 0.14, 0.14), light=(0.5, 0.49, 0.47)),
        lambda: textures.noise(*side, generator, dark=(0.25, 0.18, 0.1), light=(0.68, 0.58, 0.42)),
    )
    return [painters[number % len(painters)]() for number in range(max(variety, 2))]


def _walls(generator: torch.Generator, variety: int, resolution: int) -> list[Tensor]:
    side = (resolution, resolution)

    def brick() -> Colour:
        red, lift = torch.rand(2, generator=generator).tolist()
        return _clipped((0.4 + 0.3 * lift, 0.2 + 0.3 * lift + 0.1 * red, 0.15 + 0.28 * lift))

    painters = (
        lambda: textures.bricks(*side, generator, rows=28, brick=brick()),
        lambda: textures.noise(*side, generator, **_shades(generator, 0.3)),
        lambda: textures.stripes(*side, generator, **_shades(generator)),
        lambda: textures.voronoi(*side, generator, rows=14, **_shades(generator, 0.2)),
        lambda: textures.gradient(*side, generator, **_shades(generator, 0.2)),
    )
    return [painters[number % len(painters)]() for number in range(max(variety, 2))]


def _boards(generator: torch.Generator, variety: int, resolution: int) -> list[Tensor]:
    side = (resolution, resolution)
    painters = (
        lambda: textures.writing(*side, generator, **_shades(generator, 0.03, 0.95)),
        lambda: textures.noise(*side, generator, **_shades(generator)),
        lambda: textures.checkers(*side, generator, **_shades(generator)),
        lambda: textures.gradient(*side, generator, **_shades(generator)),
    )
    return [painters[number % len(painters)]() for number in range(max(variety, 2))]


def _fronts(
    pictures: _Pictures, generator: torch.Generator, variety: int, resolution: int
) -> tuple[PaintedObject, ...]:
    fronts = []
    for _ in range(variety):
        storeys, bays, tone, lift = torch.rand(4, generator=generator).tolist()
        floors, columns = 2 + int(3 * storeys), 4 + int(4 * bays)
        height, width = 3.2 * floors, 2.7 * columns
        brick = _clipped((0.5 + 0.25 * lift, 0.26 + 0.35 * lift * tone + 0.05, 0.2 + 0.3 * lift * tone))
        rows = min(2 * resolution, round(resolution * floors / 2))
        picture = street.house_front(
            rows,
            round(rows * width / height),
            generator,
            storeys=floors,
            bays=columns,
            brick=brick,
            shop=_paint(generator),
        )
        fronts.append(PaintedObject(pictures.colour(picture), -1, width, height))
    return tuple(fronts)
