"""The corrector: a sliding window over a clip, each flow computed once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from qrsc.backend.prefetch import ahead
from qrsc.flow import ConfidentFlows, FlowEstimator, FlowPair, default_flow, find_flows, load_flow
from qrsc.fusion import AlignedFrames, Fusion, default_fusion, load_fusion, wanted_interpolation
from qrsc.image.resize import in_pixels_of, reduced_size, resized_field, resized_picture
from qrsc.motion.consistency import consistency_confidence
from qrsc.motion.fill import settle_flow
from qrsc.motion.partial import fade_unsure, partial_correction_field
from qrsc.motion.trajectory import ORDERS, Trajectory, fit_trajectory
from qrsc.pipeline.align import trusted_flows
from qrsc.pipeline.corrected import Corrected, Seconds, TimedFrame, unchanged
from qrsc.pipeline.paths import PATH_REACH, measure_path, motion_of_frame
from qrsc.pipeline.scenes import repeats, scene_changes
from qrsc.pipeline.warping import warped_frames
from qrsc.pipeline.window import Moment, check_frame, further_flows, limits_of, timed
from qrsc.timing import Readout
from qrsc.warp import (
    INTERPOLATIONS,
    WARP_METHODS,
    Interpolation,
    Warped,
    WarpMethod,
)

MotionName = Literal["linear", "quadratic", "cubic", "path"]
Border = Literal["fill", "repeat"]
Unsure = Literal["linear", "input"]

WINDOWS = (3, 4, 5)
# What each pixel's own motion is an order of; with a path it is what that does not explain.
MOTION_ORDERS = {**ORDERS, "path": ORDERS["quadratic"]}
BORDERS: tuple[Border, ...] = get_args(Border)
UNSURE: tuple[Unsure, ...] = get_args(Unsure)

# Pull of the acceleration towards zero (see motion.fit_trajectory): with both flows trusted it costs 2 % of the
# acceleration; a pixel whose one flow has a confidence of 0.01 is all but linear from the other side.
REGULARISATION = 0.01
# Repeats of one frame that are counted before the next one is looked at as a frame of its own: outputs wait for the
# first frame that differs, and a still picture must not make them wait for ever.
MOST_REPEATS = 8
UNSURE_BELOW = 0.5  # confidence under which a pixel counts as unsure in `Corrected.unsure`


class Corrector:
    """Corrects clips frame by frame, each flow computed once.

    Args:
        readout: how the camera reads its frames.
        tau: the global-shutter instant, in frame intervals after the start of each frame; None is the middle row.
        motion: of each pixel, `linear` (order 1), `quadratic` (2) or `cubic` (3, from the flows to two frames on either
            side); the first and the last frame of a clip have one neighbour and are linear. `path` finds the camera's
            path through 7 frames first, and a quadratic motion for the residual (see `qrsc.motion.camera_path`).
        fusion: `mean` merges neighbouring frames corrected to the same instant, `coherent` also keeps the detail that
            they agree on and drops noise; `none` uses each frame alone. Or the name of a network with shipped weights,
            or a function of `qrsc.fusion.AlignedFrames`; None is what suits the device, see `default_fusion` there.
        warp: `invert`, `splat` or `negate`; see `qrsc.warp.apply_correction`.
        flow: an estimator or its name; None is what suits the device, see `qrsc.flow.default_flow`.
        frames: 3, 4 or 5 frames are looked at for each output; the inner 1, 2 or 3 of them are fused.
        interpolation: `bilinear`, or `bicubic` (sharper; on noisy frames with imperfect flow about 0.3 dB behind); None
            is what the fusion is made for, and bilinear if it does not say.
        regularisation: pull of the acceleration towards zero.
        strength: 1 corrects wholly; 0.5 gives what a camera with half the readout time would have seen; 0 nothing.
        border: what the frame does not show is taken from neighbours (`fill`), or repeats its edge (`repeat`).
        unsure: pixels whose flows contradict each other follow the simpler model (`linear`), or, where whole regions
            do, fade to the frame as it came in (`input`).
        scale: the size at which flow is found, relative to the frames: 0.5 for 4K.
        field_scale: the size at which motion is solved and inverted, relative to the frames; at most `scale` counts.
        find_cuts: do not look across a change of scene.
        find_repeats: see that a frame only repeats the one before, and give it the same correction.
        flows_ahead: how many frames a second thread may find flows for while this one warps; 0 is no such thread.

    Device and dtype are those of the frames. `seconds` says where the time went.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        tau: float | None = None,
        motion: MotionName = "path",
        fusion: str | Fusion | None = None,
        warp: WarpMethod = "invert",
        flow: FlowEstimator | str | None = None,
        frames: int = 5,
        interpolation: Interpolation | None = None,
        regularisation: float = REGULARISATION,
        strength: float = 1.0,
        border: Border = "fill",
        unsure: Unsure = "linear",
        scale: float = 1.0,
        field_scale: float = 1.0,
        find_cuts: bool = False,
        find_repeats: bool = False,
        flows_ahead: int = 0,
    ) -> None:
        choices = {
            "motion": (motion, tuple(MOTION_ORDERS)),
            "warp": (warp, WARP_METHODS),
            "interpolation": (interpolation or "bilinear", INTERPOLATIONS),
            "border": (border, BORDERS),
            "unsure": (unsure, UNSURE),
        }
        for name, (value, known) in choices.items():
            if value not in known:
                raise ValueError(f"unknown {name} {value!r}; choose one of {', '.join(known)}.")
        if frames not in WINDOWS:
            raise ValueError(f"frames must be one of {', '.join(map(str, WINDOWS))}; got {frames!r}.")
        if not 0.0 <= strength <= 1.0:
            raise ValueError(f"strength must be from 0 (nothing) to 1 (all of the correction), got {strength!r}.")
        for name, factor in (("scale", scale), ("field_scale", field_scale)):
            if not 0.0 < factor <= 1.0:
                raise ValueError(f"{name} must be over 0 and at most 1, got {factor!r}.")
        self.readout = readout
        self.tau = readout.instant("middle") if tau is None else float(tau)
        self.warp = warp
        self.regularisation = regularisation
        self.strength = strength
        self.border = border
        self.unsure = unsure
        self.scale = scale
        self.field_scale = min(scale, field_scale)
        self.find_cuts = find_cuts
        self.find_repeats = find_repeats
        self.flows_ahead = flows_ahead
        self.seconds = Seconds()
        self._order = MOTION_ORDERS[motion]
        self._path = motion == "path"
        self._fusion = load_fusion(fusion) if isinstance(fusion, str) else fusion
        self._fusion_by_device = fusion is None
        self._interpolation = interpolation
        self._flow = load_flow(flow) if isinstance(flow, str) else flow
        self._fused = frames - 2 if self._fusion is not None or self._fusion_by_device else 1
        self._behind = self._fused // 2
        self._ahead = self._fused - 1 - self._behind
        # A trajectory looks at so many frames before it (what they say about the path is kept without them), and is
        # complete so many later. Along a path a clip's last frame looks at two before it; fusion holds one of them.
        self._back = 2 if self._order == 3 or (self._path and self._behind == 0) else 1
        self._reach = PATH_REACH if self._path else self._back

    def __call__(self, frames: Tensor) -> Tensor:
        """Correct a whole clip `[T, 3, H, W]`; returns the same shape."""
        if frames.ndim != 4 or len(frames) == 0:
            raise ValueError(f"a clip is a tensor [T, 3, H, W] of one frame or more; got {tuple(frames.shape)}.")
        return torch.stack([corrected.frame for corrected in self.stream(frames)])

    @property
    def changes_nothing(self) -> bool:
        """Whether every frame comes back as it went in: a global shutter at its own instant, or no strength."""
        return self.strength == 0.0 or (self.readout.gamma == 0.0 and self.tau == self.readout.offset)

    @property
    def interpolation(self) -> Interpolation:
        """How frames are sampled: as asked for, or as the fusion is made for."""
        return self._interpolation or wanted_interpolation(self._fusion, self._fused)

    def stream(self, frames: Iterable[Tensor | TimedFrame]) -> Iterator[Corrected]:
        """Correct frames `[3, H, W]` as they come: one out for each one in, a few frames later, in order.

        Frames without a time are one frame interval apart.
        """
        if self.changes_nothing:
            for index, frame in enumerate(timed(frames)):
                check_frame(frame.frame, index, None)
                yield unchanged(frame.frame)
            return
        window: dict[int, Moment] = {}
        count = emitted = 0
        for moment in ahead(self._moments(frames), self.flows_ahead):
            window[count] = moment
            count += 1
            while emitted + self._ahead + self._reach < count:
                yield from self._with_repeats(window, emitted)
                emitted += 1
                # The oldest frame that the next output looks at, with the frames that its trajectory looks at.
                window.pop(emitted - self._behind - self._back - 1, None)
        if count == 1 and window[0].repeats == 0:
            warnings.warn("a clip of one frame shows no motion: it is returned as it is.", stacklevel=2)
        while emitted < count:
            yield from self._with_repeats(window, emitted)
            emitted += 1

    def between(self, frames: Iterable[Tensor | TimedFrame], count: int) -> Iterator[tuple[float, Corrected]]:
        """Temporal super-resolution: `count` instants for every frame interval, evenly spaced.

        Each is fused from the two frames around it, both corrected to it (the nearer one alone if `fusion` is `none`).
        The first instant of a frame is `tau` after its start. Nothing lies beyond the last frame, so T frames give
        `(T - 1) count + 1` instants; across a change of scene the frame before it is shown on.

        Yields:
            The time of the frame interval's start plus the part of it that has passed, and the picture.
        """
        if count < 1:
            raise ValueError(f"count must be one instant per frame interval or more, got {count!r}.")
        window: dict[int, Moment] = {}
        number = done = 0
        for moment in ahead(self._moments(frames), self.flows_ahead):
            window[number] = moment
            number += 1
            while done + 1 + self._reach < number:
                yield from self._interval(window, done, count)
                done += 1
                window.pop(done - self._back - 1, None)
        while done < number:
            yield from self._interval(window, done, count)
            done += 1

    # --- finding motion ---

    def _moments(self, frames: Iterable[Tensor | TimedFrame]) -> Iterator[Moment]:
        """The frames that differ, each with its flow to the one before; the flow to the one after comes with that."""
        previous: Moment | None = None
        for index, (frame, time) in enumerate(timed(frames)):
            check_frame(frame, index, None if previous is None else previous.frame)
            newest = Moment(frame.unsqueeze(0), time, time, limits_of(frame))
            if previous is not None:
                if not time > previous.until:
                    raise ValueError(f"times of frames must grow; frame {index} is at {time} after {previous.until}.")
                if self.find_repeats and previous.repeats < MOST_REPEATS and repeats(previous.frame, newest.frame):
                    previous.repeats += 1
                    previous.until = time
                    continue
                with self.seconds.of("flow"):
                    self._link(previous, newest, index - 1)
            yield newest
            if previous is not None:
                previous.searched = None
            previous = newest

    def _link(self, previous: Moment, newest: Moment, number: int) -> None:
        """Find the flows of a pair of frames; `number` is the clip's own of it."""
        size = newest.frame.shape[-2:]
        for moment in (previous, newest):
            if moment.searched is None:
                moment.searched = resized_picture(moment.frame, reduced_size(size, self.scale))
        assert previous.searched is not None and newest.searched is not None  # set right above  # noqa: PT018  # one fact of two
        if self._flow is None:
            self._flow = load_flow(default_flow(newest.frame.device))
        if self._fusion_by_device:
            self._fusion, self._fusion_by_device = load_fusion(default_fusion(newest.frame.device)), False
        found = find_flows(self._flow, previous.searched, newest.searched, number)
        reduced = reduced_size(size, self.field_scale)
        forward, backward = (resized_field(flow, reduced) for flow in found.flows)
        sure, back_sure = (None if each is None else resized_picture(each, reduced) for each in found[1:])
        to_next, to_previous = trusted_flows(ConfidentFlows(FlowPair(forward, backward), sure, back_sure))
        newest.shot = previous.shot
        if self.find_cuts:
            agreement = to_next.confidence if sure is None else consistency_confidence(forward, backward)
            if scene_changes(previous.searched, newest.searched, forward, agreement):
                newest.shot += 1
                newest.after_cut = True
                return
        if self._path:  # along which they will be settled
            previous.flows[1], newest.flows[-1] = to_next, to_previous
            measure_path(previous, newest, self._field_readout(newest))
        else:
            previous.flows[1], newest.flows[-1] = settle_flow(to_next), settle_flow(to_previous)

    def _trajectory(self, window: dict[int, Moment], index: int) -> Trajectory:
        moment = window[index]
        if moment.trajectory is None:
            readout = self._field_readout(moment)
            if self._path:
                moment.trajectory = motion_of_frame(window, index, readout, self.regularisation)
                return moment.trajectory
            order = self._order if len(moment.flows) == 2 else 1
            found = {window[index + step].time - moment.time: flow for step, flow in moment.flows.items()}
            if order == 3:
                found |= further_flows(window, index)
            moment.trajectory = fit_trajectory(
                {time: each.flow for time, each in found.items()},
                readout,
                order=order,
                confidences={time: each.confidence for time, each in found.items()},
                regularisation=self.regularisation,
            )
        return moment.trajectory

    def _field_readout(self, moment: Moment) -> Readout:
        size = (moment.frame.shape[-2], moment.frame.shape[-1])
        reduced = reduced_size(size, self.field_scale)
        return self.readout if reduced == size else self.readout.resized(size, reduced)

    # --- making frames ---

    def _with_repeats(self, window: dict[int, Moment], index: int) -> Iterator[Corrected]:
        moment = window[index]
        if moment.flows:
            around = range(index - self._behind, index + self._ahead + 1)
            same_shot = [i for i in around if i in window and window[i].shot == moment.shot]
            result = self._rendered(window, same_shot, index, self.tau)
        else:
            result = unchanged(moment.frame[0])
        yield replace(result, after_cut=moment.after_cut)
        for _ in range(moment.repeats):
            yield replace(result, repeats=True)

    def _interval(self, window: dict[int, Moment], index: int, count: int) -> Iterator[tuple[float, Corrected]]:
        """The instants from one frame up to the next, or the one instant of the last frame."""
        moment, following = window[index], window.get(index + 1)
        if following is None:
            [result, *repeated] = self._with_repeats(window, index)
            yield moment.time, result
            more = count * len(repeated)
            for step in range(more):
                yield moment.time + (moment.until - moment.time) * (step + 1) / more, replace(result, repeats=True)
            return
        if following.shot != moment.shot:
            held = next(self._with_repeats(window, index))
        instants = count * (1 + moment.repeats)
        for step in range(instants):
            passed = (following.time - moment.time) * step / instants
            if following.shot != moment.shot:
                yield moment.time + passed, replace(held, repeats=step > 0)
                continue
            nearest = index if 2 * step <= instants else index + 1
            near = [index, index + 1] if self._fusion is not None else [nearest]
            instant = self.tau + moment.time + passed - window[nearest].time
            result = self._rendered(window, near, nearest, instant)
            yield moment.time + passed, replace(result, after_cut=moment.after_cut and step == 0)

    def _rendered(self, window: dict[int, Moment], indices: list[int], own: int, tau: float) -> Corrected:
        """The picture at `tau` after the start of frame `own`, from all the frames given."""
        centre = indices.index(own)
        full = window[own].frame.shape[-2:]
        fields, usable = [], []
        for index in indices:
            with self.seconds.of("motion"):
                trajectory = self._trajectory(window, index)
                readout = self._field_readout(window[index])
                correction = partial_correction_field(
                    trajectory, readout, tau, window[own].time - window[index].time, self.strength
                )
                known = trajectory.valid
                if self.unsure == "input":
                    correction, known = fade_unsure(correction, trajectory, aligned=index != own)
            fields.append(correction)
            usable.append(known)
        with self.seconds.of("warp"):
            moments = [window[index] for index in indices]
            warped = warped_frames(moments, usable, fields, self.warp, self.interpolation)
        result = warped[centre]
        if self._fusion is not None:
            with self.seconds.of("fusion"):
                scaled = [in_pixels_of(each, each.shape[-2:], full) for each in fields]
                fused = self._fusion(self._aligned(window, indices, own, tau, warped, scaled))
                # Weights add up to 1 but for rounding.
                lows, highs = zip(*(window[index].limits for index in indices), strict=True)
                result = Warped(fused.image.clamp(min(lows), max(highs)), fused.valid)
                if self.border == "repeat":
                    shown = warped[centre].valid
                    result = Warped(torch.where(shown, result.image, warped[centre].image), shown)
        confidence = self._trajectory(window, own).confidence
        return Corrected(
            result.image[0],
            result.valid[0],
            in_pixels_of(fields[centre], fields[centre].shape[-2:], full)[0],
            unsure=float((confidence < UNSURE_BELOW).float().mean()),
            filled=1.0 - float(warped[centre].valid.float().mean()),
        )

    def _aligned(
        self,
        window: dict[int, Moment],
        indices: list[int],
        own: int,
        tau: float,
        each: list[Warped],
        fields: list[Tensor],
    ) -> AlignedFrames:
        centre = indices.index(own)
        image = each[centre].image
        height, width = image.shape[-2:]
        exposed = self.readout.row_times(height, width, dtype=image.dtype, device=image.device)
        instant = torch.lerp(exposed, torch.full_like(exposed, tau), self.strength) if self.strength < 1.0 else tau
        apart = [window[own].time - window[i].time for i in indices]
        distance = [(time + instant - exposed).abs().expand(1, 1, height, width) for time in apart]
        return AlignedFrames(
            frames=torch.stack([w.image for w in each], 1),
            correction_fields=torch.stack(fields, 1),
            valid=torch.stack([w.valid for w in each], 1),
            time_distance=torch.stack(distance, 1),
            centre=centre,
            gamma=self.readout.gamma,
        )
