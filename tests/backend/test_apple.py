"""Everything runs on a device with the limits of Apple's MPS, and gives what the CPU gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.image.pooling import antialiased, block_means
from qrsc.image.sampling import sample
from qrsc.pipeline import Corrector
from qrsc.timing import Readout
from qrsc.warp.invert import invert_field

from ..videos import texture_frames
from .apple import apple_device

SIZE = (90, 134)  # which hardly anything divides


@pytest.fixture
def apple(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    with torch.inference_mode(), apple_device(monkeypatch) as device:
        yield device


def test_the_device_has_its_limits(apple: torch.device) -> None:
    here, there = torch.rand(1, 1, 5, 7).to(apple), torch.rand(1, 1, 5, 7)
    grid = torch.zeros(1, 2, 2, 2).to(apple)
    refused: list[Callable[[], Any]] = [
        here.double,
        lambda: here + there,
        lambda: torch.zeros(2, dtype=torch.float64, device=apple),
        lambda: F.grid_sample(here, grid, "bicubic", align_corners=False),
        lambda: F.grid_sample(here, grid, padding_mode="border", align_corners=False),
        lambda: F.adaptive_avg_pool2d(here, (3, 3)),
        lambda: F.interpolate(here, size=(3, 3), mode="bilinear", antialias=True),
        lambda: torch.linalg.solve_ex(here[..., :5], here),
        here.numpy,
    ]
    for call in refused:
        with pytest.raises((TypeError, RuntimeError), match=r"float64|same device|MPS|mps"):
            call()
    assert (here + here).device == apple
    assert torch.equal((here + here).cpu(), here.cpu() + here.cpu())


@pytest.mark.parametrize("work", [block_means, antialiased])
@pytest.mark.parametrize("size", [(45, 67), (13, 17), (90, 134), (1, 1)])
def test_smaller_images_are_those_of_the_cpu(
    work: Callable[[Tensor, tuple[int, int]], Tensor], size: tuple[int, int], apple: torch.device
) -> None:
    image = torch.rand(2, 3, *SIZE)
    torch.testing.assert_close(work(image.to(apple), size).cpu(), work(image, size), atol=2e-6, rtol=0)


def test_sharp_samples_and_inverse_fields_are_those_of_the_cpu(apple: torch.device) -> None:
    image, position = torch.rand(2, 3, *SIZE), 160.0 * torch.rand(2, 2, 40, 50) - 15.0
    here, there = sample(image.to(apple), position.to(apple), "bicubic"), sample(image, position, "bicubic")
    torch.testing.assert_close(here.image.cpu(), there.image, atol=2e-5, rtol=0)
    assert torch.equal(here.valid.cpu(), there.valid)
    field = 4.0 * F.interpolate(torch.rand(1, 2, 6, 8), size=SIZE, mode="bilinear")
    torch.testing.assert_close(invert_field(field.to(apple)).field.cpu(), invert_field(field).field)


@pytest.mark.parametrize(
    "options",
    [{}, {"preset": "fast"}, {"denoise": True}, {"preset": "best"}, {"fusion": "rsa2"}, {"warp": "splat"}],
    ids=str,
)
def test_a_clip_is_corrected_as_on_the_cpu(options: dict[str, Any], apple: torch.device) -> None:
    frames = [F.interpolate(frame[None], size=SIZE, mode="bilinear")[0] for frame in texture_frames(3)]
    corrector = Corrector(Readout(0.6), **{"flow": "dis"} | options)
    there = [corrected.frame for corrected in corrector.stream(iter(frames))]
    here = [corrected.frame for corrected in corrector.stream(frame.to(apple) for frame in frames)]
    for mine, expected in zip(here, there, strict=True):
        assert mine.device == apple
        # On processors that have them, networks use half-precision instructions.
        torch.testing.assert_close(mine.cpu(), expected, atol=6e-3, rtol=0)


def test_the_network_of_the_default_flow_runs(apple: torch.device) -> None:
    frames = [frame.to(apple) for frame in texture_frames(3)]
    corrected = list(Corrector(Readout(0.6)).stream(iter(frames)))
    assert [each.frame.device.type for each in corrected] == ["mps"] * 3
    assert all(bool(each.frame.cpu().isfinite().all()) for each in corrected)
