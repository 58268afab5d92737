"""Training: losses, rendered data, and the loops that make the shipped weights."""
