"""Training of the flow network."""
