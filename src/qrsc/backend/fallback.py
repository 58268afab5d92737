"""Fallbacks that can be asked about: the object that computed something says where it did not do so as asked.

Convention
    An object that may fall back has an attribute `fallback`. It is about the latest call: None, or the reason in words.
"""

from __future__ import annotations

import torch

_BETWEEN = "; "


def fallback_of(part: object) -> str | None:
    """Why the latest call of an estimator or a fusion did not run as asked; None if it did, or if it cannot say."""
    reason: str | None = getattr(part, "fallback", None)
    return reason


def in_float32(dtype: torch.dtype) -> str | None:
    """The fallback of a network that computes in float32, for frames of a dtype; None for float32."""
    name = str(dtype).removeprefix("torch.")
    return None if dtype == torch.float32 else f"frames in {name} are processed in float32"


def joined(*reasons: str | None) -> str | None:
    """Several reasons as one text; None if there is none."""
    return _BETWEEN.join(reason for reason in reasons if reason) or None


def separated(text: str) -> list[str]:
    """The reasons in a text of `joined`."""
    return text.split(_BETWEEN)
