"""The `qrsc` command: it parses, calls the library and prints."""

from __future__ import annotations


def main() -> None:
    """Runs the command line with the arguments of the process."""
    from qrsc.cli.app import app
    from qrsc.cli.errors import unwind_on_termination

    unwind_on_termination()
    app(prog_name="qrsc")
