"""Textures, masks, photographs and the atlas that holds them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from qrsc.media.image_folder import write_frame
from qrsc.simulate.paint import shapes, street, textures
from qrsc.simulate.paint.atlas import build_atlas
from qrsc.simulate.paint.library import texture_library
from qrsc.simulate.paint.photographs import load_photographs, varied

DARK, LIGHT = (0.1, 0.2, 0.1), (0.8, 0.7, 0.6)
PATTERNS = {
    "checkers": lambda g: textures.checkers(48, 64, g, dark=DARK, light=LIGHT),
    "stripes": lambda g: textures.stripes(48, 64, g, dark=DARK, light=LIGHT),
    "voronoi": lambda g: textures.voronoi(48, 64, g, dark=DARK, light=LIGHT),
    "gradient": lambda g: textures.gradient(48, 64, g, dark=DARK, light=LIGHT),
    "noise": lambda g: textures.noise(48, 64, g, dark=DARK, light=LIGHT),
    "writing": lambda g: textures.writing(48, 64, g, dark=DARK, light=LIGHT),
    "bricks": lambda g: textures.bricks(48, 64, g, rows=8),
    "band limited": lambda g: textures.band_limited(48, 64, g),
    "landscape": lambda g: street.landscape(48, 64, g),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_are_pictures_and_follow_their_seed(name: str) -> None:
    first, again, other = (PATTERNS[name](torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert first.shape == (3, 48, 64)
    assert 0.0 <= float(first.min()) < float(first.max()) <= 1.0
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_band_limited_textures_have_no_short_waves() -> None:
    """Of the cosine series of a mirrored texture, nothing is left beyond 2 * 64 / 16 = 8 half waves."""
    texture = textures.band_limited(64, 64, torch.Generator().manual_seed(0), shortest=16.0).double()
    number = torch.arange(64, dtype=torch.float64)
    cosines = torch.cos(torch.pi / 64 * (number + 0.5) * number[:, None])
    series = (cosines @ texture @ cosines.t()).abs() / 64**2
    assert series[:, 9:].max() < 1e-7
    assert series[:, :, 9:].max() < 1e-7
    assert series[:, 1:9, 1:9].max() > 1e-3


def test_masks_have_holes_and_matter() -> None:
    generator = torch.Generator().manual_seed(0)
    masks = [shapes.outline(32, generator) for _ in range(12)]
    masks += [shapes.lattice(64, generator) for _ in range(6)] + [shapes.foliage(64, generator)]
    masks += [street.leaves(64, 64, generator)[1], street.person(64, 32, generator)[1]]
    masks += [street.car(32, 64, generator, (0.5, 0.5, 0.5))[1], street.van(32, 64, generator)[1]]
    for mask in masks:
        assert 0.02 < float(mask.mean()) < 0.98
        assert float(mask.min()) == 0.0
        assert float(mask.max()) == 1.0


def test_an_atlas_gives_back_its_texels() -> None:
    generator = torch.Generator().manual_seed(0)
    pictures = [torch.rand(3, 5, 7, generator=generator), torch.rand(3, 8, 4, generator=generator)]
    atlas = build_atlas(pictures)
    for number, picture in enumerate(pictures):
        height, width = picture.shape[1:]
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        s, t = (x.flatten() + 0.5) / width, (y.flatten() + 0.5) / height
        close = tuple(torch.full_like(s, 1e-3) for _ in range(4))
        texture = torch.full_like(x.flatten(), number)
        got = atlas.sample(texture, s, t, (close[0], close[1], close[2], close[3]))
        assert torch.allclose(got.t().reshape(picture.shape), picture, atol=1e-5)
        mirrored = atlas.sample(texture, -s, 2.0 - t, (close[0], close[1], close[2], close[3]))
        assert torch.allclose(mirrored, got, atol=1e-5)


def test_a_texture_seen_from_afar_is_its_mean() -> None:
    picture = textures.checkers(64, 64, torch.Generator().manual_seed(0), rows=32, dark=DARK, light=LIGHT)
    atlas = build_atlas([picture])
    points = torch.rand(50, generator=torch.Generator().manual_seed(1))
    wide, none = torch.ones(50), torch.zeros(50)
    got = atlas.sample(torch.zeros(50, dtype=torch.int64), points, points.flip(0), (wide, none, none, wide))
    assert torch.allclose(got, picture.mean((1, 2)).expand_as(got), atol=1e-5)


def test_an_atlas_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="at least one texture"):
        build_atlas([])
    with pytest.raises(ValueError, match="same number of channels"):
        build_atlas([torch.zeros(3, 2, 2), torch.zeros(1, 2, 2)])


def test_photographs_become_textures(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    for name, size in (("a.png", (30, 50)), ("b.png", (64, 16))):
        write_frame(tmp_path / name, torch.rand(3, *size, generator=generator))
    photographs = load_photographs(tmp_path, longest=32)
    assert [tuple(picture.shape) for picture in photographs] == [(3, 19, 32), (3, 32, 8)]
    made = varied(photographs, 20, generator)
    assert len(made) == 20
    assert all(0.0 <= float(picture.min()) <= float(picture.max()) <= 1.0 for picture in made)
    library = texture_library(generator, photographs=made, variety=1, resolution=32)
    assert set(range(20)) <= set(library.anything)


def test_no_photographs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_photographs(tmp_path / "nothing")
    with pytest.raises(ValueError, match="no photographs"):
        varied([], 1, torch.Generator())
