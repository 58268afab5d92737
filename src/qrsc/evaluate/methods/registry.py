"""What can be scored: methods by name, functions of other modules, and folders of frames from another program.

Convention
    A method is called once per clip, with the rolling-shutter frames `[3, H, W]` in order (RGB in [0, 1], any
    iterable), the `Readout` (gamma and scan), and the instant `tau` in frame intervals after the start of each frame.
    It returns one result per frame, in order: the global-shutter frame `[3, H, W]` at that instant, or a
    `qrsc.Corrected` or `FrameAndField`, whose correction field is scored as well. It may read ahead as far as it likes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from qrsc.data.dataset import ClipFiles, TruthInstant
from qrsc.evaluate.methods.results import FrameAndField, Result
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.evaluate.methods.single_frame import SingleFrames
from qrsc.fusion import FusionName
from qrsc.fusion.mean import plain_mean
from qrsc.media.image_folder import SUFFIXES, read_frame
from qrsc.names import Interpolation
from qrsc.pipeline import Corrected, Corrector, MotionName
from qrsc.timing import Readout
from qrsc.warp import WarpMethod
from qrsc.weights import card, shipped_weights


class Method(Protocol):
    """Anything that corrects clips; see the convention above."""

    def __call__(self, frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterable[Result]: ...


def unchanged(frames: Iterable[Tensor], readout: Readout, tau: float) -> Iterator[FrameAndField]:
    """The rolling-shutter frames themselves: what every method has to be better than."""
    for frame in frames:
        yield FrameAndField(frame, torch.zeros_like(frame[:2]))


@dataclass(frozen=True)
class CorrectorMethod:
    """An entry for a table of methods: a `Corrector` with some settings.

    Attributes:
        motion, fusion, warp, interpolation: as for `Corrector`; the fusion `plain mean` leaves out what `mean` adds.
    """

    motion: MotionName
    fusion: FusionName | Literal["plain mean"]
    warp: WarpMethod = "invert"
    interpolation: Interpolation | None = None

    def __call__(self, flow: SharedFlow) -> Method:
        def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Corrected]:
            corrector = Corrector(
                readout,
                tau=tau,
                flow=flow,
                motion=self.motion,
                fusion=plain_mean if self.fusion == "plain mean" else self.fusion,
                warp=self.warp,
                interpolation=self.interpolation,
            )
            return corrector.stream(frames)

        return method

    def fingerprint(self) -> str:
        """The settings, and the SHA-256 of the fusion network's weights."""
        weights = f"@{card(self.fusion)['sha256']}" if self.fusion in shipped_weights() else ""
        return f"{self.motion} {self.fusion} {self.warp} {self.interpolation}{weights}"


# An entry is given the flow that all methods share, and returns the method.
MethodTable = Mapping[str, Callable[[SharedFlow], Method]]


@runtime_checkable
class Fingerprinted(Protocol):
    """An entry of a table that can tell when its results change: by its weights, for one."""

    def fingerprint(self) -> str: ...


@runtime_checkable
class AtSomeInstants(Protocol):
    """An entry of a table that does not give every instant."""

    instants: tuple[TruthInstant, ...]


def method_instants(name: str, table: MethodTable) -> tuple[TruthInstant, ...]:
    """The instants that a method gives."""
    entry = table.get(name)
    return entry.instants if isinstance(entry, AtSomeInstants) else ("first", "middle")


def _solver(motion: MotionName, fusion: Literal["none", "plain mean"], warp: WarpMethod = "invert") -> CorrectorMethod:
    """A row that shows what a motion model is worth: sampled bilinearly, as published, and not sharpened."""
    return CorrectorMethod(motion, fusion, warp, "bilinear")


# Every method that can be asked for by name. It is read-only; pass a table of your own to add to it:
# `{**METHODS, "mine": lambda flow: mine}`.
METHODS: MethodTable = MappingProxyType(
    {
        "rs": lambda flow: unchanged,
        "linear": lambda flow: SingleFrames("linear", flow),
        "qrs": lambda flow: SingleFrames("quadratic", flow),
        "path": _solver("path", "none"),
        "cubic": _solver("cubic", "none"),
        "multi-linear": _solver("linear", "plain mean"),
        "multi-qrs": _solver("quadratic", "plain mean"),
        "multi-cubic": _solver("cubic", "plain mean"),
        "multi-path": _solver("path", "plain mean"),
        "coherent": CorrectorMethod("path", "coherent"),
        "rsa2": CorrectorMethod("path", "rsa2"),
        "rsa2-lite": CorrectorMethod("path", "rsa2-lite"),
        "qrs-negate": _solver("quadratic", "none", "negate"),
    }
)


