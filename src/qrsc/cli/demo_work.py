"""Sizes as the commands take them."""

from __future__ import annotations

import re


def parse_size(text: str) -> tuple[int, int]:
    """`(height, width)` from `WIDTHxHEIGHT`."""
    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None or min(int(match[1]), int(match[2])) < 1:
        raise ValueError(f"a size is WIDTHxHEIGHT, such as 640x480; got {text!r}.")
    return int(match[2]), int(match[1])
