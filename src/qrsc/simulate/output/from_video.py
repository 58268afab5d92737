"""Rolling-shutter frames from high-rate footage: each row is taken from the source frames at its time.

Convention
    Source frame `j` shows the scene at time `j fps / rate`, in frame intervals of the new clip. Row `y` of the
    rolling-shutter frame `k` is exposed at the time that `Readout` gives. It is taken from the source frame nearest to
    that time (`nearest`), or interpolated between the two around it (`linear`). The global-shutter frames at the first
    and the middle row are made in the same way. If the readout spans a whole and even number of source frames, their
    times fall on source frames, and they are copies of these.

    The motion between two source frames remains visible: where the source of the rows changes, an edge jumps by that
    motion (`nearest`) or is doubled (`linear`). A source is refused if it moves too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.layouts import Kind
from qrsc.flow.dis import DisFlow
from qrsc.media.image_folder import list_frames, read_frames
from qrsc.media.reader import read_video
from qrsc.names import Mixing as Mixing
from qrsc.simulate.output.writers import (
    OutputLayout,
    choose_layout_readout,
    require_outputs,
    sequence_folder,
    write_clip,
)
from qrsc.simulate.render.clip import ClipFrame
from qrsc.timing import Readout, Scan

MIXINGS: tuple[Mixing, ...] = get_args(Mixing)

# A jump of one pixel between two rows shows as a sawtooth on straight edges; half a pixel is hardly visible.
LARGEST_STEP = 1.0
# Motion is measured on the first pairs of source frames and then on every eighth. Within a pair, the quantile leaves
# out a few per cent of outliers.
MEASURED_FIRST = 16
MEASURED_EVERY = 8
QUANTILE = 0.95


class RateTooLowError(ValueError):
    """The source has too few frames per second for a rolling shutter without visible steps."""


@dataclass(frozen=True)
class Source:
    """High-rate frames that can be read more than once, without holding all of them in memory.

    Attributes:
        frames: returns a new iterator over all frames in order, each `[3, H, W]`, RGB in [0, 1].
        rate: frames per second at which it was recorded, which may differ from the playback rate of the file.
        name: for messages.
    """

    frames: Callable[[], Iterator[Tensor]]
    rate: float
    name: str

    def __post_init__(self) -> None:
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(
                f"the rate of {self.name} must be a positive number of frames per second, got {self.rate}."
            )


@dataclass(frozen=True)
class Steps:
    """How finely a source samples a readout.

    Attributes:
        per_readout: source frames within one readout.
        pixels: motion from one source frame to the next: the size of the steps between rows.
    """

    per_readout: float
    pixels: float


def open_source(source: Path | Tensor, rate: float) -> Source:
    """Open a folder of images, a video, or a tensor `[N, 3, H, W]`, recorded at `rate` frames per second."""
    if isinstance(source, Tensor):
        if source.ndim != 4 or source.shape[1] != 3:
            raise ValueError(f"source frames are [N, 3, H, W]; got a tensor of shape {tuple(source.shape)}.")
        return Source(lambda: iter(source), rate, "the given frames")
    if source.is_dir():
        paths = list_frames(source)
        return Source(lambda: (stored.frame for stored in read_frames(paths)), rate, str(source))
    if not source.exists():
        raise FileNotFoundError(f"there is no file or folder {source}.")
    return Source(lambda: read_video(source), rate, str(source))


def measure_steps(source: Source, fps: float, readout: Readout) -> Steps:
    """Measure the steps between rows that a source would cause, from the optical flow of some of its pairs.

    The motion of a pair is the 95th percentile of its flow lengths; the largest of all pairs counts.
    """
    search = DisFlow("fast")
    previous: Tensor | None = None
    longest = 0.0
    for number, frame in enumerate(source.frames()):
        if previous is not None and (number <= MEASURED_FIRST or number % MEASURED_EVERY == 0):
            flow = search(previous[None], frame[None]).forward[0]
            length = torch.hypot(flow[0], flow[1]).flatten()
            longest = max(longest, float(length.kthvalue(math.ceil(QUANTILE * length.numel())).values))
        previous = frame
    return Steps(readout.gamma * source.rate / fps, longest)


def require_fine_steps(source: Source, fps: float, readout: Readout, largest: float = LARGEST_STEP) -> Steps:
    """Measure the steps and refuse a source whose steps would be longer than `largest` pixels.

    Raises:
        RateTooLowError: the message states the size of the artefact and a sufficient rate.
    """
    if not largest > 0:
        raise ValueError(f"the largest step must be over 0 pixels, got {largest!r}.")
    steps = measure_steps(source, fps, readout)
    if readout.gamma > 0 and steps.pixels > largest:
        wanted = source.rate * steps.pixels / largest
        raise RateTooLowError(
            f"{source.name} has {source.rate:g} frames per second, so that only {steps.per_readout:.3g} of them fall "
            f"into a readout of gamma = {readout.gamma:g} at {fps:g} fps. Its image moves by {steps.pixels:.3g} px "
            f"from one to the next: rows would jump by that much, but at most {largest:g} px is allowed. About "
            f"{math.ceil(wanted)} frames per second would be enough; or allow larger steps, or scale the frames down."
        )
    return steps


def rolling_from_video(
    source: Source,
    fps: float,
    readout: Readout,
    *,
    mixing: Mixing = "linear",
    largest_step: float | None = LARGEST_STEP,
    most: int | None = None,
) -> Iterator[ClipFrame]:
    """Generate rolling-shutter frames with ground truth at the first and the middle row.

    Args:
        source: from `open_source`.
        fps: frame rate of the clip, at most that of the source.
        readout: of the clip.
        mixing: `nearest` or `linear`.
        largest_step: refuse a source whose image moves by more pixels between two frames; no limit if None.
        most: stop after this many frames; the clip is as long as the source allows if None.

    Raises:
        RateTooLowError: see `require_fine_steps`; raised before the first frame.
        ValueError: the source ends before the first frame is complete.
    """
    _require_possible(source, fps, mixing)
    if largest_step is not None:
        require_fine_steps(source, fps, readout, largest_step)
    return _assemble(source, source.rate / fps, readout, mixing, most)


def simulate_footage(
    source: Path,
    output: Path,
    rate: float,
    *,
    fps: float = 30.0,
    layout: OutputLayout = "sim",
    gamma: float | None = None,
    scan: Scan = "top-down",
    frames: int | None = None,
    mixing: Mixing = "linear",
    largest_step: float | None = LARGEST_STEP,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> int:
    """Write rolling-shutter frames made from high-rate footage as one sequence.

    Args:
        source: a video or a folder of images.
        output: folder for a data set of one sequence.
        rate: frames per second at which the footage was recorded.
        fps: frame rate of the clip, at most `rate`.
        layout: how the clip is stored.
        gamma: readout ratio; that of the layout, or 0.8, if None.
        scan: order in which rows are read.
        frames: length of the clip; as long as the source allows if None.
        mixing: `nearest` or `linear`.
        largest_step: see `rolling_from_video`.
        overwrite: replace a sequence of the same name.
        progress: called for every frame of the footage while its motion is measured, then for every frame of the clip.
        cancel: stops the work within one frame; nothing is left behind.

    Returns:
        How many frames were written.

    Raises:
        RateTooLowError: see `require_fine_steps`; nothing has been written.
    """
    readout = choose_layout_readout(layout, gamma, scan)
    require_outputs(output, inputs=[source], overwrite=overwrite)
    opened = open_source(source, rate)
    _require_possible(opened, fps, mixing)
    if largest_step is not None:
        measuring = Stage("measuring motion", None, progress, cancel)
        require_fine_steps(_counted(opened, measuring), fps, readout, largest_step)
    made = rolling_from_video(opened, fps, readout, mixing=mixing, largest_step=None, most=frames)
    return write_clip(
        output / sequence_folder(layout, 0, 1),
        layout,
        made,
        readout,
        fps=fps,
        notes={"source": source.name, "rate": rate, "fps": fps, "mixing": mixing},
        force=overwrite,
        stage=Stage("assembling", frames, progress, cancel),
    )


def _counted(source: Source, stage: Stage) -> Source:
    """The same source, whose frames advance a stage."""

    def frames() -> Iterator[Tensor]:
        for frame in source.frames():
            yield frame
            stage.advance()

    return replace(source, frames=frames)


def _require_possible(source: Source, fps: float, mixing: str) -> None:
    if not (math.isfinite(fps) and 0 < fps <= source.rate):
        raise ValueError(
            f"the frame rate of the clip must be over 0 and at most that of its source, {source.rate:g}; got {fps:g}."
        )
    if mixing not in MIXINGS:
        raise ValueError(f"unknown mixing {mixing!r}; choose one of {', '.join(MIXINGS)}.")


def _assemble(source: Source, ratio: float, readout: Readout, mixing: Mixing, most: int | None) -> Iterator[ClipFrame]:
    """Add each source frame to the rows it contributes to, and yield a frame when all its rows are complete.

    Only frames in progress are in memory: one, or two where a source frame contributes to the end of one readout and
    the start of the next.
    """
    open_frames: dict[int, dict[Kind, Tensor]] = {}
    wanted: dict[
        Kind, Tensor
    ] = {}  # by kind, positions among the source frames, seen from frame 0: [1, H or 1, W or 1]
    done, count = 0, 0
    for count, frame in enumerate(source.frames(), start=1):
        position = count - 1
        if not wanted:
            wanted = _wanted(readout, ratio, frame)
        first = min(float(times.min()) for times in wanted.values())
        last = max(float(times.max()) for times in wanted.values())
        number = max(done, math.ceil((position - 1 - last) / ratio))
        while number * ratio + first < position + 1:
            pictures = open_frames.setdefault(number, {kind: torch.zeros_like(frame) for kind in wanted})
            for kind, times in wanted.items():
                pictures[kind].addcmul_(frame, _weight(times + number * ratio, position, mixing))
            number += 1
        # A position that equals a source frame up to rounding does not need the next one.
        while done in open_frames and done * ratio + last <= position + 1e-6:
            yield ClipFrame(done, open_frames.pop(done))
            done += 1
            if most is not None and done >= most:
                return
    if done == 0:
        needed = math.ceil(max((float(times.max()) for times in wanted.values()), default=0.0)) + 1
        raise ValueError(f"{source.name} has {count} frames; the first rolling-shutter frame alone needs {needed}.")


def _wanted(readout: Readout, ratio: float, frame: Tensor) -> dict[Kind, Tensor]:
    height, width = frame.shape[-2:]
    rows = readout.row_times(height, width, dtype=torch.float64, device=frame.device)
    return {
        "rolling": ratio * rows,
        "first": torch.full_like(rows, ratio * readout.instant("first")),
        "middle": torch.full_like(rows, ratio * readout.instant("middle")),
    }


def _weight(wanted: Tensor, position: int, mixing: Mixing) -> Tensor:
    """Weight of the source frame at `position` in the rows at the wanted positions."""
    distance = wanted - position
    if mixing == "nearest":
        return ((distance >= -0.5) & (distance < 0.5)).float()
    share = (1.0 - distance.abs()).clamp_min(0.0)
    # A position that equals a source frame up to rounding copies that frame exactly.
    return torch.where(share > 1.0 - 1e-6, 1.0, torch.where(share < 1e-6, 0.0, share)).float()
