"""Checked reading of files that are no video: sizes are compared with limits before anything is allocated.

`limits` has the limits, `documents` reads text, JSON and TOML, `arrays` reads `.npy` and `.npz` files and raw arrays. A
file that cannot be read raises a `ValueError` that names it. Pictures are checked in `qrsc.media.image_header`.
"""
