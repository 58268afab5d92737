"""Training of the fusion networks."""
