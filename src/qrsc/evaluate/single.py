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
from qrsc.warp import apply_correction, pixel_grid

STEPS = 8  # of the fixed-point iteration, as in `qrsc.warp.invert_field`
WHOLE_STEPS = 3  # of them for all pixels; the others are for those that still move
SETTLED = 1e-3  # px


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
        if field.device.type != "cpu":
            return FrameAndField(
                apply_correction(frame.unsqueeze(0), field, interpolation="bilinear").image[0], field[0]
            )
        grid = pixel_grid(*field.shape[-2:], dtype=field.dtype)
        return FrameAndField(_sampled(frame.unsqueeze(0), grid + inverse_field(field))[0], field[0])


def inverse_field(field: Tensor) -> Tensor:
    """The field that leads back, `[1, 2, H, W]` like the field: what `qrsc.warp.invert_field` finds, without validity.

    After three steps most pixels have settled, and further steps are for the others alone.
    """
    height, width = field.shape[-2:]
    grid = pixel_grid(height, width, dtype=field.dtype, device=field.device).unsqueeze(0)
    inverse = before = -field
    for _ in range(WHOLE_STEPS):
        before, inverse = inverse, -_sampled(field, grid + inverse)
    flat, start = inverse.reshape(2, -1), grid.reshape(2, -1)  # [2, H * W]
    restless = _moving(flat, before.reshape(2, -1))  # [N]
    for _ in range(STEPS - WHOLE_STEPS):
        if len(restless) == 0:
            break
        part = flat[:, restless]
        moved = -_sampled(field, (start[:, restless] + part).reshape(1, 2, 1, -1)).reshape(2, -1)
        flat[:, restless] = moved
        restless = restless[_moving(moved, part)]
    return inverse


def _moving(now: Tensor, before: Tensor) -> Tensor:
    """Which of the points `[2, N]` have not settled yet."""
    return ((now - before).abs().amax(0) > SETTLED).nonzero().squeeze(1)


def _sampled(picture: Tensor, position: Tensor) -> Tensor:
    """A picture or field `[1, C, H, W]` at finite positions `[1, 2, h, w]`, its edge repeated: `[1, C, h, w]`."""
    height, width = picture.shape[-2:]
    x, y = position.unbind(1)
    points = torch.stack([x * (2.0 / max(width - 1, 1)) - 1.0, y * (2.0 / max(height - 1, 1)) - 1.0], -1)
    return F.grid_sample(picture, points, mode="bilinear", padding_mode="border", align_corners=True)
