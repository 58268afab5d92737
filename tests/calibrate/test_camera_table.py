from __future__ import annotations

import pytest

from qrsc.calibrate.camera_table import all_modes, choose_mode, find_modes, model_modes


def test_the_table_is_whole() -> None:
    modes = all_modes()
    assert len(modes) > 500
    assert all(mode.readout_ms > 0 and mode.fps > 0 for mode in modes)


@pytest.mark.parametrize("query", ["gopro hero5 black", "GoPro HERO 5 Black", "hero5 black", "gopro 5 bl"])
def test_names_are_found_however_they_are_written(query: str) -> None:
    assert {mode.name for mode in find_modes(query)} == {"GoPro HERO5 Black"}


def test_size_and_rate_filter() -> None:
    modes = find_modes("hero5 black", size=(1520, 2704), fps=30.0)
    assert [(mode.height, mode.width, mode.fps) for mode in modes] == [(1520, 2704, 29.97)]
    assert find_modes("hero5 black", size=(2704, 1520)) == find_modes("hero5 black", size=(1520, 2704))


def test_nothing_fits_nonsense() -> None:
    assert find_modes("qqqqzzzz") == []
    with pytest.raises(ValueError, match="qrsc cameras"):
        choose_mode("qqqqzzzz", size=(1080, 1920), fps=30.0)


def test_an_unknown_mode_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="2704x1520"):
        choose_mode("hero5 black", size=(100, 100), fps=30.0)


def test_gamma_follows_the_rate_and_never_exceeds_one() -> None:
    [mode] = find_modes("hero5 black", size=(1520, 2704), fps=30.0)
    assert mode.gamma() == pytest.approx(mode.readout_ms * 29.97 / 1000)
    assert mode.gamma(60.0) == 1.0


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("HERO12", "GoPro HERO"),
        ("GoPro HERO12 Black", "GoPro HERO7 Black"),
        ("iphone 13", "Apple iPhone 12"),
        ("hreo5 blck", "GoPro HERO5 Black"),
        ("hero5", "GoPro HERO5 Black"),
    ],
)
def test_a_camera_that_is_not_in_the_table_does_not_become_another(name: str, nearest: str) -> None:
    with pytest.raises(ValueError, match="is not known; nearest: ") as error:
        choose_mode(name, size=(1080, 1920), fps=30.0)
    assert nearest in str(error.value)


@pytest.mark.parametrize("name", ["GoPro HERO5 Black", "hero 5 black", "HERO5-BLACK"])
def test_a_model_is_known_however_it_is_spaced_and_capitalised(name: str) -> None:
    assert {mode.name for mode in model_modes(name)} == {"GoPro HERO5 Black"}


def test_a_search_for_an_unknown_name_lists_no_other_camera() -> None:
    assert find_modes("iphone 13") == []
    assert len(find_modes("")) == len(all_modes())
