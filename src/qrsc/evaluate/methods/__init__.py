"""The methods that can be scored, by name, and the optical flow that they share."""
