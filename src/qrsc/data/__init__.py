"""Data sets of rolling-shutter clips with truth, as they lie on disk."""
