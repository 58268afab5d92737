"""The classical methods, with exact flow on scenes of known motion."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from qrsc.baselines.classical.diffhomo import DiffHomo
from qrsc.baselines.classical.dsfm import Dsfm, Intrinsics, fit_rigid_motion, normalised
from qrsc.baselines.classical.fitting import along, levenberg_marquardt, plausible_accelerations
from qrsc.baselines.classical.row_homography import RowHomography
from qrsc.baselines.classical.two_frames import Correct, displacements
from qrsc.evaluate.methods.results import frame_of
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.flow import FlowPair
from qrsc.simulate.render.rows import render_rs
from qrsc.simulate.render.surfaces import Scene
from qrsc.simulate.render.truth import correction_field, rs_flow
from qrsc.timing import SCANS, Readout
from tests.baselines.planes import CENTRE, FOCAL, SIZE, planes_scene

READOUT = Readout(0.9)
EXACT = Intrinsics(FOCAL, CENTRE)
METHODS: dict[str, RowHomography | Dsfm | DiffHomo] = {
    "row-homography": RowHomography(),
    "dsfm": Dsfm(intrinsics=EXACT),
    "diffhomo": DiffHomo(),
}


def position_error(correct: Correct, scene: Scene, at: float, readout: Readout = READOUT, noise: float = 0.0) -> float:
    """Mean error of the correction in pixels, over points that are seen at the target instant."""
    flow, _ = rs_flow(scene, readout, 1, 0)
    generator = torch.Generator().manual_seed(1)
    flow = flow + noise * torch.randn(flow.shape, generator=generator, dtype=flow.dtype)
    pixels = displacements(flow, readout, -1)
    points = pixels[np.random.default_rng(0).choice(len(pixels), 2000, replace=False)]
    found = correct(pixels, points, readout.gamma * at, SIZE)
    exact, seen = correction_field(scene, readout, 1, 1 + readout.gamma * at)
    error = torch.from_numpy(found.field.T.reshape(2, *SIZE).copy()) - exact[0]
    return float(error.norm(dim=0)[seen[0, 0]].mean())


def no_correction(scene: Scene, at: float, readout: Readout = READOUT) -> float:
    """The mean size of the true correction."""
    exact, seen = correction_field(scene, readout, 1, 1 + readout.gamma * at)
    return float(exact[0].norm(dim=0)[seen[0, 0]].mean())


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_dsfm_undoes_a_constant_velocity_with_parallax(at: float) -> None:
    scene = planes_scene()
    assert no_correction(scene, at) > 1.5
    assert position_error(Dsfm(intrinsics=EXACT).correct, scene, at) < 0.05  # measured 0.019; the bar is 0.3
    assert position_error(Dsfm(intrinsics=EXACT).correct, scene, at, noise=0.1) < 0.3


@pytest.mark.parametrize("at", [0.0, 0.5])
def test_diffhomo_undoes_a_constant_velocity_of_a_wall(at: float) -> None:
    scene = planes_scene(depths=(8.0,))
    assert no_correction(scene, at) > 1.5
    assert position_error(DiffHomo().correct, scene, at) < 0.05  # measured 0.018; the bar is 0.3
    assert position_error(DiffHomo(local=False).correct, scene, at) < 0.05


def test_acceleration_is_found_from_two_frames() -> None:
    wall, planes = (planes_scene(depths, acceleration=0.4) for depths in ((8.0,), (12.0, 4.0, 6.0)))
    for scene, slow, fast in (
        (wall, DiffHomo(), DiffHomo(accelerated=True)),
        (planes, Dsfm(intrinsics=EXACT), Dsfm(accelerated=True, intrinsics=EXACT)),
    ):
        steady, accelerated = (position_error(each.correct, scene, 0.0) for each in (slow, fast))
        assert accelerated < 0.05  # measured 0.013
        assert steady > 2 * accelerated
    flow, _ = rs_flow(planes, READOUT, 1, 0)
    motion = fit_rigid_motion(normalised(displacements(flow, READOUT, -1), EXACT), FOCAL, accelerated=True)
    assert motion.k == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("scan", SCANS)
def test_a_pan_is_undone_for_every_scan(scan: str) -> None:
    scene = planes_scene(depths=(8.0,), drift=(0.0, 0.0, 0.0), turn=(0.05, 0.02, 0.0))
    readout = Readout(0.8, scan)  # type: ignore[arg-type]  # one of SCANS
    for entry in METHODS.values():
        assert position_error(entry.correct, scene, 0.5, readout) < 0.25 < no_correction(scene, 0.5, readout)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("size", [(40, 56), (33, 47)])
def test_frames_at_rest_come_back(name: str, size: tuple[int, int]) -> None:
    frame = torch.rand(3, *size, generator=torch.Generator().manual_seed(0))
    flow = SharedFlow(lambda first, second: FlowPair(*(torch.zeros_like(first[:, :2]) for _ in range(2))))
    results = list(METHODS[name](flow)([frame, frame.clone(), frame.clone()], READOUT, 0.45))
    assert len(results) == 3
    for result in results:
        torch.testing.assert_close(frame_of(result), frame, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_a_clip_is_corrected_frame_by_frame(name: str) -> None:
    scene = planes_scene(depths=(8.0,), drift=(0.2, 0.0, 0.0))
    frames = [render_rs(scene, READOUT, k)[0].float() for k in range(3)]
    known = {id(frame): number for number, frame in enumerate(frames)}

    def exact(first: Tensor, second: Tensor) -> FlowPair:
        a, b = (next(known[id(f)] for f in frames if torch.equal(f, each[0])) for each in (first, second))
        return FlowPair(*(rs_flow(scene, READOUT, *pair)[0].float() for pair in ((a, b), (b, a))))

    results = list(METHODS[name](SharedFlow(exact))(frames, READOUT, 0.45))
    assert len(results) == 3
    for number, result in enumerate(results):
        field, seen = correction_field(scene, READOUT, number, number + 0.45)
        assert not isinstance(result, Tensor)
        error = (result.correction_field - field[0].float()).norm(dim=0)[seen[0, 0]].mean()
        assert float(error) < 0.3, number
    single = list(METHODS[name](SharedFlow(exact))(frames[:1], READOUT, 0.45))
    assert torch.equal(frame_of(single[0]), frames[0])


def test_position_along_the_motion() -> None:
    assert along(0.0, 0.7) == 0.0
    assert along(1.0, 0.7) == pytest.approx(1.0)
    np.testing.assert_allclose(along(np.array([0.3, -1.0]), 0.0), [0.3, -1.0])
    diagonal = np.diag([0.5, -0.25, 3.0])[None]
    np.testing.assert_allclose(np.sort(plausible_accelerations(-diagonal, np.eye(3)[None])[0]), [-0.25, 0.5])


def test_least_squares_finds_the_minimum() -> None:
    times = np.linspace(0, 1, 20)
    found = levenberg_marquardt(lambda p: p[0] * np.exp(p[1] * times) - 2 * np.exp(-1.5 * times), np.array([1.0, -1.0]))
    np.testing.assert_allclose(found, [2.0, -1.5], atol=1e-6)
