"""Rolling-shutter pictures of made-up scenes, with everything about them known exactly."""
