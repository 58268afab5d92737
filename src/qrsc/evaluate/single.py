"""Each frame corrected from its own motion, for scoring on a CPU: the Corrector's frames at about half its cost.

Without fusion nobody asks where a corrected frame is valid, and of several orders all can share the flows with
their confidences; the Corrector works out both for itself. A test holds the frames of the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.evaluate.flows import SharedFlow, Trusted
from qrsc.evaluate.results import FrameAndField
from qrsc.motion import ORDERS, correction_field, fit_trajectory
from qrsc.pipeline import REGULARISATION, Corrector, MotionName
from qrsc.timing import Readout
from qrsc.warp import apply_correction, pixel_grid

STEPS = 8  # of the fixed-point iteration, as in `qrsc.warp.invert_field`
WHOLE_STEPS = 3  # of them for all pixels; the others are for those that still move
SETTLED = 1e-3  # px


class SingleFrames:
    """A method: order 1 or 2 without fusion.

    Args:
        motion: `linear` or `quadratic`.
        flow: shared with the other methods.
    """

    def __init__(self, motion: MotionName, flow: SharedFlow) -> None:
        self._motion: MotionName = motion
        self._flow = flow

    def __call__(self, frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[FrameAndField]:
        """One result for each frame `[3, H, W]`, a frame later."""
        frame: Tensor | None = None
        back: Trusted | None = None  # from the frame to the one before
        for following in frames:
            if frame is not None:
                onward, behind = self._flow.settled(frame.unsqueeze(0), following.unsqueeze(0))
                yield self._corrected(frame, back, onward, readout, tau)
                back = behind
            frame = following
        if frame is not None and back is not None:
            yield self._corrected(frame, back, None, readout, tau)
        elif frame is not None:
            for result in Corrector(readout, tau=tau).stream([frame]):  # which says what one frame is good for
                yield FrameAndField(result.frame, result.correction_field)

    def _corrected(
        self, frame: Tensor, back: Trusted | None, onward: Trusted | None, readout: Readout, tau: float
    ) -> FrameAndField:
        known = {step: trusted for step, trusted in ((-1, back), (1, onward)) if trusted is not None}
        trajectory = fit_trajectory(
            {step: flow for step, (flow, _) in known.items()},
            readout,
            order=ORDERS[self._motion] if len(known) == 2 else 1,
            confidences={step: confidence for step, (_, confidence) in known.items()},
            regularisation=REGULARISATION,
        )
        field = correction_field(trajectory, readout, tau)
        if field.device.type != "cpu":
            return FrameAndField(
                apply_correction(frame.unsqueeze(0), field, interpolation="bilinear").image[0], field[0]
            )
        return FrameAndField(_sampled(frame.unsqueeze(0), sources(field))[0], field[0])


def sources(field: Tensor) -> Tensor:
    """Where each pixel of the corrected frame comes from: `[1, H, W, 2]` for a correction field `[1, 2, H, W]`.

    Convention
        In the units of `grid_sample` with aligned corners, -1 to 1 from the first to the last pixel centre. They are
        those of the inverse field that `qrsc.warp.invert_field` finds, by the same iteration, without its validity.

    After three steps most pixels have settled, and further steps are for the others alone.
    """
    height, width = field.shape[-2:]
    pixels = 0.5 * torch.tensor([max(width - 1, 1), max(height - 1, 1)], dtype=field.dtype)  # in a unit, (x, y)
    scaled = field / pixels.reshape(2, 1, 1)
    home = (pixel_grid(height, width, dtype=field.dtype).permute(1, 2, 0) / pixels - 1.0).unsqueeze(0)  # [1, H, W, 2]
    points = before = home - scaled.permute(0, 2, 3, 1)
    for _ in range(WHOLE_STEPS):
        before, points = points, home - _sampled(scaled, points).permute(0, 2, 3, 1)
    flat, start = points.reshape(-1, 2), home.reshape(-1, 2)  # [H * W, 2]
    restless = _moving(flat, before.reshape(-1, 2), pixels)  # [N]
    for _ in range(STEPS - WHOLE_STEPS):
        if len(restless) == 0:
            break
        part = flat[restless]
        moved = start[restless] - _sampled(scaled, part.reshape(1, 1, -1, 2)).reshape(2, -1).T
        flat[restless] = moved
        restless = restless[_moving(moved, part, pixels)]
    return flat.reshape(points.shape)


def _moving(now: Tensor, before: Tensor, pixels: Tensor) -> Tensor:
    """Which of the points `[N, 2]` have not settled yet."""
    apart = (now - before).abs_().gt_(SETTLED / pixels)
    return (apart[:, 0] + apart[:, 1]).nonzero().squeeze(1)


def _sampled(picture: Tensor, points: Tensor) -> Tensor:
    """A picture or field `[1, C, H, W]` at finite points `[1, h, w, 2]`, its edge repeated: `[1, C, h, w]`."""
    return F.grid_sample(picture, points, mode="bilinear", padding_mode="border", align_corners=True)
