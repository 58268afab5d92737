"""Flows that several methods share: each is computed once, or read from disk, however many ask for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from qrsc import __version__
from qrsc.data.dataset import LoadedFrame
from qrsc.flow import ClipFlow, ConfidentFlows, FlowEstimator, FlowPair, find_flows, load_flow
from qrsc.media.atomic import atomic_file
from qrsc.motion.fill import TrustedFlow, fill_uncertain_flow
from qrsc.pipeline.align import trusted_flows

TRUTH_FLOW = "truth"  # the name of the exact flows that a simulated sequence brings along

# From two consecutive frames to the flows between them, [1, 2, H, W] each.
PairFlow = Callable[[LoadedFrame, LoadedFrame], FlowPair]
FramePair = tuple[LoadedFrame, LoadedFrame]


@dataclass
class SharedFlow:
    """A flow estimator for methods that go through the same frames side by side.

    Frames are announced before a method sees them and taken back when all methods are done with them. Between the two
    they are known by where they lie in memory; the flows of frames that are not known (a method may have changed them)
    are computed anew and not kept.

    Attributes:
        estimator: for frames that are not known.
        compute: for frames that are; the estimator on their pixels unless there is something better.
        folder: where flows are kept from run to run, as they came and settled, named by the files they belong to; None
            keeps none. Code that estimates flows otherwise than before needs another folder.
        batch: how many pairs of frames are given to the estimator at a time, if as many frames have been announced.
    """

    estimator: FlowEstimator
    compute: PairFlow | None = None
    folder: Path | None = None
    batch: int = 1
    _frames: dict[int, LoadedFrame] = field(default_factory=dict)  # by address
    _pairs: dict[tuple[int, int], ConfidentFlows] = field(default_factory=dict)
    _settled: dict[tuple[int, int], tuple[TrustedFlow, TrustedFlow]] = field(default_factory=dict)

    def announce(self, frame: LoadedFrame) -> None:
        """Make a frame known; it is held until it is taken back, so that its address stays its own."""
        self._frames[frame.rolling.data_ptr()] = frame

    def take_back(self, frame: LoadedFrame) -> None:
        """Forget a frame and the flows from it to the next one."""
        address = frame.rolling.data_ptr()
        self._frames.pop(address, None)
        for pairs in (self._pairs, self._settled):
            for pair in [pair for pair in pairs if pair[0] == address]:
                del pairs[pair]

    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        """Flows of a pair of frames `[1, 3, H, W]`."""
        return self.confident(first, second).flows

    def confident(self, first: Tensor, second: Tensor) -> ConfidentFlows:
        """Flows of a pair of frames `[1, 3, H, W]`, with what the estimator knows about them."""
        pair = first.data_ptr(), second.data_ptr()
        known = [self._frames.get(address) for address in pair]
        if known[0] is None or known[1] is None or len(first) != 1:
            return find_flows(self.estimator, first, second)
        if pair not in self._pairs:
            self._fetch(known[0], known[1])
        return self._pairs[pair]

    def settled(self, first: Tensor, second: Tensor) -> tuple[TrustedFlow, TrustedFlow]:
        """Forward and backward flow of a pair of frames `[1, 3, H, W]` as the Corrector uses them, with confidences."""
        pair = first.data_ptr(), second.data_ptr()
        if pair in self._settled:
            return self._settled[pair]
        known = [self._frames.get(address) for address in pair]
        if known[0] is None or known[1] is None or len(first) != 1:
            return _settle(self.confident(first, second))
        path = self._path(known[0], known[1], "-settled")
        if path is not None and path.is_file():
            loaded = torch.from_numpy(np.load(path)).to(first)  # [2, 3, H, W]
            both = TrustedFlow(loaded[:1, :2], loaded[:1, 2:]), TrustedFlow(loaded[1:, :2], loaded[1:, 2:])
        else:
            both = _settle(self.confident(first, second))
            _save(path, torch.cat([torch.cat(trusted, 1) for trusted in both]))
        self._settled[pair] = both
        return both

    def _fetch(self, first: LoadedFrame, second: LoadedFrame) -> None:
        """Put the flows of a pair, and of pairs after it that are computed with it, where they are looked for."""
        pairs = self._together(first, second)
        stored = self._path(*pairs[0])
        if stored is not None and stored.is_file():
            both = torch.from_numpy(np.load(stored)).to(first.rolling)  # [2, 2, H, W], or 3 with confidences
            confidences = (both[:1, 2:], both[1:, 2:]) if both.shape[1] == 3 else (None, None)
            self._keep(pairs[0], ConfidentFlows(FlowPair(both[:1, :2], both[1:, :2]), *confidences))
            return
        for pair, found in zip(pairs, self._computed(pairs), strict=True):
            parts = [torch.cat(found.flows)]
            if found.forward_confidence is not None and found.backward_confidence is not None:
                parts.append(torch.cat([found.forward_confidence, found.backward_confidence]))
            _save(self._path(*pair), torch.cat(parts, 1))
            self._keep(pair, found)

    def _keep(self, pair: FramePair, found: ConfidentFlows) -> None:
        self._pairs[pair[0].rolling.data_ptr(), pair[1].rolling.data_ptr()] = found

    def _together(self, first: LoadedFrame, second: LoadedFrame) -> list[FramePair]:
        """The pair, and those that follow it among the frames announced, as far as they are to be computed as well."""
        addresses = list(self._frames)
        following = addresses[addresses.index(second.rolling.data_ptr()) - 1 :]  # from the frame before the second on
        pairs = [(first, second)]
        if self.compute is not None or following[0] != first.rolling.data_ptr():
            return pairs
        for known in pairwise(following[1:]):
            pair = self._frames[known[0]], self._frames[known[1]]
            path = self._path(*pair)
            if len(pairs) == self.batch or known in self._pairs or (path is not None and path.is_file()):
                break
            pairs.append(pair)
        return pairs

    def _path(self, first: LoadedFrame, second: LoadedFrame, kind: str = "") -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{_signature(first)}-{_signature(second)}{kind}.npy"

    def _computed(self, pairs: Sequence[FramePair]) -> list[ConfidentFlows]:
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
    """A shared flow by name: one of `qrsc.flow.FLOWS`, or `truth` for simulated sequences that were written with it."""
    if name == TRUTH_FLOW:
        return SharedFlow(_no_estimate, true_flow)
    estimator = load_flow(name)
    if isinstance(estimator, ClipFlow):
        raise ValueError(f"{name} holds the flows of one clip, and a data set has many; name a flow estimator.")
    return SharedFlow(estimator, folder=None if folder is None else folder / f"{name}-{__version__}", batch=batch)


def true_flow(first: LoadedFrame, second: LoadedFrame) -> FlowPair:
    """The exact flows between two frames of a simulated sequence."""
    from qrsc.simulate.output.writers import TRUTH_FILE, read_truth

    folder = first.files.files["rolling"].parents[1]  # SEQUENCE/RS/00000.png
    if not (folder / TRUTH_FILE).is_file():
        raise FileNotFoundError(
            f"there are no exact flows for {folder}: {TRUTH_FILE} is missing there. Write the clips with qrsc simulate "
            "scenes --truth, or choose another --flow."
        )
    flows = [
        read_truth(folder, "flow_next", first.files.number),
        read_truth(folder, "flow_prev", second.files.number),
    ]
    return FlowPair(*(flow.to(first.rolling).unsqueeze(0) for flow in flows))


def _settle(found: ConfidentFlows) -> tuple[TrustedFlow, TrustedFlow]:
    forward, backward = trusted_flows(found)
    return fill_uncertain_flow(forward), fill_uncertain_flow(backward)


def _save(path: Path | None, flows: Tensor) -> None:
    if path is not None:
        with atomic_file(path) as work:
            np.save(work, flows.float().cpu().numpy())


def _no_estimate(first: Tensor, second: Tensor, /) -> FlowPair:
    raise ValueError(
        "exact flows are known between the frames of a simulated sequence only, not between other pictures."
    )


def _signature(frame: LoadedFrame) -> str:
    """A name that changes when the file does."""
    path = frame.files.files["rolling"]
    status = path.stat()
    told = f"{path.resolve()} {status.st_size} {status.st_mtime_ns}"
    return f"{frame.files.number:05d}_{hashlib.sha256(told.encode()).hexdigest()[:12]}"
