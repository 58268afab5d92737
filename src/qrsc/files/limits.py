"""The largest files and pictures that are read. A file beyond them is damaged or hostile, or needs another program."""

from __future__ import annotations

MOST_PIXELS = 1 << 27  # of a picture: 134 million; 16K video, 15360x8640, has 133 million
MOST_PICTURE_BYTES = 8 * MOST_PIXELS + (1 << 20)  # a file of 16-bit RGBA without compression, and its metadata
MOST_ARRAY_BYTES = 16 * MOST_PIXELS  # of an array that is read at once: two float64 channels of the largest picture
MOST_TEXT_BYTES = 16 << 20  # JSON, TOML and lists
MOST_WEIGHTS_BYTES = 1 << 30  # the largest weights of the package have 15 MB
DEEPEST_NESTING = 64  # of tables and lists in JSON and TOML; manifests need 4
