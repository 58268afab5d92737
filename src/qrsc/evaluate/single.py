"""Each frame corrected from its own motion, for scoring on a CPU: the Corrector's frames at a third of its cost.

Without fusion nobody asks where a corrected frame is valid, and of several orders all can share the confidences of the
flows; the Corrector works out both for itself. A test holds the frames of the two against each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.evaluate.flows import SharedFlow
from qrsc.evaluate.results import FrameAndField
from qrsc.motion import ORDERS, correction_field, fit_trajectory
from qrsc.pipeline import REGULARISATION, Corrector, MotionName
from qrsc.timing import Readout
from qrsc.warp import backward_warp, invert_field, pixel_grid

STEPS = 8  # of the fixed-point iteration, as in `qrsc.warp.invert_field`
WHOLE_STEPS = 3  # of them for all pixels; the others are for those that still move
SETTLED = 1e-4  # px


_Trusted = tuple[Tensor, Tensor]  # a flow [1, 2, H, W] and its confidence [1, 1, H, W]


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
        back: _Trusted | None = None  # from the frame to the one before
        for following in frames:
            if frame is not None:
                pair = frame.unsqueeze(0), following.unsqueeze(0)
                flows, confidences = self._flow(*pair), self._flow.confidences(*pair)
                yield self._corrected(frame, back, (flows.forward, confidences.forward), readout, tau)
                back = flows.backward, confidences.backward
            frame = following
        if frame is not None and back is not None:
            yield self._corrected(frame, back, None, readout, tau)
        elif frame is not None:
            for result in Corrector(readout, tau=tau).stream([frame]):  # which says what one frame is good for
                yield FrameAndField(result.frame, result.correction_field)

    def _corrected(
        self, frame: Tensor, back: _Trusted | None, onward: _Trusted | None, readout: Readout, tau: float
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
        inverse = inverse_field(field) if field.device.type == "cpu" else invert_field(field).field
        return FrameAndField(backward_warp(frame.unsqueeze(0), inverse).image.clamp(0.0, 1.0)[0], field[0])


def inverse_field(field: Tensor) -> Tensor:
    """The field that leads back, `[1, 2, H, W]` like the field: what `qrsc.warp.invert_field` finds, without validity.

    After three steps nearly all pixels have settled, and the rest of the steps are for the others alone.
    """
    height, width = field.shape[-2:]
    grid = pixel_grid(height, width, dtype=field.dtype, device=field.device).unsqueeze(0)
    inverse = -field
    moved = inverse
    for _ in range(WHOLE_STEPS):
        moved = inverse
        inverse = -_sampled(field, grid + inverse)
    restless = ((inverse - moved).abs().amax(1) > SETTLED).flatten().nonzero().squeeze(1)  # [N]
    if len(restless) == 0:
        return inverse
    start = grid.reshape(2, -1)[:, restless]  # [2, N]
    part = inverse.reshape(2, -1)[:, restless]
    for _ in range(STEPS - WHOLE_STEPS):
        part = -_sampled(field, (start + part).reshape(1, 2, 1, -1)).reshape(2, -1)
    inverse.reshape(2, -1)[:, restless] = part
    return inverse


def _sampled(field: Tensor, position: Tensor) -> Tensor:
    """`[1, 2, h, w]`: a finite field `[1, 2, H, W]` at positions `[1, 2, h, w]`, its edge repeated outside."""
    height, width = field.shape[-2:]
    scale = torch.tensor([2.0 / max(width - 1, 1), 2.0 / max(height - 1, 1)]).to(field)
    points = position.permute(0, 2, 3, 1) * scale - 1.0
    return F.grid_sample(field, points, mode="bilinear", padding_mode="border", align_corners=True)
