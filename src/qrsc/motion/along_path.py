"""The motion of pixels along the camera path, and its continuation at the ends of a clip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from qrsc.motion.camera_path import PathOfFrame
from qrsc.motion.fill import TrustedFlow, fill_uncertain_flow
from qrsc.motion.trajectory import Trajectory, fit_trajectory
from qrsc.timing import Readout
from qrsc.warp import backward_warp

# On the regularisation along a path: a pull towards what is around does less harm than one towards zero. Simulated sets
# gain 0.03 dB by it, and 0.1 where the frame does not show the pixel.
STRONGER = 10.0


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

    One flow says nothing about an acceleration. The neighbour has one, and the frame beyond tells how much of it is
    there a frame later: the slope of a regression over the picture, from 0 to 1. The first and the last frames of
    sim-drive gain 0.7 dB by that. All of the acceleration would be 1.4 there, and up to 0.8 less on real clips, where
    it does not last.

    Args:
        own: of the frame, linear: `[B, 2, H, W]`.
        flow: to the neighbour.
        time: from this frame's start to the neighbour's.
        readout: how the frames were read.
        near: of the neighbour, quadratic.
        onward: the flow from there to the frame beyond.
        far: of that frame, quadratic.
    """
    assert near.acceleration is not None and far.acceleration is not None  # they are quadratic  # noqa: PT018  # one fact of two
    there = (onward.confidence * near.confidence) * near.acceleration
    beyond = backward_warp(far.acceleration, onward.flow).image
    energy = (there * near.acceleration).sum((1, 2, 3), keepdim=True)
    alike = (there * beyond).sum((1, 2, 3), keepdim=True)
    lasting = torch.where(energy > 0, alike / torch.where(energy > 0, energy, 1.0), 0.0).clamp(0.0, 1.0)
    carried = lasting * backward_warp(near.acceleration, flow.flow).image
    # The flow is kept to: at the time that it takes, the motion is where it was.
    velocity = own.velocity - 0.5 * readout.flight_time(flow.flow, time) * carried
    return replace(own, velocity=velocity, acceleration=carried)


def trajectory_along_path(
    found: Mapping[float, TrustedFlow],
    path: PathOfFrame | None,
    readout: Readout,
    *,
    order: int,
    regularisation: float,
) -> Trajectory:
    """How the pixels of a frame move: along the path, and by a motion of their own for what it does not explain.

    What flows do not say of that own motion is as in the surroundings: the flow where it is unsure, and the
    acceleration of a pixel whose one flow is. In a drive, points leave the frame ever faster, and no acceleration at
    all would be a wrong guess for them: sim-drive gains 0.6 dB, and 1.5 where the frame does not show the pixel.

    Args:
        found: flows by frame step, as they were found.
        path: along which the pixels move; without any, all of the motion is their own, and flows alone are filled.
        readout: how the frames were read.
        order: of the motion; see `fit_trajectory`.
        regularisation: how much of the acceleration is from around; without a path, it is pulled towards zero.
    """
    if path is not None:
        regularisation *= STRONGER
    # Filling takes as long for two flows together as for one.
    together = TrustedFlow(*(torch.cat(parts) for parts in zip(*found.values(), strict=True)))
    along = (
        None
        if path is None
        else torch.cat([path.displacement_at(readout.flight_time(flow.flow, step)) for step, flow in found.items()])
    )
    settled = fill_uncertain_flow(together, along)
    return fit_trajectory(
        dict(zip(found, settled.flow.chunk(len(found)), strict=True)),
        readout,
        order=order,
        confidences=dict(zip(found, settled.confidence.chunk(len(found)), strict=True)),
        regularisation=regularisation,
        shared=path,
        alike=path is not None,
    )
