"""What `qrsc correct` does between its options and its summary."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from qrsc.cli.progress import progress_bar
from qrsc.media.atomic import atomic_folder
from qrsc.media.frames import StoredFrame, list_frames, read_frames, write_frame
from qrsc.pipeline import Corrector
from qrsc.timing import Instant, Readout, Scan


def choose_readout(
    *, gamma: float | None, readout_ms: float | None, fps: float | None, percent: float | None, scan: Scan
) -> Readout:
    """The readout from the one option that gives it."""
    options = {"--gamma": gamma, "--percent": percent, "--readout": readout_ms}
    given = {name: value for name, value in options.items() if value is not None}
    if len(given) != 1:
        raise ValueError(
            f"give the readout exactly once, as --gamma, --percent, or --readout with --fps; "
            f"got {' and '.join(given) or 'none of them'}."
        )
    [(name, value)] = given.items()
    if (name == "--readout") != (fps is not None):
        raise ValueError("--readout (in milliseconds) and --fps go together: each needs the other.")
    if fps is not None:
        return Readout.from_milliseconds(value, fps, scan)
    return Readout.from_ratio(value, scan) if name == "--gamma" else Readout.from_percent(value, scan)


def choose_tau(readout: Readout, tau: float | None, at: Instant | None) -> float | None:
    """The target time from `--tau` or `--at`; None is the middle row."""
    if tau is not None and at is not None:
        raise ValueError("give the target instant once: --tau (a time) or --at (a row).")
    return readout.instant(at) if at is not None else tau


def choose_device(name: str) -> torch.device:
    """The device by name; `auto` takes the accelerator that torch sees, or the processor."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device(next(device for device, present in available.items() if present))
    if name not in available:
        raise ValueError(f"unknown device {name!r}; choose one of auto, {', '.join(available)}.")
    if not available[name]:
        raise ValueError(f"torch sees no {name} device here; use --device auto or --device cpu.")
    return torch.device(name)


def correct_folder(
    source: Path,
    output: Path,
    corrector: Corrector,
    *,
    device: torch.device,
    overwrite: bool = False,
    quiet: bool = False,
) -> str:
    """Corrects the frames of one folder into another and returns a line that sums it up."""
    _require_folder(source)
    _require_apart(source, output)
    paths = list_frames(source)
    started = time.perf_counter()
    magnitudes: list[tuple[float, float]] = []  # mean and largest correction of each frame, in pixels
    with atomic_folder(output, overwrite=overwrite) as work, progress_bar(quiet) as progress:
        task = progress.add_task("correcting", total=len(paths))
        for stored, frame, correction_field in _corrected(paths, corrector, device):
            write_frame(work / stored.path.name, frame, like=stored)
            length = correction_field.norm(dim=0)  # [H, W]
            magnitudes.append((length.mean().item(), length.max().item()))
            progress.advance(task)
    seconds = (time.perf_counter() - started) / len(paths)
    mean = sum(mean for mean, _ in magnitudes) / len(magnitudes)
    largest = max(largest for _, largest in magnitudes)
    return (
        f"{len(paths)} frame{'s' * (len(paths) > 1)} corrected into {output}: {mean:.2f} px on average, "
        f"{largest:.2f} px at most, {seconds:.2f} s per frame"
    )


def _corrected(
    paths: list[Path], corrector: Corrector, device: torch.device
) -> Iterator[tuple[StoredFrame, Tensor, Tensor]]:
    """Each stored frame with its corrected one `[3, H, W]` and its correction field `[2, H, W]`."""
    waiting: deque[StoredFrame] = deque()

    def frames() -> Iterator[Tensor]:
        for stored in read_frames(paths, device=device):
            waiting.append(stored)
            yield stored.frame

    for corrected in corrector.stream(frames()):
        yield waiting.popleft(), corrected.frame, corrected.correction_field


def _require_folder(source: Path) -> None:
    if source.is_file():
        raise ValueError(
            f"{source} is a file; folders of images are what is taken for now. Extract the frames of a video first, "
            f"for instance with: ffmpeg -i {source.name} frames/%05d.png"
        )


def _require_apart(source: Path, output: Path) -> None:
    inside, outside = source.resolve(), output.resolve()
    if inside == outside:
        raise ValueError(f"the output folder is the input folder {source}; the originals are never touched.")
    if inside in outside.parents or outside in inside.parents:
        raise ValueError(
            f"one of {source} and {output} lies inside the other; choose an output folder beside the input."
        )
