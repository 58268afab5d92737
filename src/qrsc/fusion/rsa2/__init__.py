"""The paper's fusion network, RSA^2-Net."""
