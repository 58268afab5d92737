"""Rolling- and global-shutter pictures of a scene, with exact truth."""
