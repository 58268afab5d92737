"""Each frame corrected from its own motion, for scoring: the frames of `Corrector(fusion="none")`, quicker.

The motion is that of the pipeline, by the same functions. What is saved: filled flows are shared by all methods, the
validity of a corrected frame is not worked out, and the frame is sampled in the thread that measures it. A frame of
640x480 takes 47 ms of processor time instead of 68 to 75. A test holds the frames of the two against each other.
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
from qrsc.motion.trajectory import correction_field
from qrsc.pipeline import Corrector, MotionName
from qrsc.pipeline.align import FrameFlows, MotionModel, frame_motion
from qrsc.timing import Readout
from qrsc.warp import fixed_point_inverse


class SingleFrames:
    """A method: order 1 or 2 without fusion.

    Args:
        motion: `linear` or `quadratic`.
        flow: shared with the other methods.
    """

    def __init__(self, motion: MotionName, flow: SharedFlow) -> None:
        self._model = MotionModel(motion)
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
            for result in Corrector(readout, tau=tau).stream([frame]):  # warns that one frame shows no motion
                yield FrameAndField(result.frame, result.correction_field)

    def _corrected(
        self, frame: Tensor, back: TrustedFlow | None, onward: TrustedFlow | None, readout: Readout, tau: float
    ) -> LateFrame:
        window = {step: FrameFlows(float(step)) for step in (-1, 0, 1)}
        window[0].flows = {step: each for step, each in ((-1, back), (1, onward)) if each is not None}
        trajectory = frame_motion(window, 0, readout, self._model).trajectory
        field = correction_field(trajectory, readout, tau)
        return LateFrame(field[0], partial(_sampled, frame, field[0]))


def _sampled(frame: Tensor, correction: Tensor) -> Tensor:
    """A frame `[3, H, W]` moved along its correction field `[2, H, W]`."""
    (across, down), _ = fixed_point_inverse(correction)
    height, width = frame.shape[-2:]
    x = across + torch.arange(width, device=frame.device)
    y = down + torch.arange(height, device=frame.device).unsqueeze(1)
    return read_anywhere(frame, x, y)  # a warp would also work out what is valid
