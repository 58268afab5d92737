"""`qrsc web`: a page for people who would rather not type commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qrsc.cli.errors import readable_errors

EXAMPLES = """Correct clips on a page in the browser.

\b
  qrsc web                             on this machine alone
  qrsc web --host 0.0.0.0 --port 8000  for others on the network, who need the token in the printed address

Clips stay on this machine, in a folder that is removed when the command ends (Ctrl-C).
"""


@readable_errors
def web(
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", show_default=False, help="Listen on this address, and ask for a token."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=65535, show_default=False, help="Port; 8421*, or a free one."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Where clips and results lie meanwhile."),
    ] = None,
    limit: Annotated[
        float, typer.Option(metavar="GB", show_default=False, help="Largest clip in gigabytes: 16*.")
    ] = 16.0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", show_default=False, help="Open the page: yes*.")
    ] = True,
) -> None:
    try:
        from qrsc.web.server import serve
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] in ("starlette", "uvicorn", "jinja2"):
            raise ValueError(f"the page needs {error.name}: pip install 'qrsc[web]'") from error
        raise
    serve(
        host=host,
        port=port,
        folder=folder,
        limit_gb=limit,
        browser=browser,
        say=lambda address: typer.echo(f"the page is at {address} (Ctrl-C ends it)"),
    )


web.__doc__ = EXAMPLES
