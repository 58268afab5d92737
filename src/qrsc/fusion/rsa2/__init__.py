"""RSA^2-Net, the paper's fusion network: encoders, decoder and heads in `network`; fast convolutions and attention."""
