from __future__ import annotations

import pytest
import torch
from torch import Tensor

from qrsc.learn.fusion.losses import load_term
from qrsc.learn.fusion.perceptual import perceptual
from qrsc.learn.fusion.shift_tolerant import STAGES, Trunk


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def toy_trunk(taps: int = 3) -> Trunk:
    generator = torch.Generator().manual_seed(5)
    weights = {"scaling_layer.shift": torch.zeros(1, 3, 1, 1), "scaling_layer.scale": torch.ones(1, 3, 1, 1)}
    before = 3
    for number, stage in enumerate(STAGES["vgg"][:taps]):
        for layer in stage.convolutions:
            weights[f"net.slice{number + 1}.{layer}.weight"] = 0.5 * torch.randn(4, before, 3, 3, generator=generator)
            weights[f"net.slice{number + 1}.{layer}.bias"] = 0.1 * torch.randn(4, generator=generator)
            before = 4
        weights[f"lin{number}.model.1.weight"] = torch.rand(1, 4, 1, 1, generator=generator)
    return Trunk("vgg", weights, taps)


def by_hand(trunk: Trunk, picture: Tensor, truth: Tensor) -> float:
    """The loss of one sample, channel by channel."""
    ours, theirs = (trunk(2.0 * each[None] - 1.0) for each in (picture, truth))
    total = 0.0
    for tap, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        counts = getattr(trunk, f"counts_{tap}")[0, :, 0, 0].tolist()
        planes = zip(one[0], other[0], counts, strict=True)
        total += sum(count * float((mine - its).square().mean()) for mine, its, count in planes)
    return total


def test_as_by_hand() -> None:
    trunk = toy_trunk()
    picture, truth = noise(2, 3, 20, 24), noise(2, 3, 20, 24, seed=1)
    expected = [by_hand(trunk, *pair) for pair in zip(picture, truth, strict=True)]
    assert perceptual(trunk=trunk)(picture, truth).tolist() == pytest.approx(expected, rel=1e-5)


def test_nothing_where_pictures_are_equal() -> None:
    picture = noise(1, 3, 20, 20)
    assert perceptual(trunk=toy_trunk())(picture, picture.clone()).item() == 0.0


def test_gradients_reach_the_picture_and_nothing_else() -> None:
    trunk = toy_trunk()
    picture, truth = noise(1, 3, 20, 20).requires_grad_(), noise(1, 3, 20, 20, seed=1).requires_grad_()
    loss = perceptual(trunk=trunk)(picture, truth).sum()
    [gradient] = torch.autograd.grad(loss, [picture], retain_graph=True)
    assert float(gradient.abs().max()) > 0
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(loss, [truth])
    assert not any(weights.requires_grad for weights in trunk.parameters())


def test_gradients_are_right() -> None:
    trunk = toy_trunk(2).double()
    picture, truth = noise(1, 3, 8, 9).double().requires_grad_(), noise(1, 3, 8, 9, seed=1).double()

    def loss(values: Tensor) -> Tensor:
        found = trunk.differences(trunk(2.0 * values - 1.0), trunk(2.0 * truth - 1.0))
        return torch.stack([each.mean((1, 2, 3)) for each in found]).sum(0)

    assert torch.autograd.gradcheck(loss, (picture,))


def test_is_a_term_of_the_fusions_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    from qrsc.learn.fusion import shift_tolerant

    monkeypatch.setattr(shift_tolerant, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"qrsc\[perceptual\]"):
        load_term("perceptual")
