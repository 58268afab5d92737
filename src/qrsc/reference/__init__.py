"""Slow, obvious twins of the fast functions, which only tests import: `motion`, `warp`, `fusion`; loops in `pixels`."""
