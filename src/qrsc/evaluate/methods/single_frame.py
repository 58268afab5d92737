"""Each frame corrected from its own motion, for scoring: the Corrector's frames at a fraction of its cost.

Without fusion nobody asks where a corrected frame is valid, and of several orders all can share the flows with
their confidences; the Corrector works out both for itself. A test holds the frames of the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from qrsc.evaluate.methods.results import FrameAndField, LateFrame, Result
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.image.sampling import read_anywhere
from qrsc.motion.fill import TrustedFlow
from qrsc.motion.trajectory import ORDERS, correction_field, fit_trajectory
from qrsc.pipeline import REGULARISATION, Corrector, MotionName
from qrsc.timing import Readout
from qrsc.warp import fixed_point_inverse


class SingleFrames:
    """A method: order 1 or 2 without fusion.

    Args:
        motion: `linear` or `quadratic`.
        flow: shared with the other methods.
    """

    def __init__(self, motion: MotionName, flow: SharedFlow) -> None:
        self._motion: MotionName = motion
        self._flow = flow

    def __call__(self, frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Result]:
        """One result for each frame `[3, H, W]`, a frame later."""
        frame: Tensor | None = None
        back: TrustedFlow | None = None  # from the frame to the one before
        for following in frames:
            if frame is not None:
                onward, behind = self._flow.filled(frame.unsqueeze(0), following.unsqueeze(0))
                yield self._corrected(frame, back, onward, readout, tau)
                back = behind
            frame = following
        if frame is not None and back is not None:
            yield self._corrected(frame, back, None, readout, tau)
        elif frame is not None:
            for result in Corrector(readout, tau=tau).stream([frame]):  # which says what one frame is good for
                yield FrameAndField(result.frame, result.correction_field)

    def _corrected(
        self, frame: Tensor, back: TrustedFlow | None, onward: TrustedFlow | None, readout: Readout, tau: float
    ) -> LateFrame:
        known = {step: each for step, each in ((-1, back), (1, onward)) if each is not None}
        trajectory = fit_trajectory(
            {step: each.flow for step, each in known.items()},
            readout,
            order=ORDERS[self._motion] if len(known) == 2 else 1,
            confidences={step: each.confidence for step, each in known.items()},
            regularisation=REGULARISATION,
        )
        field = correction_field(trajectory, readout, tau)
        return LateFrame(field[0], partial(_moved, frame, field[0]))


def _moved(frame: Tensor, correction: Tensor) -> Tensor:
    (across, down), _ = fixed_point_inverse(correction)
    height, width = frame.shape[-2:]
    x = across + torch.arange(width, device=frame.device)
    y = down + torch.arange(height, device=frame.device).unsqueeze(1)
    return read_anywhere(frame, x, y)  # a warp would find out as well what is valid
