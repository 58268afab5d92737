"""Data sets of rolling-shutter clips with ground truth: layouts on disk, loading and checking."""
