"""Correct many clips: what `qrsc batch` does."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from qrsc.backend.progress import CancelToken
from qrsc.farm.executor import Executor
from qrsc.farm.inputs import find_clips
from qrsc.farm.manifest import Manifest
from qrsc.farm.processes import ProcessPool
from qrsc.farm.report import REPORTS, write_reports
from qrsc.farm.resources import divide_machine
from qrsc.farm.run import Batch, BatchProgress, BatchResult
from qrsc.farm.settings import SEGMENT, Settings
from qrsc.farm.storage import below, fetch, is_remote, put, state_of
from qrsc.video.correction_options import CorrectionOptions

MANIFEST = "manifest.jsonl"


def batch(
    inputs: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    workers: int | None = None,
    threads: int | None = None,
    segment: int = SEGMENT,
    ray: str | bool = False,
    retry_failed: bool = False,
    overwrite: bool = False,
    progress: Callable[[BatchProgress], None] | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] | None = None,
    **options: Any,
) -> Iterator[BatchResult]:
    """Correct many clips, and long ones in segments: what `qrsc batch` does, with the same options and defaults.

    Work begins when the first result is asked for. Each result comes once its output is complete and the manifest in
    the output folder says so; a second call does only what is missing.

    Args:
        inputs: videos, folders, patterns (`"tapes/**/*.mp4"`) and lists (`.txt`), on this machine or remote
            (`s3://...`). The tree below a folder is kept.
        output: a folder, on this machine or remote, for the outputs, the manifest and the reports.
        workers: processes, or actors on a cluster; None for as many as there is room for.
        threads: of each; None shares the cores between them.
        segment: frames of a segment of a long clip; 0 corrects every clip in one piece.
        ray: True for a Ray cluster that runs on this machine or is named in `RAY_ADDRESS`, or its address. Without it,
            processes on this machine do the work.
        retry_failed: try clips again that failed in an earlier run.
        overwrite: replace files in the output folder that no batch wrote.
        progress: called now and then with a `BatchProgress`.
        cancel: once it is set the iterator raises `Cancelled`; what is done stays done.
        on_note: called at once with what a user should know.
        **options: of the correction, as for `qrsc.correct_video`, apart from files and parts of a clip.

    Yields:
        What became of each clip, as they are finished.

    Raises:
        ValueError, OSError: inputs or options cannot be used; the message says what to do. A clip that fails raises
            nothing: its result says why.
        Cancelled: `cancel` was set.
    """
    settings = Settings(_checked(options), segment)
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    folder = str(output).rstrip("/") or "/"
    clips = find_clips(given, folder)

    def results() -> Iterator[BatchResult]:
        books = _books(folder)
        with Manifest(books / MANIFEST) as manifest:
            executor: Executor = _executor(ray, workers, threads, settings, len(clips))
            run = Batch(
                clips, folder, settings, executor, manifest, retry_failed, overwrite, progress, cancel,
                on_note or (lambda _: None), lambda _: _publish(books, folder, MANIFEST),
            )  # fmt: skip
            try:
                yield from run.results()
            finally:
                executor.close()
                write_reports(manifest.path, clips, books)
                _publish(books, folder, MANIFEST, *REPORTS)

    return results()


def _checked(options: dict[str, Any]) -> CorrectionOptions:
    known = CorrectionOptions.__dataclass_fields__
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"unknown option {unknown[0]!r}; a batch takes {', '.join(known)}.")
    return CorrectionOptions(**options)


def _executor(ray: str | bool, workers: int | None, threads: int | None, settings: Settings, clips: int) -> Executor:
    if ray:
        from qrsc.farm.ray_cluster import RayCluster

        return RayCluster(None if ray is True else ray, workers, threads, settings.options.device)
    shares = divide_machine(workers, threads, settings.options.device)
    if not settings.segment:
        shares = shares[:clips]  # more would have nothing to do
    return ProcessPool(shares)


def _books(folder: str) -> Path:
    """Where the manifest is written: in the output folder, or, for a remote one, in a folder of the user's cache."""
    if not is_remote(folder):
        return Path(folder)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    books = home / "qrsc" / "batch" / hashlib.sha256(folder.encode()).hexdigest()[:16]
    remote = below(folder, MANIFEST)
    if not (books / MANIFEST).exists() and state_of(remote) is not None:  # begun on another machine
        books.mkdir(parents=True, exist_ok=True)
        fetch(remote, books / "fetched").rename(books / MANIFEST)
    return books


def _publish(books: Path, folder: str, *names: str) -> None:
    """Copy files to a remote output folder."""
    if not is_remote(folder):
        return
    for name in names:
        copy = books / f".{name}.copy"
        copy.write_bytes((books / name).read_bytes())
        put(copy, below(folder, name))