def load_method(name: str, flow: SharedFlow, table: MethodTable = METHODS) -> Method:
    """A method by one of the names of a table, or a function by `module:function`."""
    if name in table:
        return table[name](flow)
    module, colon, function = name.partition(":")
    if not (colon and module and function):
        raise ValueError(
            f"unknown method {name!r}; choose from {', '.join(table)}, name a function as module:function, or a "
            "folder of frames as --method NAME=DIR."
        )
    return _imported(module, function)


def method_fingerprint(name: str, table: MethodTable = METHODS) -> str:
    """A text that changes when the results of a method do, as far as its entry tells; for keys of records."""
    entry = table.get(name)
    return f"{name} {entry.fingerprint()}" if isinstance(entry, Fingerprinted) else name


def windowed(correct: Callable[[Tensor, Readout, float], Tensor], frames: int) -> Method:
    """A method from a function that makes one frame from a window of frames.

    Args:
        correct: from frames `[N, 3, H, W]`, the readout and tau to the frame `[3, H, W]` of number `N // 2`.
        frames: length N of the window. At the ends of a clip the outermost frame is repeated.
    """

    def method(clip: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Tensor]:
        window: deque[Tensor] = deque(maxlen=frames)
        ahead = frames - 1 - frames // 2
        count = 0
        for frame in clip:
            if count == 0:
                window.extend([frame] * frames)
            else:
                window.append(frame)
            count += 1
            if count > ahead:
                yield correct(torch.stack(list(window)), readout, tau)
        for _ in range(min(count, ahead)):
            window.append(window[-1])
            yield correct(torch.stack(list(window)), readout, tau)

    return method


@dataclass(frozen=True)
class FrameFolder:
    """Frames that another program has made.

    A frame is looked for as `DIR/SEQUENCE/FILE`, or `DIR/first/SEQUENCE/FILE` and `DIR/middle/SEQUENCE/FILE` for two
    instants. SEQUENCE is the sequence's folder seen from the root of the data set. FILE is the name of the
    rolling-shutter frame or of its truth, with the folder it lies in or without, in any image format.
    """

    folder: Path

    def frames(self, clip: ClipFiles, at: TruthInstant, device: torch.device | str | None = None) -> Iterator[Tensor]:
        """One frame `[3, H, W]` for each of a clip; an empty tensor for those without a truth, which are not scored."""
        for files in clip.frames:
            if at in files.files:
                named = [files.files["rolling"], files.files[at]]
                yield read_frame(self._find(clip, at, named), device=device).frame
            else:
                yield torch.empty(0)

    def _find(self, clip: ClipFiles, at: TruthInstant, named: list[Path]) -> Path:
        places = [self.folder / at / clip.sequence, self.folder / clip.sequence]
        names = [name for path in named for name in (path.relative_to(clip.folder), Path(path.name))]
        tried = [(place / name).with_suffix(suffix) for place in places for name in names for suffix in SUFFIXES]
        for path in tried:
            if path.is_file():
                return path
        raise FileNotFoundError(
            f"{self.folder} has no frame for {named[0]}. Looked for: {tried[0]}, "
            f"{(places[1] / names[1]).with_suffix('.png')}, and the name of the truth, {named[1].name}."
        )


def parse_folder(text: str) -> tuple[str, FrameFolder]:
    """Name and folder from `NAME=DIR`."""
    name, equals, folder = text.partition("=")
    if not (equals and name and folder):
        raise ValueError(f"--method takes NAME=DIR, a name of your choice and a folder of frames; got {text!r}.")
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder} with frames of {name}.")
    return name, FrameFolder(Path(folder))


def _imported(module: str, function: str) -> Method:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the method {module}:{function} could not be imported from {here}: {error}.") from error
    finally:
        if added:
            sys.path.remove(here)
    if not callable(found):
        raise ValueError(f"{module}:{function} is no function; a function of frames, readout and tau was expected.")
    method: Method = found
    return method
