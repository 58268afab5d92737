"""Surfaces, and their rolling- and global-shutter frames with exact ground truth."""
