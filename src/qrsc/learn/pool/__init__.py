"""A pool of rendered samples on the training device."""
