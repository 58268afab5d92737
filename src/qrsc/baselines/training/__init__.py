"""Training of the baselines: the same samples, crops, steps and trainer for all, each with its own loss."""
