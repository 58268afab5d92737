"""Flows that several methods share: each is computed once, or read from disk, however many methods ask for it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qrsc import __version__
from qrsc.data.dataset import LoadedFrame
from qrsc.files.arrays import npy_array
from qrsc.flow import ClipFlow, ConfidentFlows, FlowEstimator, FlowPair, find_flows, flow_fingerprint, load_flow
from qrsc.media.atomic import atomic_file
from qrsc.motion.fill import TrustedFlow, fill_uncertain_flow
from qrsc.pipeline.align import trusted_flows

TRUTH_FLOW = "truth"  # the name of the exact flows that a simulated sequence brings along

# From two consecutive frames to the flows between them, [1, 2, H, W] each.
PairFlow = Callable[[LoadedFrame, LoadedFrame], FlowPair]


@dataclass
class SharedFlow:
    """The flows of the clip that is being scored, for methods that go through its frames side by side.

    It is a `ClipFlow`: the Corrector asks for a pair by its number in the clip. Called with two frames alone, it looks
    for them among the frames of the clip. In both cases the frames are compared with those of the clip: a method that
    has changed them (denoised, resized) gets flows of its own, which are not kept.

    Each frame is announced before a method sees it, and taken back when all methods are done with it.

    Attributes:
        estimator: computes the flows of frames that are not the clip's.
        compute: computes those of frames that are; None is the estimator on their pixels.
        folder: keeps flows from run to run, as they were found and with their unsure parts filled, under the names of
            the files that they belong to; None keeps none. `shared_flow` names it after the weights.
        batch: how many pairs of frames are given to the estimator at a time, if as many frames have been announced.
    """

    estimator: FlowEstimator
    compute: PairFlow | None = None
    folder: Path | None = None
    batch: int = 1
    _announced: int = 0
    _frames: dict[int, LoadedFrame] = field(default_factory=dict)  # by position in the clip
    _pairs: dict[int, ConfidentFlows] = field(default_factory=dict)  # by the position of the first frame
    _filled: dict[int, tuple[TrustedFlow, TrustedFlow]] = field(default_factory=dict)

    def start_clip(self) -> None:
        """Forget the clip before; the next frame that is announced is number 0."""
        self._announced = 0
        for known in (self._frames, self._pairs, self._filled):
            known.clear()

    def announce(self, frame: LoadedFrame) -> None:
        """Add the next frame of the clip."""
        self._frames[self._announced] = frame
        self._announced += 1

    def take_back(self, frame: LoadedFrame) -> None:
        """Forget a frame and the flows from it to the next one."""
        for position in [position for position, known in self._frames.items() if known is frame]:
            del self._frames[position]
            self._pairs.pop(position, None)
            self._filled.pop(position, None)

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        """Flows of a pair of frames `[1, 3, H, W]`."""
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of a pair of frames `[1, 3, H, W]`, with the estimator's confidences."""
        return self._found(self._position(first, second), first, second)

    def pair(self, number: int, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of the clip's pair with a number, 0 for the first two frames; the frames are `[1, 3, H, W]`."""
        return self.confident_pair(number, first, second).flows

    def confident_pair(self, number: int, first: Tensor, second: Tensor) -> ConfidentFlows:
        """The same, with the estimator's confidences."""
        return self._found(number if self._is_pair(number, first, second) else None, first, second)

    def filled(self, first: Tensor, second: Tensor) -> tuple[TrustedFlow, TrustedFlow]:
        """Forward and backward flow of frames `[1, 3, H, W]` with confidences, their unsure parts filled from around.

        These are the flows as the Corrector solves for motion with.
        """
        position = self._position(first, second)
        if position is None:
            return _fill(self._found(None, first, second))
        if position not in self._filled:
            path = self._path(position, "-filled")
            if path is not None and path.is_file():
                loaded = _load(path, first)  # [2, 3, H, W]
                both = TrustedFlow(loaded[:1, :2], loaded[:1, 2:]), TrustedFlow(loaded[1:, :2], loaded[1:, 2:])
            else:
                both = _fill(self._found(position, first, second))
                _save(path, torch.cat([torch.cat(trusted, 1) for trusted in both]))
            self._filled[position] = both
        return self._filled[position]

    def _position(self, first: Tensor, second: Tensor) -> int | None:
        """The number of the clip's pair that two frames are; None if they are none of those in memory."""
        return next((position for position in self._frames if self._is_pair(position, first, second)), None)

    def _is_pair(self, number: int, first: Tensor, second: Tensor) -> bool:
        pairs = ((number, first), (number + 1, second))
        return all(place in self._frames and _same(self._frames[place].rolling, frame) for place, frame in pairs)

    def _found(self, position: int | None, first: Tensor, second: Tensor) -> ConfidentFlows:
        """The flows of the clip's pair at a position; without one, those of the frames themselves."""
        if position is None:
            return find_flows(self.estimator, first, second)
        if position not in self._pairs:
            self._fetch(position)
        return self._pairs[position]

    def _fetch(self, position: int) -> None:
        """Read the flows of a pair, or compute them together with those of the pairs after it."""
        stored = self._path(position)
        if stored is not None and stored.is_file():
            both = _load(stored, self._frames[position].rolling)  # [2, 2 or 3, H, W]
            confidences = (both[:1, 2:], both[1:, 2:]) if both.shape[1] == 3 else (None, None)
            self._pairs[position] = ConfidentFlows(FlowPair(both[:1, :2], both[1:, :2]), *confidences)
            return
        together = self._together(position)
        for place, found in zip(together, self._computed(together), strict=True):
            parts = [torch.cat(found.flows)]
            if found.forward_confidence is not None and found.backward_confidence is not None:
                parts.append(torch.cat([found.forward_confidence, found.backward_confidence]))
            _save(self._path(place), torch.cat(parts, 1))
            self._pairs[place] = found

    def _together(self, position: int) -> list[int]:
        """The pair, and the pairs that follow it as far as they are announced and have to be computed as well."""
        together = [position]
        while self.compute is None and len(together) < self.batch:
            following = together[-1] + 1
            path = self._path(following) if following + 1 in self._frames else None
            if following + 1 not in self._frames or following in self._pairs or (path is not None and path.is_file()):
                break
            together.append(following)
        return together

    def _path(self, position: int, kind: str = "") -> Path | None:
        if self.folder is None:
            return None
        first, second = self._frames[position], self._frames[position + 1]
        # The flow network works at another size on a CPU than on a GPU.
        return self.folder / f"{_signature(first)}-{_signature(second)}-{first.rolling.device.type}{kind}.npy"

    def _computed(self, positions: Sequence[int]) -> list[ConfidentFlows]:
        pairs = [(self._frames[position], self._frames[position + 1]) for position in positions]
        if self.compute is not None:
            return [ConfidentFlows(self.compute(*pair), None, None) for pair in pairs]
        first, second = (torch.stack([frame.rolling for frame in side]) for side in zip(*pairs, strict=True))
        (forward, backward), *confidences = find_flows(self.estimator, first, second)
        sure = [[None] * len(pairs) if part is None else part.chunk(len(pairs)) for part in confidences]
        return [
            ConfidentFlows(FlowPair(*flows), *certain)
            for *flows, certain in zip(
                forward.chunk(len(pairs)), backward.chunk(len(pairs)), zip(*sure, strict=True), strict=True
            )
        ]


def shared_flow(name: str, folder: Path | None = None, batch: int = 1) -> SharedFlow:
    """A shared flow by name: one of `qrsc.flow.FLOWS`, or `truth` for simulated sequences that were written with it.

    Args:
        folder: keeps flows from run to run, in a folder of its own for each name, version and set of weights.
    """
    if name == TRUTH_FLOW:
        return SharedFlow(_no_estimate, true_flow)
    estimator = load_flow(name)
    if isinstance(estimator, ClipFlow):
        raise ValueError(f"{name} holds the flows of one clip, and a data set has many; name a flow estimator.")
    return SharedFlow(estimator, folder=None if folder is None else folder / _folder_name(name), batch=batch)


def shared_flow_fingerprint(name: str) -> str:
    """A text that changes when the flow of a name does: its weights, for one; see `qrsc.flow.flow_fingerprint`."""
    return name if name == TRUTH_FLOW else flow_fingerprint(name)


def true_flow(first: LoadedFrame, second: LoadedFrame) -> FlowPair:
    """The exact flows between two consecutive frames of a simulated sequence."""
    from qrsc.simulate.output.writers import TRUTH_FILE, read_truth

    folder = first.files.files["rolling"].parents[1]  # SEQUENCE/RS/00000.png
    if not (folder / TRUTH_FILE).is_file():
        raise FileNotFoundError(
            f"there are no exact flows for {folder}: {TRUTH_FILE} is missing there. Write the clips with qrsc simulate "
            "scenes --truth, or choose another --flow."
        )
    height, width = first.rolling.shape[-2:]
    flows = [
        read_truth(folder, "flow_next", first.files.number, (height, width)),
        read_truth(folder, "flow_prev", second.files.number, (height, width)),
    ]
    return FlowPair(*(flow.to(first.rolling).unsqueeze(0) for flow in flows))


def _fill(found: ConfidentFlows) -> tuple[TrustedFlow, TrustedFlow]:
    forward, backward = trusted_flows(found)
    return fill_uncertain_flow(forward), fill_uncertain_flow(backward)


def _same(known: Tensor, frame: Tensor) -> bool:
    """Whether a batch `[B, 3, H, W]` holds one frame, with the pixels of a known one `[3, H, W]`."""
    return frame.shape == (1, *known.shape) and frame.dtype == known.dtype and torch.equal(frame[0], known)


def _save(path: Path | None, flows: Tensor) -> None:
    if path is not None:
        with atomic_file(path) as work:
            np.save(work, flows.float().cpu().numpy())


def _load(path: Path, frame: Tensor) -> Tensor:
    """What `_save` wrote for a frame `[..., H, W]`: `[2, 2 or 3, H, W]`, filled flows always with their confidences."""
    stored = npy_array(path)
    channels = (3,) if path.stem.endswith("-filled") else (2, 3)
    if stored.shape not in [(2, count, *frame.shape[-2:]) for count in channels]:
        raise ValueError(f"{path} has the shape {stored.shape}, and is no flow of these frames. Remove it.")
    return torch.from_numpy(stored.read()).to(frame)


def _no_estimate(first: Tensor, second: Tensor, /) -> FlowPair:
    raise ValueError(
        "exact flows are known between consecutive frames of a simulated sequence only, not between other pictures."
    )


def _folder_name(name: str) -> str:
    """A name that changes with the version and the weights."""
    digest = hashlib.sha256(f"{__version__} {flow_fingerprint(name)}".encode()).hexdigest()[:16]
    plain = re.sub(r"[^\w.+-]", "_", Path(name).name)
    return f"{plain}-{digest}"


def _signature(frame: LoadedFrame) -> str:
    """A name that changes when the file does."""
    path = frame.files.files["rolling"]
    status = path.stat()
    told = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
    return f"{frame.files.number:05d}_{hashlib.sha256(told.encode()).hexdigest()[:12]}"
