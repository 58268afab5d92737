"""Edits of a picture, with what each does to a flow and to the readout."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from qrsc.timing import Readout

Edit = tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor], Callable[[Readout], Readout]]


def _negated(flow: Tensor, component: int) -> Tensor:
    signs = torch.ones(2, 1, 1, dtype=flow.dtype)
    signs[component] = -1.0
    return flow * signs


EDITS: dict[str, Edit] = {
    "upside down": (lambda p: p.flip(-2), lambda f: _negated(f, 1).flip(-2), Readout.flipped_vertically),
    "mirrored": (lambda p: p.flip(-1), lambda f: _negated(f, 0).flip(-1), Readout.flipped_horizontally),
    "transposed": (lambda p: p.transpose(-1, -2), lambda f: f.flip(-3).transpose(-1, -2), Readout.transposed),
    "quarter turn": (
        lambda p: torch.rot90(p, 1, (-2, -1)),
        # (dx, dy) turns counter-clockwise to (dy, -dx), y pointing down.
        lambda f: torch.rot90(_negated(f.flip(-3), 1), 1, (-2, -1)),
        lambda readout: readout.rotated(1),
    ),
}
