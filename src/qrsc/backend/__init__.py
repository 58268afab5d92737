"""What the machine offers: OpenCV, CUDA graphs, threads and memory, each behind a few functions."""
