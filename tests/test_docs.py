"""The documentation keeps its word: snippets run, command lines parse, lists match what they list."""

from __future__ import annotations

import functools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

import qrsc
from qrsc.cli.app import app
from qrsc.media.mp4 import write_video

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
MANUAL = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LAB_BOOK = sorted((ROOT / "docs" / "lab").glob("*.md"))
PAGES = [*MANUAL, *LAB_BOOK]
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.fixture
def clip_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a snippet, with a small `clip.mp4`: a texture that moves to the right, ever faster."""
    texture = torch.rand(3, 6, 12, generator=torch.Generator().manual_seed(0))
    wide = torch.nn.functional.interpolate(texture[None], size=(48, 96), mode="bicubic")[0].clamp(0, 1)
    write_video(tmp_path / "clip.mp4", [wide[:, :, k * k // 2 :][:, :, :64] for k in range(6)], fps=30)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_snippets_run(page: Path, clip_folder: Path) -> None:
    text = text_of(page)
    names: dict[str, object] = {}
    for block in PYTHON_BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1))
        # Blank lines first, so that a traceback shows the line of the page.
        exec(compile("\n" * line + block.group(1), str(page), "exec"), names)
    # A snippet cancels the work on other.mp4, which leaves nothing behind.
    assert {path.name for path in clip_folder.iterdir()} <= {"clip.mp4", "straight.mp4"}


def test_the_conventions_page_has_snippets() -> None:
    assert len(PYTHON_BLOCK.findall(text_of(ROOT / "docs" / "conventions.md"))) >= 4


def test_the_readme_has_a_snippet_and_commands() -> None:
    text = text_of(ROOT / "README.md")
    assert PYTHON_BLOCK.search(text)
    assert len(list(shown_commands(text))) >= 3


# --- command lines ---


def shown_commands(text: str) -> Iterator[list[str]]:
    """The words after `qrsc` of every command line in a shell block."""
    for block in SHELL_BLOCK.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["qrsc"]:
                yield words[1:]


@functools.cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def found_command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, groups followed, and the words that are left for it."""
    command = whole_command()
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name!r} in: qrsc {' '.join(words)}"
        command = command.commands[name]
    return command, rest


def options_of(command: Any) -> set[str]:
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return {name for name in own if name.startswith("-")} | {"--help"}


def all_options(command: Any) -> set[str]:
    return options_of(command).union(*(all_options(each) for each in getattr(command, "commands", {}).values()))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_command_lines_parse(page: Path) -> None:
    for words in shown_commands(text_of(page)):
        command, rest = found_command(words)
        try:  # options, arguments, choices and ranges; nothing runs
            command.make_context("qrsc", rest)
        except Exception as error:
            pytest.fail(f"{page_name(page)}: qrsc {' '.join(words)}: {getattr(error, 'message', None) or error!r}")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_in_the_text_exist(page: Path) -> None:
    for code in INLINE_CODE.findall(text_of(page)):
        if code.startswith("qrsc "):
            command, rest = found_command(code.split()[1:])
            unknown = {word for word in rest if word.startswith("--")} - options_of(command)
            assert not unknown, f"`{code}` has no option {', '.join(unknown)}"


# The lab book also names options of benchmarks, and CONTRIBUTING those of other tools.
@pytest.mark.parametrize("page", [page for page in MANUAL if page.name != "CONTRIBUTING.md"], ids=page_name)
def test_options_in_the_text_exist(page: Path) -> None:
    known = all_options(whole_command())
    for code in INLINE_CODE.findall(text_of(page)):
        if code.startswith("--"):
            assert code.split()[0] in known, f"no command has the option {code!r}"


def test_a_wrong_command_line_is_found() -> None:
    command, rest = found_command(["correct", "clip.mp4", "-o", "out.mp4", "--no-such-option"])
    with pytest.raises(Exception, match="--no-such-option"):
        command.make_context("qrsc", rest)


# --- lists ---


def test_rooms_are_those_of_the_import_linter() -> None:
    settings = tomllib.loads(text_of(ROOT / "pyproject.toml"))
    [rooms] = [each for each in settings["tool"]["importlinter"]["contracts"] if each["id"] == "rooms"]
    layers = [room.strip() for layer in rooms["layers"] for room in layer.split("|")]
    section = text_of(ROOT / "CONTRIBUTING.md").split("## Rooms\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| \S", section, re.MULTILINE) == layers


def test_the_reference_has_every_public_name() -> None:
    section = text_of(ROOT / "docs" / "api.md").split("## qrsc\n")[1].split("\n## ")[0]
    assert set(re.findall(r"\.\. auto\w+:: (\w+)$", section, re.MULTILINE)) == set(qrsc.__all__) - {"__version__"}


@pytest.mark.parametrize("page", [page for page in LAB_BOOK if page.name != "index.md"], ids=page_name)
def test_entries_of_the_lab_book_have_date_and_commit(page: Path) -> None:
    for entry in text_of(page).split("\n## ")[1:]:
        assert re.search(r"\*20\d\d-\d\d-\d\d.*?commits? [0-9a-f]{7}\b", entry, re.DOTALL), entry.splitlines()[0]


def test_the_citation_has_the_version() -> None:
    assert f"\nversion: {qrsc.__version__}\n" in text_of(ROOT / "CITATION.cff")
