"""A result is compared with its input by points that are followed through both; where it is no better, less is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import qrsc
from qrsc.calibrate.decision import ChosenReadout
from qrsc.cli.app import app
from qrsc.pipeline import Corrected
from qrsc.timing import Readout
from qrsc.video.frame_distortion import bending, readout_bending, seen_frame
from qrsc.video.result_check import ResultCheck
from qrsc.warp import sample

from ..videos import Recipe, make_video, texture

SIZE = (120, 160)
GAMMA = 0.6
COUNT = 26
# What is left of a shear by 1 after the best roll, in pixels: with the standard deviations 34.6 of y and 46.2 of x over
# the frame, 34.6 46.2 / sqrt(34.6^2 + 46.2^2).
LEAN = 27.71


def place(when: torch.Tensor) -> torch.Tensor:
    """Where a shaking camera looks at times `[N]`: `[2, N]`."""
    return torch.stack([9.0 * torch.sin(0.7 * when) + 1.5 * when, 4.0 * torch.sin(0.9 * when + 1.0)])


def walk(gamma: float = GAMMA, count: int = COUNT) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Frames `[3, H, W]` of a textured wall, read top-down, and their true correction fields `[2, H, W]`."""
    height, width = SIZE
    wall = texture(5, height + 60, width + 120)
    wall = (wall + 0.3 * (torch.rand(wall.shape, generator=torch.Generator().manual_seed(1)) - 0.5)).clamp(0, 1)
    wall = torch.nn.functional.avg_pool2d(wall[None], 3, 1, 1)[0]
    x, y = torch.arange(width), torch.arange(height)
    frames, fields = [], []
    for number in range(count):
        rows = place(number + gamma * y / height)  # [2, H]
        seen = torch.stack([30.0 + x + rows[0][:, None], (30.0 + y + rows[1])[:, None].expand(height, width)])
        frames.append(sample(wall, seen).image)
        # A point of the wall is where it was, less what the camera has moved on by.
        moved = rows - place(torch.tensor([number + 0.5 * gamma]))
        fields.append(moved[:, :, None].expand(2, height, width))
    return frames, fields


def checked(frames: list[torch.Tensor], fields: list[torch.Tensor], readout: Readout) -> Any:
    check = ResultCheck(readout)
    for frame, field in zip(frames, fields, strict=True):
        check.add(frame, Corrected(frame, torch.ones_like(frame[:1], dtype=torch.bool), field))
    return check.found()


# --- the measure ---


def test_the_true_correction_leaves_nothing_and_all_of_it_is_right() -> None:
    frames, fields = walk()
    found = checked(frames, fields, Readout(GAMMA))
    assert found.verdict == "better"
    assert found.before_px > 0.5  # as seen: 0.86
    assert found.after_px < 0.15 * found.before_px  # as seen: 0.04
    assert found.part == pytest.approx(1.0, abs=0.05)
    assert found.part_error < 0.05
    assert found.useful_part > 0.95


def test_too_much_is_worse_and_the_right_part_is_found() -> None:
    frames, fields = walk()
    found = checked(frames, [3.0 * field for field in fields], Readout(GAMMA))
    assert found.verdict == "worse"
    assert found.after_px > found.before_px
    assert found.part == pytest.approx(1 / 3, abs=0.03)


def test_twice_too_much_is_as_bad_as_nothing() -> None:
    frames, fields = walk()
    found = checked(frames, [2.0 * field for field in fields], Readout(GAMMA))
    assert found.part == pytest.approx(0.5, abs=0.03)
    assert found.after_px == pytest.approx(found.before_px, rel=0.1)


def test_the_wrong_direction_is_worse() -> None:
    frames, fields = walk()
    found = checked(frames, [-field for field in fields], Readout(GAMMA, "bottom-up"))
    assert found.verdict == "worse"
    assert found.against
    assert found.useful_part == 0.0


@pytest.mark.parametrize("scan", ["bottom-up", "left-right", "right-left"])
def test_a_path_that_hides_a_wrong_direction_is_found_out(scan: Any) -> None:
    # The picture follows the path in any case: only the direction of the readout is wrong.
    frames, fields = walk()
    found = checked(frames, fields, Readout(GAMMA, scan))
    assert found.after_px < found.before_px
    assert found.against
    assert found.verdict == "worse"


def test_a_global_shutter_needs_nothing() -> None:
    frames, _ = walk(gamma=0.0)
    _, fields = walk()
    found = checked(frames, fields, Readout(GAMMA))
    assert found.verdict == "worse"
    assert found.useful_part == 0.0


def test_a_still_picture_and_a_blank_one_leave_it_open() -> None:
    frames, fields = walk()
    still = checked([frames[0]] * COUNT, [torch.zeros_like(field) for field in fields], Readout(GAMMA))
    assert still.verdict == "open"
    assert still.useful_part == 1.0
    blank = checked([torch.full_like(frames[0], 0.5)] * COUNT, fields, Readout(GAMMA))
    assert (blank.verdict, blank.pairs) == ("open", 0)
    assert "too few points" in blank.text()
    few = checked(frames[:6], fields[:6], Readout(GAMMA))
    assert few.verdict == "open"


def test_a_cut_is_not_followed() -> None:
    frames, fields = walk()
    turned = [frame.flip(2) for frame in frames]
    cut = [field * torch.tensor([-1.0, 1.0]).reshape(2, 1, 1) for field in fields]
    found = checked([*frames, *turned], [*fields, *cut], Readout(GAMMA))
    assert found.verdict == "better"
    assert found.part == pytest.approx(1.0, abs=0.1)


