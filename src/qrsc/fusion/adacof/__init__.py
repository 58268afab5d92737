"""Adaptive collaboration of flows, the sampling operator of RSA^2-Net: `operator` for any device, Triton `kernels`."""
