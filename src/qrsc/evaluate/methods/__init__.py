"""What can be scored, by name."""
