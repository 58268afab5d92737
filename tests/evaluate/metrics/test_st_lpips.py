from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from qrsc.evaluate.metrics import st_lpips as measure
from qrsc.evaluate.metrics.st_lpips import st_lpips
from qrsc.learn.fusion import shift_tolerant
from qrsc.learn.fusion.shift_tolerant import STAGES, Trunk, TrunkName, halved, load_trunk, weights_file

Map = npt.NDArray[np.float64]
WIDTHS: dict[TrunkName, tuple[int, ...]] = {"alex": (4, 5, 6, 3, 2), "vgg": (3, 4, 5, 4, 3)}
FIRST_SIDE = {"alex": (11, 5, 3, 3, 3), "vgg": (3, 3, 3, 3, 3)}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def toy_weights(name: TrunkName) -> dict[str, Tensor]:
    """Random weights of a narrow trunk, by the names of the true file."""
    generator = torch.Generator().manual_seed(5)
    weights = {"scaling_layer.shift": noise(1, 3, 1, 1) - 0.5, "scaling_layer.scale": 0.5 + noise(1, 3, 1, 1, seed=1)}
    before = 3
    for number, (stage, width, side) in enumerate(zip(STAGES[name], WIDTHS[name], FIRST_SIDE[name], strict=True)):
        for layer in stage.convolutions:
            shape = (width, before, side, side)
            weights[f"net.slice{number + 1}.{layer}.weight"] = 0.5 * torch.randn(shape, generator=generator)
            weights[f"net.slice{number + 1}.{layer}.bias"] = 0.1 * torch.randn(width, generator=generator)
            before = width
        weights[f"lin{number}.model.1.weight"] = torch.rand(1, width, 1, 1, generator=generator)
    return weights


# --- the same by hand, in loops over pixels ---


def convolved(features: Map, kernel: Map, bias: Map, padding: int) -> Map:
    padded = np.pad(features, ((0, 0), (padding, padding), (padding, padding)))
    side = kernel.shape[-1]
    height, width = padded.shape[1] - side + 1, padded.shape[2] - side + 1
    result = np.empty((len(kernel), height, width))
    for y in range(height):
        for x in range(width):
            part = padded[:, y : y + side, x : x + side]
            result[:, y, x] = (kernel * part).sum((1, 2, 3)) + bias
    return result


def pooled(features: Map, side: int) -> Map:
    height, width = features.shape[1] - side + 1, features.shape[2] - side + 1
    result = np.empty((len(features), height, width))
    for y in range(height):
        for x in range(width):
            result[:, y, x] = features[:, y : y + side, x : x + side].max((1, 2))
    return result


def every_second(features: Map) -> Map:
    padded = np.pad(features, ((0, 0), (2, 2), (2, 2)), mode="reflect")
    window = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]]) / 16
    rows, columns = (range(0, size - 2, 2) for size in padded.shape[1:])
    return np.array(
        [[[(plane[y : y + 3, x : x + 3] * window).sum() for x in columns] for y in rows] for plane in padded]
    )


def by_hand(picture: Tensor, truth: Tensor, name: TrunkName, weights: dict[str, Tensor]) -> float:
    values = {key: value.double().numpy() for key, value in weights.items()}
    total = 0.0
    both = []
    for each in (picture, truth):
        levels = np.round(255 * each.double().numpy().clip(0, 1)) / 255
        both.append((2 * levels - 1 - values["scaling_layer.shift"][0]) / values["scaling_layer.scale"][0])
    for number, stage in enumerate(STAGES[name], start=1):
        for side in (0, 1):
            features = every_second(pooled(both[side], stage.pool)) if stage.pool else both[side]
            for layer in stage.convolutions:
                kernel, bias = (values[f"net.slice{number}.{layer}.{part}"] for part in ("weight", "bias"))
                features = convolved(features, kernel, bias, stage.padding)
                features = np.maximum(every_second(features) if stage.blur_first else features, 0)
            both[side] = features
        one, other = (each / (np.sqrt((each**2).sum(0)) + 1e-10) for each in both)
        total += float((values[f"lin{number - 1}.model.1.weight"][0] * (one - other) ** 2).sum(0).mean())
    return total


