"""What stands in a simulated world and how it moves."""
