"""Textures and painted objects for simulated worlds."""
