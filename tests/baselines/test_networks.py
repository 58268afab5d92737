"""The networks among the baselines: their geometry with exact motion, their sizes, and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from qrsc.baselines.learned.adarsc import Adarsc, warped
from qrsc.baselines.learned.blocks import UNet, correlation, gaussian_splat, masked_difference, roughness
from qrsc.baselines.learned.cvr import Cvr
from qrsc.baselines.learned.dsun import Dsun
from qrsc.baselines.learned.jcd import DeformableConv, Jcd
from qrsc.baselines.learned.rssr import Rssr, pushed
from qrsc.baselines.learned.sunet import Sunet
from qrsc.baselines.learned.window import Baseline, Truths, Window

GAMMA = 0.8
SPEED = 6.0  # pixels to the right in a frame interval
NETWORKS: dict[str, type[Baseline]] = {
    "dsun": Dsun,
    "sunet": Sunet,
    "rssr": Rssr,
    "cvr": Cvr,
    "jcd": Jcd,
    "adarsc": Adarsc,
}
# JCD's and AdaRSC's layers are not all described: the count may be off by this share.
FREE = {"sunet": 0.05, "jcd": 0.15, "adarsc": 0.15}


def built(name: str, width: int | None = 8) -> Baseline:
    torch.manual_seed(0)
    return NETWORKS[name]() if width is None else NETWORKS[name](width)


def picture(x: Tensor, y: Tensor) -> Tensor:
    """A smooth picture at places `[H, W]`: `[3, H, W]` in [0, 1]."""
    return torch.stack([0.5 + 0.4 * torch.sin(0.21 * x + phase + 0.13 * y) for phase in (0.0, 1.0, 2.0)])


def pan(size: tuple[int, int] = (64, 96), count: int = 2) -> tuple[Window, Truths]:
    """A picture that moves to the right at a constant speed, with its exact flows and global-shutter frames."""
    height, width = size
    y, x = torch.meshgrid(torch.arange(height).float(), torch.arange(width).float(), indexing="ij")

    def frame(number: int) -> Tensor:
        return picture(x - SPEED * (number + GAMMA * y / height), y)

    def still(time: float) -> Tensor:
        return picture(x - SPEED * time, y)[None]

    frames = torch.stack([frame(number) for number in range(-1, count - 1)])[None]
    there = torch.zeros(1, 2, height, width)
    there[:, 0] = SPEED
    window = Window(frames, torch.stack([there, -there], 1), torch.tensor([GAMMA]), height)
    return window, Truths(still(GAMMA / 2 - 1.0), still(0.0), still(GAMMA / 2))


def at_rest(size: tuple[int, int], count: int = 2) -> Window:
    frame = torch.rand(1, 1, 3, *size, generator=torch.Generator().manual_seed(0))
    return Window(frame.repeat(1, count, 1, 1, 1), torch.zeros(1, 2, 2, *size), torch.tensor([GAMMA]), size[0])


def silent(network: Baseline) -> Baseline:
    """The network with U-Nets that say 0: flows are kept, and scales are 1."""
    for part in network.modules():
        if isinstance(part, UNet):
            nn.init.zeros_(part.last.weight)
    return network


@pytest.mark.parametrize("name", NETWORKS)
def test_as_many_parameters_as_published(name: str) -> None:
    network = built(name, None)
    millions = sum(each.numel() for each in network.parameters()) / 1e6
    assert millions == pytest.approx(network.published, rel=FREE.get(name, 0.01))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [(33, 47), (64, 64)])
def test_any_size_and_finite_gradients(name: str, size: tuple[int, int]) -> None:
    network = built(name)
    window = at_rest(size, network.inputs)
    with torch.no_grad():
        assert network.corrected(window, torch.tensor([0.5 * GAMMA])).shape == (1, 3, *size)
    window, truths = pan(count=network.inputs)
    loss = network.loss(window, truths, lambda found, truth: (found - truth).square().mean((1, 2, 3)))
    loss.backward()  # type: ignore[no-untyped-call]  # torch's stubs
    assert all(each.grad is not None and bool(each.grad.isfinite().all()) for each in network.parameters())


@pytest.mark.parametrize("name", ["rssr", "cvr"])
def test_frames_at_rest_come_back(name: str) -> None:
    window = at_rest((40, 52))
    found = silent(built(name)).corrected(window, torch.tensor([0.3]))
    torch.testing.assert_close(found, window.frames[:, 1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["rssr", "cvr"])
def test_exact_flow_undoes_a_pan_at_any_instant(name: str) -> None:
    window, truths = pan()
    network = silent(built(name))
    inside = (..., slice(None), slice(12, -12))
    for tau, truth in ((0.0, truths.first), (GAMMA / 2, truths.middle)):
        with torch.no_grad():
            found = network.corrected(window, torch.tensor([tau]))[inside]
        assert float((window.frames[:, 1][inside] - truth[inside]).abs().mean()) > 0.05
        assert float((found - truth[inside]).abs().mean()) < 0.002  # measured 0.0009: a splat is bilinear


def test_the_previous_frame_goes_to_the_same_instant() -> None:
    window, truths = pan()
    network = silent(Rssr(4))
    assert isinstance(network, Rssr)
    rectified = network.rectified(window)
    field = network.fields(window, rectified, torch.tensor([GAMMA / 2]))[0]
    found = pushed(window, rectified.flows, field, 0).picture[..., 16:-16]
    assert float((found - truths.middle[..., 16:-16]).abs().mean().detach()) < 0.002


def test_a_velocity_times_row_times_undoes_a_pan_of_features() -> None:
    window, truths = pan()
    for level in (0, 1):
        scale = 2**level
        features = torch.nn.functional.avg_pool2d(window.frames[:, 1], scale)
        velocity = torch.zeros(1, 2, *features.shape[-2:])
        velocity[:, 0] = SPEED / scale
        remaining = window.remaining(torch.tensor([GAMMA / 2]), features.shape[-2], level)
        moved, _ = gaussian_splat(features, velocity * remaining)
        truth = torch.nn.functional.avg_pool2d(truths.middle, scale)
        wanted, _ = gaussian_splat(truth, torch.zeros_like(velocity))  # the splat blurs a little
        inside = (..., slice(4, -4), slice(12, -12))
        before = float((features[inside] - truth[inside]).abs().mean())
        assert float((moved[inside] - wanted[inside]).abs().mean()) < 0.01 * before  # measured 0.004


def test_dsun_moves_features_by_the_velocity_it_finds() -> None:
    window, _ = pan()
    network = Dsun(4)
    with torch.no_grad():
        for part in (network.velocity.fine.flow, network.velocity.coarse.flow):
            for each in part.parameters():
                nn.init.zeros_(each)
        assert network.velocity.fine.flow.bias is not None
        network.velocity.fine.flow.bias.copy_(torch.tensor([3.0, -1.0]))
        full, half, _ = network.levels(window, torch.tensor([0.2]))
    steps = window.remaining(torch.tensor([0.2]), 64)
    torch.testing.assert_close(full.displacement[:, :1], (6.0 * steps).expand(1, 1, 64, 96))
    torch.testing.assert_close(
        half.displacement[:, 1:], (-1.0 * window.remaining(torch.tensor([0.2]), 32, 1)).expand(1, 1, 32, 48)
    )


@pytest.mark.parametrize("frame", [0, 1, 2])
def test_adarsc_brings_every_frame_to_the_instant(frame: int) -> None:
    window, truths = pan(count=3)
    velocity = torch.zeros(1, 9, 2, 64, 96)
    velocity[:, :, 0] = -SPEED  # a backward warp points to where things come from
    fields = Adarsc(4).displacements(window, torch.tensor([GAMMA / 2]), velocity, frame, 0)
    moved = warped(window.frames[:, frame], fields)
    assert moved.shape == (1, 9, 3, 64, 96)
    error = (moved - truths.middle.unsqueeze(1)).abs()[..., 16:-16].amax((0, 1, 2, 3)).mean()
    assert float(error) < 0.01


def test_sunet_moves_both_frames_by_the_flows_it_finds() -> None:
    window, _ = pan()
    network = Sunet(8)
    with torch.no_grad():
        for part in network.larger:
            assert isinstance(part, nn.ConvTranspose2d)
            nn.init.zeros_(part.weight)
            assert part.bias is not None
            part.bias.copy_(torch.tensor([1.0, -2.0]))
        levels = network.levels(window)
    assert [level.merged.shape[-2:] for level in levels] == [(8, 12), (16, 24), (32, 48)]
    for level in levels:
        for field in level.fields:
            torch.testing.assert_close(field.amax((0, 2, 3)), torch.tensor([1.0, -2.0]))


def test_a_deformable_convolution_without_offsets_is_a_convolution() -> None:
    torch.manual_seed(0)
    layer = DeformableConv(8).double()
    features = torch.randn(2, 8, 9, 11, dtype=torch.float64)
    kernel = layer.mix.weight.reshape(8, 9, 8).permute(0, 2, 1).reshape(8, 8, 3, 3)
    # Each sample counts a half at first.
    wanted = torch.nn.functional.conv2d(features, 0.5 * kernel, layer.mix.bias, padding=1)
    torch.testing.assert_close(layer(features), wanted)
    with torch.no_grad():
        assert layer.sampling.bias is not None
        layer.sampling.bias.reshape(8, 9, 3)[:, :, 0] = 2.0  # two pixels to the right
    shifted = torch.nn.functional.pad(features, (0, 2))[..., 2:]
    wanted = torch.nn.functional.conv2d(shifted, 0.5 * kernel, layer.mix.bias, padding=1)
    torch.testing.assert_close(layer(features)[..., 1:], wanted[..., 1:])


def test_row_times() -> None:
    window = at_rest((8, 8))
    full = window.remaining(torch.tensor([0.4]), 8).flatten()
    torch.testing.assert_close(full, 0.4 - GAMMA * torch.arange(8) / 8)
    torch.testing.assert_close(window.remaining(torch.tensor([0.4]), 4, 1).flatten(), full.reshape(4, 2).mean(1))
    assert window.padded(16).frames.shape[-2:] == (16, 16)
    torch.testing.assert_close(window.padded(16).remaining(torch.tensor([0.4]), 16).flatten()[:8], full)


def test_gaussian_splat() -> None:
    ramp = torch.arange(20.0).expand(1, 1, 16, 20).contiguous()
    still, touched = gaussian_splat(ramp, torch.zeros(1, 2, 16, 20))
    assert bool(touched.all())
    torch.testing.assert_close(still[..., 2:-2], ramp[..., 2:-2])
    field = torch.zeros(1, 2, 16, 20)
    field[:, 0], field[:, 1] = 6.0, 0.5
    moved, touched = gaussian_splat(ramp, field)
    torch.testing.assert_close(moved[..., 2:-2, 8:-2], ramp[..., 2:-2, 8:-2] - 6.0, atol=1e-4, rtol=0)
    assert not bool(touched[..., :3].any())
    field[0, 0, 3, 3] = torch.nan
    assert bool(gaussian_splat(ramp, field)[0].isfinite().all())


def correlated_pixel_by_pixel(first: Tensor, second: Tensor) -> Tensor:
    """What `correlation` does, one neighbour at a time."""
    height, width = first.shape[-2:]
    padded = nn.functional.pad(second, [4] * 4)
    products = [
        (first * padded[..., row : row + height, column : column + width]).mean(1)
        for row in range(9)
        for column in range(9)
    ]
    return nn.functional.leaky_relu(torch.stack(products, 1), 0.1)


@pytest.mark.parametrize("size", [(8, 16), (11, 21)])
def test_correlation_equals_its_twin(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    features = [torch.randn(2, 5, *size, dtype=torch.float64, generator=generator) for _ in range(2)]
    weights = torch.randn(2, 81, *size, dtype=torch.float64, generator=generator)
    results = []
    for function in (correlation, correlated_pixel_by_pixel):
        inputs = [each.clone().requires_grad_() for each in features]
        found = function(inputs[0], inputs[1])
        results.append([found, *torch.autograd.grad((found * weights).sum(), inputs)])
    for fast, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow)


def splatted_pixel_by_pixel(features: Tensor, field: Tensor) -> Tensor:
    """What `gaussian_splat` does with features `[C, H, W]`, one pixel at a time."""
    height, width = features.shape[-2:]
    total, weights = torch.zeros_like(features), torch.zeros(height, width, dtype=features.dtype)
    for y in range(height):
        for x in range(width):
            to_x, to_y = x + field[0, y, x], y + field[1, y, x]
            near_x, near_y = round(to_x.item()), round(to_y.item())
            for row in range(near_y - 2, near_y + 3):
                for column in range(near_x - 2, near_x + 3):
                    if 0 <= row < height and 0 <= column < width:
                        weight = torch.exp(-((to_x - column) ** 2) - (to_y - row) ** 2)
                        place = torch.zeros(height, width, dtype=features.dtype)
                        place[row, column] = 1.0
                        total = total + features[:, y, x, None, None] * weight * place
                        weights = weights + weight * place
    return torch.where(weights > 1e-3, total / weights.clamp_min(1e-3), torch.zeros_like(total))


def test_gaussian_splat_equals_its_twin() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 5, 6, dtype=torch.float64, generator=generator)
    field = 2.0 * torch.randn(2, 5, 6, dtype=torch.float64, generator=generator)
    results = []
    for fast in (True, False):
        inputs = [each.clone().requires_grad_() for each in (features, field)]
        found = gaussian_splat(inputs[0][None], inputs[1][None])[0][0] if fast else splatted_pixel_by_pixel(*inputs)
        results.append([found, *torch.autograd.grad(found.square().sum(), inputs)])
    for fast_one, slow in zip(*results, strict=True):
        torch.testing.assert_close(fast_one, slow)


def test_correlation_finds_a_shift() -> None:
    features = torch.randn(1, 16, 24, 24, generator=torch.Generator().manual_seed(0))
    found = correlation(features, features.roll((2, -3), (2, 3)))[0, :, 8:-8, 8:-8].mean((1, 2))
    assert int(found.argmax()) == (4 + 2) * 9 + (4 - 3)
    assert found.shape == (81,)


def test_loss_terms() -> None:
    field = torch.zeros(1, 2, 4, 4)
    assert float(roughness(field + 3.0)) == 0.0
    field[:, 0] = 2.0 * torch.arange(4)
    assert float(roughness(field)) == pytest.approx(2.0)  # 4 in one of two components
    mask = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    mask[..., :2] = True
    difference = torch.ones(1, 3, 4, 4)
    difference[..., 2:] = 9.0
    assert float(masked_difference(difference, torch.zeros_like(difference), mask)) == pytest.approx(1.0)


def test_wrong_windows_are_refused() -> None:
    window = at_rest((8, 8))
    with pytest.raises(ValueError, match=r"two or three RGB frames .* got \[1, 1, 3, 8, 8\]"):
        replace(window, frames=window.frames[:, :1])
    with pytest.raises(ValueError, match=r"are \[1, 2, 2, 8, 8\]; got \[1, 2, 2, 4, 8\]"):
        replace(window, flows=window.flows[..., :4, :])
    with pytest.raises(ValueError, match="one number for each of 1 windows"):
        replace(window, gamma=torch.tensor(0.5))
    with pytest.raises(ValueError, match="multiple of 8; got 12"):
        Jcd(12)
    with pytest.raises(ValueError, match="Dsun takes windows of 2 frames; got 3"):
        Dsun(4).corrected(at_rest((8, 8), 3), torch.tensor([0.4]))
