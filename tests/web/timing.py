"""Seconds from drop to preview, and until its readout has been tested: `python -m tests.web.timing CLIP [TURNS]`.

Run it on a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from .conftest import browsing
from .serving import serving

WARM = 10_000  # milliseconds for the worker to start
PATIENCE = 600_000


def processor_seconds(server: int) -> int:
    """What the workers of a server have used."""
    listed = subprocess.run(["ps", "-o", "cputimes=", "--ppid", str(server)], capture_output=True, text=True).stdout
    return sum(map(int, listed.split()))


def main() -> None:
    """Measure, and print a line for each turn."""
    clip, turns = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    threads = str(os.cpu_count() or 1)
    with ExitStack() as stack:
        browser = stack.enter_context(browsing())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(serving(folder, threads=threads))
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(server.address)
        page.wait_for_timeout(WARM)
        for _ in range(turns):
            started, used = time.monotonic(), processor_seconds(server.process.pid)
            page.set_input_files("#choose", clip)
            page.locator("#status-line", has_text="Ready").wait_for()
            first = time.monotonic() - started
            page.click("#preview")
            page.locator("#status-line", has_text="This is the preview").wait_for()
            page.wait_for_function("() => document.getElementById('after').readyState >= 2")
            seconds = time.monotonic() - started
            shown = processor_seconds(server.process.pid) - used
            page.wait_for_function("() => !document.getElementById('status-detail').textContent")
            tested, used = time.monotonic() - started, processor_seconds(server.process.pid) - used
            sys.stdout.write(f"first frame {first:.1f} s, preview {seconds:.1f} s, processor {shown} s, ")
            sys.stdout.write(f"tested {tested:.1f} s, processor {used} s, ")
            sys.stdout.write(f"load {os.getloadavg()[0]:.1f}\n")
            page.click(".clip-remove")
            page.locator(".steps h1").wait_for()


if __name__ == "__main__":
    main()
