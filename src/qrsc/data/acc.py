"""ACC: the frames of BS-RSC's test set whose motion is not uniform, selected by a rule and stored as a list.

The rule: a frame is selected if it has both neighbours and ground truth, and if its mean |acceleration| is at least
`THRESHOLD`. The acceleration comes from the quadratic solver (OpenCV's DIS flow, medium; no regularisation). The mean
is taken over the pixels where both flows pass the forward-backward consistency check.

The threshold: with gamma = 0.425 the first row lies t = 0.21 frame intervals from the middle row's instant, and a
linear model from one neighbour is wrong there by a t (1 + t) / 2 = 0.13 a. At 4 pixels per frame squared that is half
a pixel, which is where the order of the model starts to be visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.layouts import FrameFiles, SequenceFiles, Split, given_readout, index_sequences
from qrsc.files.documents import read_text, shortened
from qrsc.flow import FlowEstimator, FlowPair, load_flow
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import read_frame
from qrsc.media.outputs import require_writable
from qrsc.motion.consistency import consistency_confidence
from qrsc.motion.trajectory import solve_trajectory
from qrsc.timing import Readout

VERSION = 1  # of the rule; stated in each list
THRESHOLD = 4.0  # pixels per frame squared
TRUSTED = 0.5  # least confidence that both flows of a pixel must have to count
FLOW = "dis"

# Names of files have at most 255 characters.
_LINE = re.compile(r"(?P<scene>\S.*)/(?P<frame>\d{1,250})")


@dataclass(frozen=True)
class Acceleration:
    """The mean |acceleration| of one frame, in pixels per frame interval squared."""

    sequence: str
    number: int
    mean: float


@torch.no_grad()
def mean_acceleration(before: FlowPair, after: FlowPair, readout: Readout) -> float:
    """Mean |acceleration| over the trusted pixels of a frame, in pixels per frame interval squared.

    Args:
        before: flows `[1, 2, H, W]` between the previous frame and this one.
        after: flows between this frame and the next one.
        readout: of the frames.

    Returns:
        NaN if no pixel can be trusted.
    """
    flow_prev, flow_next = before.backward, after.forward
    trajectory = solve_trajectory(flow_prev, flow_next, readout)
    if trajectory.acceleration is None:
        raise ValueError("an acceleration needs the flows to both neighbours.")
    trusted = trajectory.valid
    trusted = trusted & (consistency_confidence(flow_prev, before.forward) > TRUSTED)
    trusted = trusted & (consistency_confidence(flow_next, after.backward) > TRUSTED)
    lengths = trajectory.acceleration.norm(dim=1, keepdim=True)
    return float(lengths[trusted].mean())


def measure_accelerations(
    sequences: Sequence[SequenceFiles],
    *,
    flow: FlowEstimator | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Iterator[Acceleration]:
    """Measure every frame that has both neighbours and ground truth at the middle row.

    Args:
        sequences: of BS-RSC.
        flow: optical flow estimator; that of the rule if None.
        advance: called once for each frame of the sequences.
    """
    estimate = load_flow(FLOW) if flow is None else flow
    for sequence in sequences:
        pairs: dict[int, FlowPair] = {}  # by the number of the pair's second frame
        previous: FrameFiles | None = None
        frame: Tensor | None = None
        for files in sequence.frames:
            before, frame = frame, read_frame(files.files["rolling"]).frame.unsqueeze(0)
            if previous is not None and before is not None and files.number == previous.number + 1:
                pairs[files.number] = estimate(before, frame)
                before_it = pairs.pop(previous.number, None)
                if before_it is not None and "middle" in previous.files:
                    mean = mean_acceleration(before_it, pairs[files.number], sequence.readout)
                    yield Acceleration(sequence.name, previous.number, mean)
            previous = files
            advance()


@dataclass(frozen=True)
class AccList:
    """A list of ACC that was written.

    Attributes:
        chosen: number of frames in the list.
        measured: number of frames that the rule was applied to.
        largest: the frame with the largest acceleration.
    """

    chosen: int
    measured: int
    largest: Acceleration


def choose_acc(
    root: Path,
    output: Path,
    *,
    split: Split | None = None,
    gamma: float | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> AccList:
    """Apply the rule to BS-RSC and write the list of frames.

    Args:
        root: BS-RSC, or its test folder.
        output: file for the list.
        split: only this one; all that are there if None.
        gamma: readout ratio; the data set's own if None.
        overwrite: replace a file of that name.
        progress: called for every frame.
        cancel: stops the work within one frame; no list is written.

    Raises:
        ValueError: no frame has both neighbours and a truth, or `output` is a file of the data set.
        FileExistsError: `output` exists, and `overwrite` was not given.
    """
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder; the name of a file for the list was expected.")
    sequences = index_sequences(root, "bsrsc", split=split, readout=given_readout(gamma, None))
    frames = [frame for sequence in sequences for frame in sequence.frames]
    inputs = [path for frame in frames for path in frame.files.values()]
    require_writable({"--write": output}, inputs=inputs, overwrite=overwrite)
    stage = Stage("measuring", len(frames), progress, cancel)
    accelerations = list(measure_accelerations(sequences, advance=stage.advance))
    if not accelerations:
        raise ValueError(
            f"no frame below {root} has both neighbours and a truth, so no acceleration can be measured. A sequence "
            f"needs at least three frames; found {', '.join(sequence.name for sequence in sequences[:5])}."
        )
    chosen = write_list(output, accelerations, sequences[0].readout.gamma)
    return AccList(chosen, len(accelerations), max(accelerations, key=lambda each: each.mean))


def write_list(path: Path, accelerations: Sequence[Acceleration], gamma: float) -> int:
    """Write the names of the frames that the rule selects, as `scene/number`; return how many there are."""
    chosen = [each for each in accelerations if each.mean >= THRESHOLD]
    lines = [
        f"# ACC, rule {VERSION}: mean |acceleration| >= {THRESHOLD:g} px/frame^2",
        f"# quadratic solver, {FLOW} flow, gamma {gamma:g}, pixels with both confidences over {TRUSTED:g}",
        f"# {len(chosen)} of {len(accelerations)} frames that have both neighbours and a truth",
        *(f"{each.sequence}/{each.number:05d}" for each in chosen),
    ]
    with atomic_file(path) as work:
        work.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(chosen)


def read_list(path: Path) -> set[tuple[str, int]]:
    """Read the frames of a list as (scene, number)."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no list {path}; make one with: qrsc data acc ROOT --write {path.name}")
    chosen = set()
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        match = _LINE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"line {number} of {path} is {shortened(line)}; scene/frame, such as test/scene_a/00012, was expected."
            )
        chosen.add((match["scene"], int(match["frame"])))
    return chosen


def keep_listed(sequences: Sequence[SequenceFiles], chosen: set[tuple[str, int]], source: Path) -> list[SequenceFiles]:
    """Keep the sequences of which a list names frames; other frames lose their ground truth and stay as neighbours.

    Only the last folder of a scene's name is compared, so that a list made for a whole data set also works for its
    test folder alone.
    """
    wanted = {(scene.rpartition("/")[2], number) for scene, number in chosen}
    kept = []
    for sequence in sequences:
        scene = sequence.name.rpartition("/")[2]
        frames = tuple(
            files if (scene, files.number) in wanted else replace(files, files={"rolling": files.files["rolling"]})
            for files in sequence.frames
        )
        if any(len(files.files) > 1 for files in frames):
            kept.append(replace(sequence, frames=frames))
    if not kept:
        there = ", ".join(sequence.name for sequence in sequences[:5])
        raise ValueError(f"{source} names no frame that is here with ground truth; the sequences here are {there}.")
    return kept
