"""Training of the networks: one trainer and one sample pool, used by `learn.flow` and `learn.fusion`."""
