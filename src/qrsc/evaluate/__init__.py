"""How close a corrected frame is to the truth."""
