"""Figures beyond PSNR and SSIM, against values computed by hand."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch

from qrsc.evaluate.metrics import lpips as perceptual
from qrsc.evaluate.metrics.field_errors import distance_from_line, endpoint_error, line_bend, unseen_parts
from qrsc.evaluate.metrics.image_quality import Reference, to_levels
from qrsc.evaluate.metrics.lpips import load_lpips
from qrsc.evaluate.metrics.metric_table import METRICS
from qrsc.evaluate.metrics.similarity import _at_once, _blur_by_shifts, _blur_plane, _in_strips
from qrsc.evaluate.metrics.temporal import warping_error
from qrsc.evaluate.report.charts import bar_chart, line_chart
from qrsc.evaluate.run.scores import load_measures


def test_endpoint_error_by_hand() -> None:
    truth = torch.zeros(2, 2, 2)
    field = torch.zeros(2, 2, 2)
    field[:, 0, 0] = torch.tensor([3.0, 4.0])
    field[:, 1, 1] = 100.0
    seen = torch.tensor([[[True, True], [True, False]]])
    assert endpoint_error(field, truth, seen) == pytest.approx(5 / 3)
    assert math.isnan(endpoint_error(field, truth, torch.zeros_like(seen)))
    with pytest.raises(ValueError, match="of one size"):
        endpoint_error(field, torch.zeros(2, 3, 2), seen)


def test_unseen_pixels_came_from_outside_or_from_behind() -> None:
    field = torch.zeros(2, 3, 4)
    field[0, :, 3] = 2.0  # the last column comes from beyond the right edge
    seen = torch.ones(1, 3, 4, dtype=torch.bool)
    seen[0, :, 3] = False
    seen[0, 1, 1] = False
    border, occlusion = unseen_parts(field, seen)
    assert border.nonzero().tolist() == [[0, 0, 3], [0, 1, 3], [0, 2, 3]]
    assert occlusion.nonzero().tolist() == [[0, 1, 1]]


def test_distance_from_line_by_hand() -> None:
    points = torch.tensor([[0.0, 1.0, 2.0], [0.0, 2.0, 4.0]])
    torch.testing.assert_close(distance_from_line(points), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    # Three points on a line along x with the middle one 3 px off: the best line lies 1 px above the outer two.
    bent = torch.tensor([[-100.0, 0.0, 100.0], [0.0, 3.0, 0.0]])
    expected = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(distance_from_line(bent), expected, atol=1e-3, rtol=0)


def test_lines_bent_by_a_known_motion() -> None:
    height, width = 65, 33
    y = torch.linspace(-1, 1, height).reshape(height, 1).expand(height, width)
    seen = torch.ones(1, height, width, dtype=torch.bool)
    sheared = torch.stack([3 * y, torch.zeros_like(y)])  # constant velocity leans lines over but leaves them straight
    assert line_bend(torch.zeros(2, height, width), sheared, seen) == pytest.approx(0.0, abs=1e-5)
    # x = 4 y^2 over y in [-1, 1]: its distance from the mean has a root mean square of 4 sqrt(1/5 - 1/9) = 1.193.
    bent = torch.stack([4 * y.square(), torch.zeros_like(y)])
    discrete = 4 * float(y[:, 0].square().std(correction=0))
    assert line_bend(torch.zeros(2, height, width), bent, seen) == pytest.approx(discrete, rel=1e-4)
    # The correction that undoes it: it does not depend on x, so that where it is read off does not matter.
    assert line_bend(-bent, bent, seen) == pytest.approx(0.0, abs=1e-4)
    assert math.isnan(line_bend(bent, bent, torch.zeros_like(seen)))


def test_warping_error_by_hand() -> None:
    frame = torch.rand(3, 6, 8, generator=torch.Generator().manual_seed(0))
    motion = torch.zeros(2, 6, 8)
    motion[0] = 2.0
    everywhere = torch.ones(1, 6, 8, dtype=torch.bool)
    shifted = frame.roll(2, dims=-1)  # what was at x is at x + 2 in the next frame
    assert warping_error(frame, shifted, motion, everywhere) == pytest.approx(0.0, abs=1e-4)
    assert warping_error(frame, shifted + 10 / 255, motion, everywhere) == pytest.approx(10.0, abs=1e-3)
    assert math.isnan(warping_error(frame, shifted, motion, ~everywhere))


def test_both_ways_to_ssim_agree() -> None:
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(3, 150, 40, generator=generator)
    several = to_levels(truth + 0.1 * torch.rand(2, 3, 150, 40, generator=generator))
    expected = Reference(truth).ssim(several)
    planes = to_levels(truth)
    torch.testing.assert_close(_at_once(several, planes).mean(-1), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(_in_strips(several, planes).mean(-1), expected, atol=0, rtol=0)
    torch.testing.assert_close(Reference(truth).ssim(several[1]), expected[1], atol=0, rtol=0)


def test_blurring_by_shifts_is_blurring() -> None:
    planes = 255.0**2 * torch.rand(30, 40, generator=torch.Generator().manual_seed(0))
    filtered = torch.empty_like(planes)
    _blur_plane(planes.numpy(), filtered.numpy())
    inner = (slice(5, -5), slice(5, -5))
    torch.testing.assert_close(_blur_by_shifts(planes)[inner], filtered[inner], atol=0.05, rtol=0)
    assert _blur_by_shifts(torch.ones(1, 11, 11))[0, 5, 5].item() == pytest.approx(1.0, abs=1e-6)


def test_unknown_metrics_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown metrics psrn; choose from psnr, ssim"):
        load_measures(["psnr", "psrn"])
    with pytest.raises(ValueError, match=r"unknown metrics \(none\)"):
        load_measures([])
    installed = [name for name, metric in METRICS.items() if metric.extra is None]
    assert list(load_measures(installed[::-1])) == installed, "in the order of the table"


def test_lpips_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(perceptual, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'qrsc\[lpips\]'"):
        load_lpips()
    monkeypatch.setattr(perceptual, "find_spec", lambda name: object())
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(ValueError, match="get them with: python -c"):
        load_lpips()
    assert "torchvision" not in sys.modules


def test_lpips_runs_where_it_is_installed() -> None:
    pytest.importorskip("torchvision")
    if not perceptual.weights_file().is_file():
        pytest.skip(f"no weights at {perceptual.weights_file()}")
    lpips = load_lpips()
    picture = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(0))
    assert lpips(picture, picture) == pytest.approx(0.0, abs=1e-6)
    assert lpips(picture.flip(-1), picture) > 0.01


def test_charts_are_well_formed_and_to_scale() -> None:
    chart = bar_chart(
        "PSNR, dB", {"a & b": {"x": 10.0, "y": 20.0}, "c": {"x": 5.0, "y": math.inf}}, caption="small <print>"
    )
    bars = list(ElementTree.fromstring(chart).iter("{http://www.w3.org/2000/svg}rect"))[1:4]
    heights = [float(bar.attrib["height"]) for bar in bars]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(0.5 * heights[0], abs=0.2)
    lines = line_chart("PSNR", {"x": [1.0, 2.0, math.nan, 3.0, 2.0]}, along="frame")
    assert len(list(ElementTree.fromstring(lines).iter("{http://www.w3.org/2000/svg}polyline"))) == 2
    with pytest.raises(ValueError, match="nothing to draw"):
        bar_chart("PSNR", {"a": {"x": math.nan}})
    with pytest.raises(ValueError, match="nothing to draw"):
        line_chart("PSNR", {"x": []})
