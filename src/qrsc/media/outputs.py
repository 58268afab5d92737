"""What may be written where: one rule for every output of every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


def require_writable(
    outputs: Mapping[str, Path | None],
    *,
    inputs: Iterable[Path] = (),
    overwrite: bool = False,
    how: str = "--overwrite",
) -> None:
    """Refuse outputs that would destroy an input, another output, or a file that may not be replaced.

    Args:
        outputs: files or folders to write, by the name of their option; None if not asked for.
        inputs: files and folders that are read, and never touched.
        overwrite: existing files may be replaced. Existing folders are checked when they are filled, see
            `qrsc.media.atomic`.
        how: the option that allows it, for the message.

    Raises:
        ValueError: an output is an input, lies in an input folder or holds one, or two outputs are the same.
        FileExistsError: a file is there, and `overwrite` was not given.
    """
    asked = {name: path for name, path in outputs.items() if path is not None}
    for name, path in asked.items():
        for source in inputs:
            _require_apart(name, path, source)
        if path.is_file() and not overwrite:
            raise FileExistsError(f"{path} exists. Choose another name, or add {how} to replace it.")
    named = list(asked.items())
    for index, (name, path) in enumerate(named):
        for other, earlier in named[:index]:
            if _same(path, earlier):
                raise ValueError(f"{other} and {name} are both {path}; give each output a name of its own.")


def _require_apart(name: str, path: Path, source: Path) -> None:
    if _same(path, source):
        raise ValueError(f"{name} is the input {source}; the original is never touched.")
    inside, outside = source.resolve(), path.resolve()
    if source.is_dir() and (inside in outside.parents or outside in inside.parents):
        raise ValueError(f"one of {source} and {path} lies inside the other; choose an output beside the input.")


def _same(first: Path, second: Path) -> bool:
    """Whether two names mean one file or folder, through links as well."""
    if first.resolve() == second.resolve():
        return True
    return first.exists() and second.exists() and first.samefile(second)
