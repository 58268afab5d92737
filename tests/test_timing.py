from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from qrsc.timing import INSTANTS, SCANS, Readout, Scan, parse_scan

sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))
gammas = st.floats(0.0, 1.0)
readouts = st.builds(Readout, gammas, st.sampled_from(SCANS), st.floats(-1.0, 1.0))

# Two roundings of times below 3 in float64.
EXACT = 2e-15


def times(readout: Readout, size: tuple[int, int]) -> Tensor:
    """Row times spread over the whole picture, `[1, H, W]`."""
    return readout.row_times(*size, dtype=torch.float64).expand(1, *size)


def assert_times(ours: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(ours, expected, rtol=0.0, atol=EXACT)


# --- constructors ---


def test_ratio_percent_and_milliseconds_name_the_same_readout() -> None:
    assert Readout.from_ratio(0.75) == Readout(0.75) == Readout.from_percent(75.0)
    assert Readout.from_milliseconds(25.0, fps=30.0) == Readout(0.75)
    assert Readout.from_milliseconds(20.0, 50.0, "left-right") == Readout(1.0, "left-right")
    assert Readout.from_ratio(0.5, "bottom-up") == Readout.from_percent(50.0, "bottom-up") == Readout(0.5, "bottom-up")


@given(gammas, st.floats(1.0, 1000.0))
def test_milliseconds_round_trip(gamma: float, fps: float) -> None:
    milliseconds = Readout(gamma).milliseconds(fps)
    assert 0.0 <= milliseconds <= 1000.0 / fps
    assert Readout.from_milliseconds(milliseconds, fps).gamma == pytest.approx(gamma, rel=1e-12)
    assert Readout.from_milliseconds(1000.0 / fps, fps).gamma == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("gamma", [-0.01, 1.01, 45.0, float("nan"), float("inf"), "0.5", None])
def test_a_gamma_out_of_range_is_told_what_gamma_means(gamma: float) -> None:
    with pytest.raises(ValueError, match=r"readout time as a fraction of the frame interval: readout_ms \* fps / 1000"):
        Readout(gamma)
    with pytest.raises(ValueError, match="from_milliseconds"):
        Readout.from_ratio(gamma)


def test_a_readout_longer_than_a_frame_is_told_why() -> None:
    with pytest.raises(ValueError, match=r"16\.7 ms apart \(gamma would be 1\.2"):
        Readout.from_milliseconds(20.0, 60.0)


@pytest.mark.parametrize(
    ("milliseconds", "fps"), [(-1.0, 30.0), (float("nan"), 30.0), (10.0, 0.0), (10.0, float("inf"))]
)
def test_milliseconds_and_fps_out_of_range(milliseconds: float, fps: float) -> None:
    with pytest.raises(ValueError, match="fps must be a positive" if milliseconds == 10.0 else "readout_ms must be"):
        Readout.from_milliseconds(milliseconds, fps)


@pytest.mark.parametrize("percent", [-1.0, 100.5, float("nan")])
def test_percent_out_of_range(percent: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100"):
        Readout.from_percent(percent)


def test_unknown_words_list_the_known_ones() -> None:
    sideways: Scan = "sideways"  # type: ignore[assignment]  # wrong on purpose
    for call in (lambda: Readout(0.5, sideways), lambda: parse_scan("sideways")):
        with pytest.raises(ValueError, match="'sideways'; choose one of top-down, bottom-up, left-right, right-left"):
            call()
    with pytest.raises(ValueError, match="choose one of first, middle, last"):
        Readout(0.5).instant("centre")  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(ValueError, match="offset must be a finite time"):
        Readout(0.5, offset=float("nan"))
    assert [parse_scan(scan) for scan in SCANS] == list(SCANS)


# --- times ---


def test_instants() -> None:
    assert [Readout(0.8).instant(at) for at in INSTANTS] == [0.0, 0.4, 0.8]
    assert [Readout(0.8, offset=0.1).instant(at) for at in INSTANTS] == pytest.approx([0.1, 0.5, 0.9])


def test_row_times_of_the_four_scans() -> None:
    forth, back = [0.0, 0.2, 0.4, 0.6], [0.6, 0.4, 0.2, 0.0]
    for scan, size, expected in [
        ("top-down", (4, 2), forth),
        ("bottom-up", (4, 2), back),
        ("left-right", (2, 4), forth),
        ("right-left", (2, 4), back),
    ]:
        readout = Readout(0.8, parse_scan(scan))
        rows = readout.row_times(*size, dtype=torch.float64)
        assert rows.shape == ((1, 1, 4) if readout.sideways else (1, 4, 1))
        torch.testing.assert_close(rows.flatten(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15)


def test_row_times_keep_the_dtype_asked_for() -> None:
    assert Readout(0.5).row_times(3, 3).dtype == torch.float32
    assert Readout(0.5).row_times(3, 3, dtype=torch.float64).dtype == torch.float64


@given(readouts, sizes, st.integers(-3, 3), st.integers(0, 1000))
def test_flight_time_is_the_difference_of_the_two_exposures(
    readout: Readout, size: tuple[int, int], frames: int, seed: int
) -> None:
    flow = torch.randn(2, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    y, x = torch.meshgrid(torch.arange(size[0]), torch.arange(size[1]), indexing="ij")
    landed = (x + flow[0]) if readout.sideways else (y + flow[1])
    expected = frames + readout.row_time(landed, *size) - times(readout, size)[0]
    torch.testing.assert_close(readout.flight_time(flow, frames)[0], expected, rtol=0.0, atol=1e-13)


# --- edits of the picture ---


@given(readouts, sizes)
def test_flips_and_transposes_move_the_row_times_with_the_pixels(readout: Readout, size: tuple[int, int]) -> None:
    whole = times(readout, size)
    assert_times(times(readout.flipped_vertically(), size), whole.flip(-2))
    assert_times(times(readout.flipped_horizontally(), size), whole.flip(-1))
    assert_times(times(readout.transposed(), size[::-1]), whole.transpose(-1, -2))
    for turns in range(-4, 5):
        turned = torch.rot90(whole, turns, (-2, -1))
        height, width = turned.shape[-2:]
        assert_times(times(readout.rotated(turns), (height, width)), turned)


@given(readouts, sizes, st.data())
def test_a_crop_keeps_the_times_of_the_rows_that_are_kept(
    readout: Readout, size: tuple[int, int], data: st.DataObject
) -> None:
    top = data.draw(st.integers(0, size[0] - 1))
    left = data.draw(st.integers(0, size[1] - 1))
    height = data.draw(st.integers(1, size[0] - top))
    width = data.draw(st.integers(1, size[1] - left))
    kept = readout.cropped((top, left, height, width), size)
    expected = times(readout, size)[:, top : top + height, left : left + width]
    assert_times(times(kept, (height, width)), expected)


@given(readouts, sizes, sizes)
def test_a_resize_keeps_the_time_of_every_place_of_the_frame(
    readout: Readout, size: tuple[int, int], new_size: tuple[int, int]
) -> None:
    # The centre of new row n lies at old row (n + 1/2) / scale - 1/2 when the corners of the frame stay.
    rows, new_rows = readout.row_count(*size), readout.row_count(*new_size)
    centres = (torch.arange(new_rows, dtype=torch.float64) + 0.5) * rows / new_rows - 0.5
    new_times = readout.resized(size, new_size).row_times(*new_size, dtype=torch.float64).flatten()
    torch.testing.assert_close(new_times, readout.row_time(centres, *size), rtol=0.0, atol=1e-14)


@given(readouts, sizes)
def test_a_resize_back_changes_nothing(readout: Readout, size: tuple[int, int]) -> None:
    there_and_back = readout.resized(size, (7, 9)).resized((7, 9), size)
    assert_times(times(there_and_back, size), times(readout, size))


@pytest.mark.parametrize("box", [(0, 0, 5, 4), (-1, 0, 2, 2), (0, 3, 2, 2), (0, 0, 0, 2)])
def test_a_crop_outside_the_picture_is_refused(box: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"does not lie inside a picture of \(H, W\) = \(4, 4\)"):
        Readout(0.5).cropped(box, (4, 4))


def test_sizes_below_one_are_refused() -> None:
    with pytest.raises(ValueError, match="both at least 1"):
        Readout(0.5).resized((0, 4), (4, 4))
