"""How close a picture, a field or a clip is to the truth."""
