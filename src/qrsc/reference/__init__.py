"""Slow, obvious twins of fast functions; only tests import them."""
