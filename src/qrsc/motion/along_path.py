"""The motion of pixels along the camera path, and at the ends of a clip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from qrsc.motion.camera_path import PathOfFrame
from qrsc.motion.fill import TrustedFlow, fill_uncertain_flow
from qrsc.motion.trajectory import Trajectory, fit_displacements
from qrsc.timing import Readout
from qrsc.warp import backward_warp

# Factor on the regularisation along a path: a pull towards the surroundings does less harm than one towards zero.
# Simulated sets gain 0.03 dB by it, and 0.1 where the frame does not show the pixel.
PATH_REGULARISATION = 10.0


def borrow_acceleration(
    own: Trajectory,
    flow: TrustedFlow,
    time: float,
    readout: Readout,
    near: Trajectory,
    onward: TrustedFlow,
    far: Trajectory,
) -> Trajectory:
    """The motion at an end of a clip, with as much of the neighbour's acceleration as lasts from frame to frame.

    One flow says nothing about an acceleration. The neighbour has one, and the frame beyond it shows how much of that
    is left a frame later: the slope of a regression over the picture, clamped to [0, 1]. The first and the last frames
    of sim-drive gain 0.7 dB. The full acceleration would gain 1.4 dB there, and lose up to 0.8 dB on real clips, where
    it does not last.

    Args:
        own: of the frame, linear: `[B, 2, H, W]`.
        flow: to the neighbour.
        time: from this frame's start to the neighbour's.
        readout: how the frames were read.
        near: of the neighbour, quadratic.
        onward: the flow from the neighbour to the frame beyond.
        far: of the frame beyond, quadratic.
    """
    assert near.acceleration is not None and far.acceleration is not None  # they are quadratic  # noqa: PT018  # one fact of two
    weighted = (onward.confidence * near.confidence) * near.acceleration
    beyond = backward_warp(far.acceleration, onward.flow).image
    energy = (weighted * near.acceleration).sum((1, 2, 3), keepdim=True)
    product = (weighted * beyond).sum((1, 2, 3), keepdim=True)
    lasting = torch.where(energy > 0, product / torch.where(energy > 0, energy, 1.0), 0.0).clamp(0.0, 1.0)
    acceleration = lasting * backward_warp(near.acceleration, flow.flow).image
    # The motion still passes through the flow: at the time of the flow, the displacement is the same.
    velocity = own.velocity - 0.5 * readout.flight_time(flow.flow, time) * acceleration
    return replace(own, velocity=velocity, acceleration=acceleration)


def trajectory_along_path(
    found: Mapping[float, TrustedFlow],
    path: PathOfFrame | None,
    readout: Readout,
    *,
    order: int,
    regularisation: float,
) -> Trajectory:
    """How the pixels of a frame move: along the path, with a motion of their own for the residual.

    Where flows do not determine that own motion, it is taken from the surroundings: the flow where it is uncertain, and
    the acceleration of a pixel with one uncertain flow. In a drive, points leave the frame ever faster, and zero
    acceleration would be a wrong guess for them: sim-drive gains 0.6 dB, and 1.5 where the frame does not show the
    pixel.

    Args:
        found: flows by frame step, as they were found.
        path: along which the pixels move. Without one, all of the motion is their own, and only flows are filled.
        readout: how the frames were read.
        order: of the motion; see `fit_trajectory`.
        regularisation: pull of the acceleration towards the surroundings; without a path, towards zero.
    """
    steps = sorted(found)
    flows = [found[step] for step in steps]
    return own_motion(flows, steps, path, readout, order=order, regularisation=regularisation)


def own_motion(
    flows: Sequence[TrustedFlow],
    steps: Sequence[Tensor | float],
    path: PathOfFrame | None,
    readout: Readout,
    *,
    order: int,
    regularisation: float,
) -> Trajectory:
    """The same for flows by ascending frame step, which may be numbers or tensors `[]`."""
    if path is not None:
        regularisation *= PATH_REGULARISATION
    # Filling two flows together takes as long as filling one.
    together = TrustedFlow(*(torch.cat(parts) for parts in zip(*flows, strict=True)))
    times = [readout.flight_time(flow.flow, step) for flow, step in zip(flows, steps, strict=True)]
    along = None if path is None else torch.cat([path.displacement_at(time) for time in times])
    filled = fill_uncertain_flow(together, along)
    displacements = filled.flow.chunk(len(flows))
    return fit_displacements(
        displacements,
        [readout.flight_time(flow, step) for flow, step in zip(displacements, steps, strict=True)],
        order=order,
        confidences=filled.confidence.chunk(len(flows)),
        regularisation=regularisation,
        shared=path,
        like_surroundings=path is not None,
    )
