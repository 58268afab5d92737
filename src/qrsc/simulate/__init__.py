"""Rolling-shutter clips of synthetic scenes, with exact ground truth."""
