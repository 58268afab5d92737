from __future__ import annotations

import pytest

from qrsc.names import parse_size


@pytest.mark.parametrize(
    "text", ["640", "640x", "axb", "640x0", "640x480x3", "-1x5", "0x0", "100000x100000", "9" * 5000 + "x1"]
)
def test_size_that_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="WIDTHxHEIGHT"):
        parse_size(text)


def test_size_is_width_by_height() -> None:
    assert parse_size("640x480") == (480, 640)
