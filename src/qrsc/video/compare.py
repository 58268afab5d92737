"""A second video that shows every frame before and after its correction, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.media.codecs import choose_encoding
from qrsc.media.orientation import degrees
from qrsc.pipeline import Seconds
from qrsc.video.source import Source, VideoSource
from qrsc.video.target import Picture, Target, open_target


@dataclass(frozen=True)
class ComparedPicture(Picture):
    """A picture with the frame as it came in, `[3, H, W]`."""

    before: Tensor | None = None


class BothTargets:
    """Writes into two targets."""

    def __init__(self, first: Target, second: Target) -> None:
        self._targets = (first, second)

    def take(self, item: Any) -> None:
        for target in self._targets:
            target.take(item)


class Comparison:
    """Writes the frame as it came in beside the corrected one, as people see the picture."""

    def __init__(self, target: Target, across: int) -> None:
        self._target, self._across = target, across

    def take(self, item: Any) -> None:
        if isinstance(item, ComparedPicture) and item.before is not None:
            after = item.before if item.frame is None else item.frame
            self._target.take(Picture(torch.cat([item.before, after], self._across), item.origin))


@contextmanager
def open_comparison(
    path: Path, source: Source, size: tuple[int, int], *, fps: float | None, quick: bool, overwrite: bool
) -> Iterator[Comparison]:
    """Open a comparison of pictures of a size `(H, W)`; it has no sound. `quick` is of the encoder."""
    info = source.info
    upright = info is None or degrees(info.matrix) in (0, 180)
    with open_target(
        path,
        replace(source, copied=[]) if isinstance(source, VideoSource) else source,
        size=(size[0], 2 * size[1]) if upright else (2 * size[0], size[1]),
        seconds=Seconds(),
        encoding=choose_encoding(path, info, quick=quick),
        fps=fps,
        overwrite=overwrite,
    ) as target:
        yield Comparison(target, -1 if upright else -2)
