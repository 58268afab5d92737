"""The recorded steps of a stream give what the plain ones give, for whole clips and at their ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from qrsc.backend import cuda_graphs, device
from qrsc.pipeline import Corrector, TimedFrame, recorded
from qrsc.timing import Readout

from .moving_texture import MovingTexture

TEXTURE = MovingTexture(Readout(0.8), acceleration=(0.5, -0.3), jerk=(0.2, 0.1), size=(48, 80))
COUNT = 10


@pytest.fixture
def replays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of recorded steps; a replay is simulated by calling the function again, as if on a GPU."""
    made: list[str] = []

    def record(function: Callable[..., Any], inputs: list[Tensor], pool: Any) -> tuple[Callable[[], None], Any]:
        made.append(function.__qualname__.split(".")[1])
        result = tuple(torch.zeros_like(each) for each in function(*inputs))

        def replay() -> None:
            for own, new in zip(result, function(*inputs), strict=True):
                own.copy_(new)

        return replay, result

    monkeypatch.setattr(cuda_graphs, "record", record)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
    monkeypatch.setattr(recorded, "recordable", lambda values: True)
    monkeypatch.setattr(device, "may_decide", lambda *values: False)
    return made


def corrected(times: list[float] | None = None, **options: Any) -> Tensor:
    frames = [frame.float() for frame in TEXTURE.clip(COUNT)]
    flows = TEXTURE.flows(COUNT)
    flows.pairs = [type(pair)(pair.forward.float(), pair.backward.float()) for pair in flows.pairs]
    corrector = Corrector(TEXTURE.readout, flow=flows, fusion="mean", **options)
    given = frames if times is None else [TimedFrame(*each) for each in zip(frames, times, strict=True)]
    return torch.stack([each.frame for each in corrector.stream(given)])


@pytest.mark.parametrize("options", [{}, {"field_scale": 0.5, "interpolation": "bilinear"}], ids=["full", "half"])
def test_recorded_steps_are_the_plain_ones(
    options: dict[str, Any], replays: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = corrected(**options)
    assert {"measured", "path", "own_motion", "align"} <= set(replays)
    monkeypatch.undo()
    expected = corrected(**options)
    # Sums in another order: 3e-6.
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=0)
    assert float((found - TEXTURE.clip(COUNT)).abs().mean()) > 1e-3


def test_a_record_serves_frames_at_uneven_times(replays: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    times = [index + 0.003 * (index % 3) for index in range(COUNT)]
    found = corrected(times)
    assert replays.count("align") == 1
    monkeypatch.undo()
    torch.testing.assert_close(found, corrected(times), atol=2e-5, rtol=0)
