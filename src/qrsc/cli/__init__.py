"""The `qrsc` command: it parses, calls the library and prints."""

from __future__ import annotations

import os


def main() -> None:
    """Runs the command line with the arguments of the process."""
    # Torch's threads wait for each other by spinning. On a machine with other work to do that costs the very cores
    # they wait for: a frame that renders in 1.2 s took 11 s beside two other processes on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from qrsc.cli.app import app
    from qrsc.cli.errors import unwind_on_termination

    unwind_on_termination()
    app(prog_name="qrsc")
