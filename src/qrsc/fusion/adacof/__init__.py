"""Adaptive collaboration of flows: the sampling operator of RSA^2-Net."""
