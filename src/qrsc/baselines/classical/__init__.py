"""Methods without weights: a motion model is fitted to the flow between two frames by RANSAC."""
