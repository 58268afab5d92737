"""Motion from flows: the camera path, per-pixel trajectories, and how far flows can be trusted."""
