"""Which clips there are to correct, and what each output is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from qrsc.farm.storage import Name, below, files_below, is_folder, is_remote, matching, state_of
from qrsc.files.documents import read_text
from qrsc.media.codecs import is_video_name
from qrsc.media.image_folder import SUFFIXES

# Videos that can be read, and are written in another format.
_READ_ONLY = (".mpg", ".mpeg", ".m2ts", ".wmv", ".flv", ".3gp", ".ogv", ".mxf", ".vob", ".m2v")
_WRITTEN_INSTEAD = ".mkv"  # which holds every codec
_LIST = ".txt"
_WILD = ("*", "?", "[")


@dataclass(frozen=True)
class Clip:
    """A clip to correct.

    Attributes:
        source, output: names of files; see `qrsc.farm.storage`.
        relative: the output's name below the folder of the batch.
    """

    source: Name
    output: Name
    relative: str

    @property
    def key(self) -> str:
        """A short name of it that stays the same."""
        return sha256(self.relative.encode()).hexdigest()[:16]


def find_clips(inputs: Iterable[str | Path], folder: Name) -> list[Clip]:
    """The clips of files, folders, patterns and lists of these (`.txt`, one a line); the tree below a folder is kept.

    Raises:
        FileNotFoundError: an input is not there, or a folder or pattern has no video.
        ValueError: two clips would get the same output, or an output would replace its input.
    """
    clips: dict[str, Clip] = {}
    for given in inputs:
        found = 0
        for source, relative in _named(str(given)):
            found += 1
            clip = Clip(source, below(folder, *relative.split("/")), relative)
            other = clips.get(relative)
            if other is not None and other.source != source:
                raise ValueError(
                    f"{other.source} and {source} would both become {clip.output}; correct them into two folders."
                )
            if clip.output == source or (not is_remote(source) and _same(source, clip.output)):
                raise ValueError(f"the output of {source} would be itself; choose another folder.")
            clips[relative] = clip
        if not found:
            pictures = any(Path(name).suffix.lower() in SUFFIXES for name in _files(str(given)))
            instead = "; a folder of images is one clip, for qrsc correct" if pictures else ""
            raise FileNotFoundError(f"there is no video in {given}{instead}.")
    if not clips:
        raise ValueError("no clip was given: name files, folders, patterns, or a list (.txt) of them.")
    return list(clips.values())


def _files(given: str) -> Iterator[str]:
    """Names of the files below a folder; none if it is something else."""
    if is_folder(given):
        yield from (relative for _, relative in files_below(given))


def _same(source: Name, output: Name) -> bool:
    return not is_remote(output) and Path(output).exists() and Path(source).samefile(output)


def _named(given: str) -> Iterator[tuple[Name, str]]:
    """Files with the names of their outputs below the folder, for one input."""
    if any(mark in given for mark in _WILD) and not (not is_remote(given) and Path(given).exists()):
        fixed = PurePosixPath(given.split(next(mark for mark in given if mark in _WILD))[0] + "x").parent
        for name in matching(given):
            if _is_video(name):
                yield name, _written(_relative(name, str(fixed)))
    elif is_folder(given):
        for name, relative in files_below(given):
            if _is_video(name):
                yield name, _written(relative)
    elif given.lower().endswith(_LIST) and not is_remote(given):
        path = Path(given)
        for number, line in enumerate(read_text(path).splitlines(), 1):
            listed = line.strip()
            if not listed or listed.startswith("#"):
                continue
            try:
                yield from _named(listed if is_remote(listed) else str(path.parent / listed))
            except FileNotFoundError as error:
                raise FileNotFoundError(f"line {number} of {path}: {error}") from error
    elif state_of(given) is None:
        raise FileNotFoundError(f"there is no file or folder {given}.")
    else:
        yield given, _written(PurePosixPath(Path(given).as_posix()).name)


def _relative(name: Name, fixed: str) -> str:
    path = PurePosixPath(Path(name).as_posix()) if not is_remote(name) else PurePosixPath(name)
    try:
        return str(path.relative_to(fixed))
    except ValueError:
        return path.name


def _is_video(name: Name) -> bool:
    path = PurePosixPath(name)
    return is_video_name(Path(path.name)) or path.suffix.lower() in _READ_ONLY


def _written(relative: str) -> str:
    """The name of an output: that of its input, in a format that can be written."""
    path = PurePosixPath(relative)
    return relative if is_video_name(Path(path.name)) else str(path.with_suffix(_WRITTEN_INSTEAD))
