"""The readout of a camera from its clips: what moved, one motion for all of it, and the gamma that fits best."""
