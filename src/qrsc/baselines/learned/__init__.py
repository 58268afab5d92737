"""The networks among the baselines, in plain PyTorch: no compiled extensions, frames of any size."""
