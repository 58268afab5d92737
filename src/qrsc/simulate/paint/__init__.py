"""Textures and painted things for simulated worlds."""
