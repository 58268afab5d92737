"""What can be scored: our methods by name, folders of frames that another program made, and functions of others.

Convention
    A method is called once for every clip, with the rolling-shutter frames `[3, H, W]` in order (RGB in [0, 1], any
    iterable), the `Readout` (gamma and scan), and the instant `tau` in frame intervals after the start of each frame.
    It gives one result for each frame, in order: the global-shutter frame `[3, H, W]` at that instant, or a
    `qrsc.Corrected` or `FrameAndField`, whose correction field is scored as well. It may read ahead as far as it likes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from qrsc.data.dataset import ClipFiles, TruthInstant
from qrsc.evaluate.methods.results import FrameAndField, Result
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.evaluate.methods.single_frame import SingleFrames
from qrsc.media.image_folder import SUFFIXES, read_frame
from qrsc.pipeline import Corrected, Corrector
from qrsc.timing import Readout


class Method(Protocol):
    """Anything that corrects clips; see above."""

    def __call__(self, frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterable[Result]: ...


def unchanged(frames: Iterable[Tensor], readout: Readout, tau: float) -> Iterator[FrameAndField]:
    """The rolling-shutter frames themselves: what every method has to be better than."""
    for frame in frames:
        yield FrameAndField(frame, torch.zeros_like(frame[:2]))


def _corrector(**settings: Any) -> Callable[[SharedFlow], Method]:
    """A method that is a `Corrector` with some settings."""

    def with_flow(flow: SharedFlow) -> Method:
        def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Corrected]:
            return Corrector(readout, tau=tau, flow=flow, **settings).stream(frames)

        return method

    return with_flow


# Every method that can be asked for by name; a new one is a line here. Each is given the flow that all share.
METHODS: dict[str, Callable[[SharedFlow], Method]] = {
    "rs": lambda flow: unchanged,
    "linear": lambda flow: SingleFrames("linear", flow),
    "qrs": lambda flow: SingleFrames("quadratic", flow),
    "path": _corrector(motion="path", fusion="none"),
    "cubic": _corrector(motion="cubic", fusion="none"),
    "multi-linear": _corrector(motion="linear", fusion="mean"),
    "multi-qrs": _corrector(motion="quadratic", fusion="mean"),
    "multi-cubic": _corrector(motion="cubic", fusion="mean"),
    "multi-path": _corrector(motion="path", fusion="mean"),
    "coherent": _corrector(motion="path", fusion="coherent"),
    "rsa2": _corrector(motion="path", fusion="rsa2"),
    "rsa2-lite": _corrector(motion="path", fusion="rsa2-lite"),
    "qrs-negate": _corrector(motion="quadratic", fusion="none", warp="negate"),
}


def load_method(name: str, flow: SharedFlow) -> Method:
    """A method by one of the names in `METHODS`, or a function by `module:function`."""
    if name in METHODS:
        return METHODS[name](flow)
    module, colon, function = name.partition(":")
    if not (colon and module and function):
        raise ValueError(
            f"unknown method {name!r}; choose from {', '.join(METHODS)}, name a function as module:function, or a "
            "folder of frames as --method NAME=DIR."
        )
    return _imported(module, function)


def windowed(correct: Callable[[Tensor, Readout, float], Tensor], frames: int) -> Method:
    """A method out of a function that makes one frame from a window.

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

    They are looked for as `DIR/SEQUENCE/FILE`, or `DIR/first/SEQUENCE/FILE` and `DIR/middle/SEQUENCE/FILE` for two
    instants. SEQUENCE is the sequence's folder seen from the root of the data set. FILE is the name of the
    rolling-shutter frame or of its truth, with the folder it lies in or without, in any image format.
    """

    folder: Path

    def frames(self, clip: ClipFiles, at: TruthInstant, device: torch.device | str | None = None) -> Iterator[Tensor]:
        """One frame `[3, H, W]` for each of a clip; for those without a truth, which nobody asks for, an empty one."""
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
            f"{self.folder} has no frame for {named[0]}: {tried[0]} was looked for, likewise "
            f"{(places[1] / names[1]).with_suffix('.png')} and names like that of the truth, {named[1].name}."
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
        raise ValueError(f"{module}:{function} is no function; one that takes frames, readout and tau was expected.")
    method: Method = found
    return method
