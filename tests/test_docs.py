"""The Python snippets of the documentation run, in order, page by page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for block in PYTHON_BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # Blank lines first, so that a traceback shows the line of the page.
        exec(compile("\n" * line + block.group(1), str(page), "exec"), names)


def test_the_conventions_page_has_snippets() -> None:
    assert len(PYTHON_BLOCK.findall((ROOT / "docs" / "conventions.md").read_text(encoding="utf-8"))) >= 4
