from __future__ import annotations

import pytest
import torch

from qrsc.video.expected_time import estimated_seconds


def test_times_grow_with_the_work_and_presets_stand_in_order() -> None:
    fast, default, best = (estimated_seconds(100, (480, 640), preset) for preset in ("fast", "default", "best"))
    assert 0 < fast < default < best
    assert estimated_seconds(200, (960, 1280), "fast", factor=2) == pytest.approx(16 * fast)
    assert estimated_seconds(100, (480, 640), "fast", measured=3.0) == pytest.approx(3 * fast)
    assert estimated_seconds(100, (480, 640), "default", denoise=True) < default
    assert estimated_seconds(100, (480, 640), "default", device="cuda") < fast
    # Two cores take 64 to 75 ms for such a frame by the fast preset.
    assert fast * torch.get_num_threads() / 2 / 100 == pytest.approx(0.07, abs=0.006)
