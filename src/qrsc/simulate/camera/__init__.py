"""Camera motion, and what a camera adds to a picture."""
