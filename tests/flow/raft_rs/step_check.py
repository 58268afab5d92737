"""The kernels of the network's steps in interpreter mode against PyTorch; run as a script by `test_network.py`.

Interpreter mode must be chosen before Triton is imported, and would stay for the whole process.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.backend import pointwise_kernels
from qrsc.backend.convolutions import plainly_after, plainly_gated
from qrsc.flow.raft_rs import step_kernels
from qrsc.flow.raft_rs.correlation import correlation_pyramid, standardised
from qrsc.flow.raft_rs.evidence import exchanged, plainly_around, plainly_fine
from qrsc.flow.raft_rs.update import plainly_enlarged

GENERATOR = torch.Generator().manual_seed(0)


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=GENERATOR)


def correlations() -> None:
    source, target = standardised(noise(2, 8, 2, 3)), standardised(noise(2, 8, 4, 6))
    pyramid = correlation_pyramid(source, target, 3)
    flow = 4.0 * noise(2, 2, 2, 3)
    flow[:, :, 0, 0], flow[0, 0, 1, 1] = 1e9, float(flow[0, 0, 1, 1].round())
    expected = plainly_around(pyramid, flow, 4, torch.float32)
    found = step_kernels.evidence_around(pyramid, flow, 4, expected.shape[1], torch.float32)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    assert found.is_contiguous(memory_format=torch.channels_last)


def differences() -> None:
    frames = torch.rand(2, 3, 16, 24, generator=GENERATOR).contiguous(memory_format=torch.channels_last)
    matching, flow = standardised(noise(2, 12, 4, 6)), 3.0 * noise(2, 2, 4, 6)
    expected = plainly_fine(frames, matching, flow, 3, torch.float32)
    given = (frames, matching, exchanged(matching), flow, 3, expected.shape[1], torch.float32)
    found = step_kernels.fine_evidence(*given)
    # Positions are rounded differently: 4e-6 pixels of a frame of noise.
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-5)


def upsampling() -> None:
    for factor in (2, 4):
        # At factor 4 a row is more than the 128 pixels of a program.
        values, weights = 10.0 * noise(2, 2, 3, 33), 8.0 * noise(2, 9 * factor**2, 3, 33)
        torch.testing.assert_close(
            step_kernels.enlarged(values, weights, factor),
            plainly_enlarged(values, weights, factor),
            atol=2e-5,
            rtol=1e-5,
        )


def convolutions() -> None:
    features, skip, bias = noise(2, 12, 13, 17), noise(2, 12, 13, 17), noise(12)
    for given in ((None, None, False), (skip, None, False), (skip, 0.0, True), (None, 0.2, False), (skip, 0.2, False)):
        found, expected = (of(features, bias, *given) for of in (pointwise_kernels.after, plainly_after))
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)
    state = torch.tanh(skip[:, :6])
    after, wanted = (of(features, bias, state) for of in (pointwise_kernels.gated, plainly_gated))
    torch.testing.assert_close(after, wanted, atol=2e-5, rtol=1e-5)


if __name__ == "__main__":
    for case in (correlations, differences, upsampling, convolutions):
        case()
        print("as PyTorch:", case.__name__)  # noqa: T201  # a script's output
