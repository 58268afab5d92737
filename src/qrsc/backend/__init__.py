"""The machine: OpenCV on a CPU, CUDA graphs, threads, background work, memory, and reasons of fallbacks."""
