"""The small fusion network for CPUs."""