def test_what_a_camera_makes_does_not_bend_the_picture() -> None:
    (frame, *_), _ = walk()
    height, width = SIZE
    y, x = torch.meshgrid(torch.arange(height) - 59.5, torch.arange(width) - 79.5, indexing="ij")
    turned = torch.stack([79.5 + 3.0 + 1.01 * x - 0.02 * y, 59.5 - 2.0 + 0.02 * x + 1.01 * y])
    found = bending(seen_frame(frame, None), seen_frame(sample(frame, turned).image, None))
    assert found is not None
    assert float((found.before[0] * found.before[1]).sum()) < 0.05**2
    sheared = torch.stack([79.5 + x + 0.03 * y, 59.5 + y])
    found = bending(seen_frame(frame, None), seen_frame(sample(frame, sheared).image, None))
    assert found is not None
    assert float((found.before[0] * found.before[1]).sum()) ** 0.5 == pytest.approx(0.03 * LEAN, rel=0.05)


def test_a_readout_bends_an_accelerated_picture() -> None:
    import numpy as np

    bent = readout_bending(np.array([[1.0, 0.0]]), Readout(0.5), SIZE)
    # Rows lean by half a pixel over the height.
    assert float(np.linalg.norm(bent)) == pytest.approx(0.5 / 120 * LEAN, rel=0.01)
    np.testing.assert_allclose(readout_bending(np.array([[1.0, 0.0]]), Readout(0.5, "bottom-up"), SIZE), -bent)


def test_the_picture_may_be_reduced_and_the_field_of_any_size() -> None:
    frames, fields = walk()
    larger = [torch.nn.functional.interpolate(frame[None], scale_factor=5, mode="bilinear")[0] for frame in frames[:2]]
    whole = bending(*(seen_frame(*each) for each in zip(frames[:2], fields[:2], strict=True)))
    assert whole is not None
    # The field of a reduced grid is in pixels of the full frame.
    found = bending(*(seen_frame(frame, 5.0 * field) for frame, field in zip(larger, fields, strict=False)))
    assert found is not None
    for one, other in ((whole.before, found.before), (whole.after, found.after)):
        assert float(abs(5.0 * one - other).max()) < 1.0  # of 5 px; as seen 0.4


# --- clips ---


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frames, _ = walk()
    return make_video(tmp_path_factory.mktemp("clips") / "in.mp4", Recipe(frames))


def choose(monkeypatch: pytest.MonkeyPatch, readout: Readout) -> None:
    """Let a readout be found, whatever the clip shows."""
    chosen = ChosenReadout(readout, "found")
    monkeypatch.setattr("qrsc.video.readout.readout_for_clip", lambda *given, **options: chosen)


def test_a_right_correction_says_so(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, Readout(GAMMA))
    result = qrsc.correct_video(clip, tmp_path / "out.mp4", preset="fast")
    assert result.checked is not None
    assert result.checked.verdict == "better"
    assert result.strength == 1.0
    assert result.figures()["check"]["verdict"] == "better"
    assert "checked: from frame to frame the picture bends by" in result.text()


def test_a_wrong_readout_that_was_found_is_not_used(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, Readout(GAMMA, "bottom-up"))
    result = qrsc.correct_video(clip, tmp_path / "out.mp4", preset="fast")
    assert result.copied
    assert (tmp_path / "out.mp4").read_bytes() == clip.read_bytes()
    assert result.strength == 0.0
    assert result.checked is not None
    assert result.checked.verdict == "worse"
    assert any("nothing is corrected; --always" in note for note in result.notes)
    assert any("nothing is corrected" in reason for reason in result.fallbacks)
    assert "no correction made them better" in result.text()
    assert list(tmp_path.iterdir()) == [tmp_path / "out.mp4"]


def test_too_much_of_a_readout_that_was_found_is_lessened(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("qrsc.video.result_check.LEAST_LEAN", -9.0)  # let nothing but the measure decide
    frames, _ = walk(gamma=0.15)
    slight = make_video(tmp_path / "slight.mp4", Recipe(frames))
    choose(monkeypatch, Readout(1.0))
    result = qrsc.correct_video(slight, tmp_path / "out.mp4", preset="fast")
    assert result.checked is not None
    assert result.strength < 0.7
    assert result.copied or result.checked.verdict != "worse"
    assert result.frames == COUNT


def test_always_and_a_readout_given_by_hand_are_orders_with_a_warning(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"gamma": GAMMA, "scan": "bottom-up", "preset": "fast"}
    with pytest.warns(UserWarning, match="the readout looks wrong"):
        by_hand = qrsc.correct_video(clip, tmp_path / "hand.mp4", **given)  # type: ignore[arg-type]
    assert by_hand.checked is not None
    assert by_hand.checked.verdict == "worse"
    assert not by_hand.copied
    choose(monkeypatch, Readout(GAMMA, "bottom-up"))
    arguments = ["correct", str(clip), "-o", str(tmp_path / "always.mp4"), "--fast", "--always"]
    said = CliRunner().invoke(app, arguments)
    assert said.exit_code == 0, said.output
    assert "warning: the readout looks wrong" in said.output
    assert "corrected into" in said.output


def test_slow_motion_is_checked(clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose(monkeypatch, Readout(GAMMA))
    right = qrsc.slowmo_video(clip, tmp_path / "right.mp4", factor=2, preset="fast")
    assert right.checked is not None
    assert right.checked.verdict == "better"
    choose(monkeypatch, Readout(GAMMA, "bottom-up"))
    wrong = qrsc.slowmo_video(clip, tmp_path / "wrong.mp4", factor=2, preset="fast")
    assert wrong.strength == 0.0
    assert wrong.frames == 2 * (COUNT - 1) + 1
    assert any("--always" in note for note in wrong.notes)
