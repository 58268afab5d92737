"""Corrected geometry for other programs: COLMAP databases, camera paths, and files that these programs read."""
