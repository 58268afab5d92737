"""The page in a browser: a server on the user's own machine, around the functions of `video` and `calibrate`."""