@pytest.mark.parametrize("name", ["alex", "vgg"])
def test_as_by_hand(name: TrunkName) -> None:
    weights = toy_weights(name)
    picture, truth = noise(3, 34, 37), noise(3, 34, 37, seed=1)
    found = st_lpips(picture, truth, Trunk(name, weights))
    assert found.item() == pytest.approx(by_hand(picture, truth, name, weights), rel=1e-4)


def test_halving_by_hand() -> None:
    features = noise(1, 2, 7, 10)
    torch.testing.assert_close(halved(features)[0].double().numpy(), every_second(features[0].double().numpy()))


def test_halving_keeps_what_is_plain() -> None:
    torch.testing.assert_close(halved(torch.full((1, 3, 9, 8), 0.7)), torch.full((1, 3, 6, 5), 0.7))


def test_equal_pictures_do_not_differ() -> None:
    picture = noise(3, 40, 40)
    trunk = Trunk("alex", toy_weights("alex"))
    assert st_lpips(picture, picture, trunk).item() == 0.0
    assert st_lpips(picture + 0.3 / 255, (255 * picture).round() / 255 + 0.2 / 255, trunk).item() == pytest.approx(
        0.0, abs=2e-2
    )


def test_is_symmetric_and_takes_leading_dimensions() -> None:
    trunk = Trunk("alex", toy_weights("alex"))
    picture, truth = noise(2, 2, 3, 33, 36), noise(2, 2, 3, 33, 36, seed=1)
    found = st_lpips(picture, truth, trunk)
    assert found.shape == (2, 2)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, st_lpips(truth, picture, trunk))
    torch.testing.assert_close(found[1, 0], st_lpips(picture[1, 0], truth[1, 0], trunk))


def test_refuses_what_it_cannot_measure() -> None:
    trunk = Trunk("alex", toy_weights("alex"))
    with pytest.raises(ValueError, match="of one shape"):
        st_lpips(noise(3, 40, 40), noise(3, 40, 41), trunk)
    with pytest.raises(ValueError, match="at least 32x32"):
        st_lpips(noise(3, 31, 40), noise(3, 31, 40), trunk)
    with pytest.raises(ValueError, match="1 to 5 taps"):
        Trunk("vgg", toy_weights("vgg"), taps=6)
    with pytest.raises(ValueError, match="alex, vgg"):
        load_trunk("resnet")  # type: ignore[arg-type]  # what a user could write


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_tolerant, "find_spec", lambda name: None)
    measure._alex.cache_clear()
    with pytest.raises(ValueError, match=r"qrsc\[perceptual\]"):
        st_lpips(noise(3, 40, 40), noise(3, 40, 40))


# --- with the true weights ---


def installed() -> bool:
    try:
        return weights_file("alex").is_file()
    except ValueError:
        return False


needs_weights = pytest.mark.skipif(not installed(), reason="needs the extra perceptual")


@needs_weights
def test_a_shift_is_little_and_a_blur_is_much() -> None:
    measure._alex.cache_clear()
    coarse = torch.nn.functional.interpolate(noise(1, 3, 48, 48), size=(96, 96), mode="bicubic")[0].clamp(0, 1)
    shifted = coarse.roll(1, -1)
    blurred = torch.nn.functional.avg_pool2d(coarse, 9, 1, 4)
    moved, soft = (st_lpips(each, coarse).item() for each in (shifted, blurred))
    assert 0 < moved < 0.5 * soft
    assert math.isfinite(soft)


@needs_weights
def test_the_code_of_the_package_is_not_run() -> None:
    load_trunk("alex")
    assert "stlpips_pytorch" not in sys.modules


@pytest.mark.parametrize(
    "damage", [b"", b"no weights", b"PK\x03\x04" + bytes(200), b"\x80\x02cos\nsystem\n(S'ls'\ntR."]
)
def test_damaged_weights_of_the_package_are_named(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "alex.pth").write_bytes(damage)
    monkeypatch.setattr("qrsc.learn.fusion.shift_tolerant.weights_file", lambda name: tmp_path / "alex.pth")
    with pytest.raises(ValueError, match=r"alex\.pth is damaged .* install stlpips_pytorch again"):
        load_trunk("alex")
