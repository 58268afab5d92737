"""`python -m qrsc` is the command `qrsc`."""

from qrsc.cli import main

main()
