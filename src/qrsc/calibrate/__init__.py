"""Self-calibration of the readout: one camera motion fitted to the flow of a whole clip, with gamma as an unknown."""
