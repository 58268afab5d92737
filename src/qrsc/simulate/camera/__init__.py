"""Camera motion, and the effects of lens, sensor and compression."""
