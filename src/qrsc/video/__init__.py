"""Video file in, video file out: what the commands do, as a library."""
