"""The flow network that comes with the package."""
