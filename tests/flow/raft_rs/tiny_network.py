"""The size of a flow network that is small enough for tests."""

from __future__ import annotations

from qrsc.flow.raft_rs.network import NetworkSize

TINY = NetworkSize(
    stem=8,
    widths=(16, 16, 16),
    depths=(1, 1, 1),
    matching=16,
    fine_matching=8,
    hidden=16,
    fine_hidden=16,
    levels=2,
    radius=2,
    fine_radius=1,
    steps=2,
    fine_steps=2,
)
