"""The `qrsc` command: it parses, calls the library and prints."""

from __future__ import annotations

import os

try:
    from qrsc.cli.signals import end_on_signals
except KeyboardInterrupt:  # while Python's own `signal` is imported, before the handler is there
    os._exit(130)


def main() -> None:
    """Run the command line with the arguments of the process."""
    end_on_signals()
    # Torch's threads wait for each other by spinning. On a machine with other work to do that costs the very cores
    # they wait for: a frame that renders in 1.2 s took 11 s beside two other processes on two cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from qrsc.cli.app import app

    app(prog_name="qrsc")
