"""One pass over a clip: the sliding window with its cuts and repeats, each flow computed once."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from qrsc.backend.fallback import fallback_of, joined
from qrsc.backend.prefetch import prefetch
from qrsc.flow import ConfidentFlows, EncodingEstimator, FlowPair, find_flows, for_even_light
from qrsc.image.resize import reduced_size, resized_picture
from qrsc.motion.consistency import consistency_confidence
from qrsc.motion.fill import TrustedFlow
from qrsc.names import Border, Unsure, WarpMethod
from qrsc.pipeline.align import (
    Correction,
    FrameMotion,
    MotionModel,
    MovingFrame,
    prepared_flow,
    readout_on_grid,
    trusted_flows,
)
from qrsc.pipeline.brightness import even_light, is_same_scene, light_changes, trusted_by_structure
from qrsc.pipeline.continuity import is_discontinuous, pair_motion
from qrsc.pipeline.corrected import Corrected, Seconds, unchanged
from qrsc.pipeline.input_frames import MENDED, InputFrame, ready_frames
from qrsc.pipeline.recorded import Steps
from qrsc.pipeline.resolve import Resolved
from qrsc.pipeline.scenes import repeats, scene_changes
from qrsc.pipeline.visibility import between_two
from qrsc.pipeline.window import (
    PATH_REACH,
    FrameMark,
    WindowFrame,
    frame_mark,
    fused_with,
    measure_path,
    window_frame,
    window_motion,
)
from qrsc.timing import Readout
from qrsc.warp import Warped

# Repeats of one frame that are counted: outputs wait for the first frame that differs, and must not wait for ever on a
# still picture. Further ones are frozen: they get the result of the frame that they repeat, at once.
MOST_REPEATS = 8
FREEZES = 2  # repeats from which on a picture counts as frozen: changes of frame rate repeat a frame once
MOST_MARKS = 64  # frames of which marks are kept
UNSURE_BELOW = 0.5  # confidence below which a pixel counts as unsure in `Corrected.unsure`
ALONE = "no other frame in its shot: returned as it came in"
HELD = "the next frame is of another shot: the last frame of this one is held"


@dataclass(frozen=True)
class StreamSettings:
    """How clips are corrected; see the arguments of `qrsc.Corrector`.

    Attributes:
        fused: number of frames that are fused, 1 for each frame by itself.
    """

    readout: Readout
    tau: float
    motion: MotionModel
    fused: int
    warp: WarpMethod = "invert"
    strength: float = 1.0
    border: Border = "fill"
    unsure: Unsure = "linear"
    scale: float = 1.0
    field_scale: float = 1.0
    find_cuts: bool = False
    find_repeats: bool = False
    flows_ahead: int = 0


class Stream:
    """One pass over a clip.

    Args:
        settings: how to correct.
        resolve: gives flow and fusion for a device; asked once, with the device of this clip's frames.
        seconds: counts where the time goes.
        steps: record what many clips have in common; those of this clip alone if None.
    """

    def __init__(
        self,
        settings: StreamSettings,
        resolve: Callable[[torch.device], Resolved],
        seconds: Seconds,
        steps: Steps | None = None,
    ) -> None:
        self._settings, self._resolve, self._seconds = settings, resolve, seconds
        self._steps = Steps() if steps is None else steps
        self._resolved: Resolved | None = None
        self._window: dict[int, WindowFrame] = {}
        self._latest: Corrected | None = None  # result for a frame of the clip, for frames that repeat it
        self._marks: deque[FrameMark] = deque(maxlen=MOST_MARKS)
        model = settings.motion
        self._behind = settings.fused // 2
        self._ahead = settings.fused - 1 - self._behind
        # The motion of a frame depends on this many frames before it (path equations are kept without their frames),
        # and is known once this many after it have come. Along a path the last frame of a clip depends on two before
        # it; fusion holds one of them.
        self._back = 2 if model.order == 3 or (model.along_path and self._behind == 0) else 1
        self._reach = PATH_REACH if model.along_path else self._back

    def corrected(self, frames: Iterable[InputFrame]) -> Iterator[Corrected]:
        """One result for each frame `[3, H, W]`, a few frames later, in order."""
        return (result for result in self.corrected_from(0, frames) if result is not None)

    def corrected_from(self, first: int, frames: Iterable[InputFrame]) -> Generator[Corrected | None, None, None]:
        """The same for the frames from number `first` on, and the last one before it that differs from it.

        None stands for earlier frames: their motion is found, and they are not corrected.
        """
        window, count, emitted = self._window, 0, 0
        for frame in prefetch(self._linked(frames), self._settings.flows_ahead):
            window[count] = frame
            count += 1
            self._marks.append(frame_mark(frame))
            while emitted + self._ahead + self._reach < count:
                yield from self._wanted(emitted, first)
                emitted += 1
                # The oldest frame that the next output is fused from, and the frames that its motion depends on.
                window.pop(emitted - self._behind - self._back - 1, None)
        if count == 1 and window[0].repeats == 0:
            warnings.warn("a clip of one frame shows no motion: it is returned as it is.", stacklevel=4)
        while emitted < count:
            yield from self._wanted(emitted, first)
            emitted += 1

    def marks_before(self, number: int) -> list[FrameMark]:
        """What is remembered of the last frames before a number; of few, and only of those that came recently."""
        return [mark for mark in self._marks if mark.number < number]

    def between(self, frames: Iterable[InputFrame], count: int) -> Iterator[tuple[float, Corrected]]:
        """`count` instants for every frame interval; see `qrsc.Corrector.between`."""
        window, number, done = self._window, 0, 0
        for frame in prefetch(self._linked(frames), self._settings.flows_ahead):
            window[number] = frame
            number += 1
            while done + 1 + self._reach < number:
                yield from self._interval(done, count)
                done += 1
                window.pop(done - self._back - 1, None)
        while done < number:
            yield from self._interval(done, count)
            done += 1

    # --- frames in ---

    def _linked(self, frames: Iterable[InputFrame]) -> Iterator[WindowFrame]:
        """The frames that differ, each with its flow to the previous one; its flow to the next comes with that one.

        If cuts are to be found, a frame comes one later: when the pair that it ends has been compared with the next.
        """
        compared = self._settings.find_cuts
        previous: WindowFrame | None = None
        earlier: WindowFrame | None = None  # the frame before the previous one
        for index, ready in enumerate(ready_frames(frames)):
            newest, time, restarts = window_frame(ready, index), ready.time, ready.restarts
            if previous is not None:
                if not time > previous.until:
                    raise ValueError(f"times of frames must grow; frame {index} is at {time} after {previous.until}.")
                repeated = self._settings.find_repeats and not restarts and repeats(previous.frame, newest.frame)
                if repeated and previous.repeats < MOST_REPEATS:
                    previous.repeats += 1
                    previous.until = time
                    continue
                newest.frozen = repeated
                if restarts or repeated or previous.frozen:
                    _start_shot(previous, newest)
                else:
                    with self._seconds.of("flow"):
                        self._link(previous, newest, index - 1)
                if compared:
                    self._conclude(earlier, previous, newest)
                    yield previous
                else:
                    self._conclude(previous, newest, None)
                previous.search_image = previous.encoded = None
            if not compared:
                yield newest
            earlier, previous = previous, newest
        if compared and previous is not None:
            self._conclude(earlier, previous, None)
            yield previous

    def _conclude(self, earlier: WindowFrame | None, frame: WindowFrame, following: WindowFrame | None) -> None:
        """Separate a pair of frames that does not continue the motion around it, or keep what it says of the path.

        Args:
            earlier, frame: the pair; None if there is none.
            following: the frame after it, already linked.
        """
        if earlier is None or -1 not in frame.flows:
            return
        after = None if following is None else following.pair_motion
        motions = (earlier.pair_motion, frame.pair_motion, after)
        gamma, freezes = self._settings.readout.gamma, frame.repeats >= FREEZES
        if self._settings.find_cuts and is_discontinuous(*motions, gamma, freezes=freezes):
            del earlier.flows[1], frame.flows[-1]
            frame.pair_motion, frame.shot, frame.after_cut = None, frame.shot + 1, True
            if following is not None:
                following.shot += 1
        elif self._settings.motion.along_path:
            measure_path(earlier, frame, self._grid_readout(frame), self._steps)

    def _link(self, previous: WindowFrame, newest: WindowFrame, number: int) -> None:
        """Find the flows of a pair of frames, the clip's pair of that number, and whether there is a cut between."""
        if self._resolved is None:
            self._resolved = self._resolve(newest.frame.device)
        first, second = (self._search_image(frame) for frame in (previous, newest))
        found = self._found(previous, newest, number)
        to_next, to_previous, agreement = self._flows(previous, newest, found)
        newest.shot = previous.shot
        if self._settings.find_cuts:
            cut = scene_changes(first, second, to_next.flow, agreement)
            if cut or light_changes(first, second, to_next.flow):
                even = (even_light(first), even_light(second))
                found = find_flows(for_even_light(self._resolved.flow), *even, number)
                to_next, to_previous, agreement = self._flows(previous, newest, found)
                to_next = trusted_by_structure(to_next, *even)
                to_previous = trusted_by_structure(to_previous, *reversed(even))
                if cut and not is_same_scene(agreement, to_next.confidence):
                    _start_shot(previous, newest)
                    return
                newest.light_changes = True
        model = self._settings.motion
        previous.flows[1], newest.flows[-1] = prepared_flow(to_next, model), prepared_flow(to_previous, model)
        if self._settings.find_cuts and not previous.repeats:  # else the time between them is not known
            newest.pair_motion = pair_motion(to_next, newest.time - previous.time, self._settings.readout)

    def _found(self, previous: WindowFrame, newest: WindowFrame, number: int) -> ConfidentFlows:
        """The flows of a pair of frames, the clip's pair of that number, at the size at which flow is found."""
        assert self._resolved is not None  # by the caller
        flow = self._resolved.flow
        if not isinstance(flow, EncodingEstimator):
            return find_flows(flow, self._search_image(previous), self._search_image(newest), number)
        for frame in (previous, newest):
            if frame.encoded is None:
                frame.encoded = flow.encoded(self._search_image(frame))
        return flow.between(previous.encoded, newest.encoded)

    def _flows(
        self, previous: WindowFrame, newest: WindowFrame, found: ConfidentFlows
    ) -> tuple[TrustedFlow, TrustedFlow, Tensor]:
        """The flows of a pair of frames there and back, on the grid of the motion, and how far they agree.

        Args:
            previous, newest: the pair; they keep what the estimator falls back to.
            found: its flows as the estimator found them.
        """
        assert self._resolved is not None  # by the caller
        reason = fallback_of(self._resolved.flow)
        for frame in (previous, newest):
            frame.flow_fallback = reason or frame.flow_fallback
        grid = self._grid(newest)
        (forward, backward), (sure, back_sure) = self._steps.on_grid(found.flows, found[1:], grid)
        to_next, to_previous = trusted_flows(ConfidentFlows(FlowPair(forward, backward), sure, back_sure))
        known = sure is None or not self._settings.find_cuts  # or not asked for
        agreement = to_next.confidence if known else consistency_confidence(forward, backward)
        return to_next, to_previous, agreement

    def _search_image(self, frame: WindowFrame) -> Tensor:
        """`[1, 3, h, w]`, the frame at the size at which flow is found; kept for the pair with the next frame."""
        if frame.search_image is None:
            size = reduced_size(frame.frame.shape[-2:], self._settings.scale)
            frame.search_image = resized_picture(frame.frame, size)
        return frame.search_image

    def _grid(self, frame: WindowFrame) -> tuple[int, int]:
        """`(h, w)` at which motion is solved."""
        return reduced_size(frame.frame.shape[-2:], self._settings.field_scale)

    def _grid_readout(self, frame: WindowFrame) -> Readout:
        return readout_on_grid(self._settings.readout, frame.frame.shape[-2:], self._grid(frame))

    def _motion(self, index: int) -> FrameMotion:
        """The motion of a frame of the window, found once."""
        frame = self._window[index]
        if frame.motion is None:
            frame.motion = window_motion(
                self._window, index, self._grid_readout(frame), self._settings.motion, self._steps
            )
        return frame.motion

    # --- frames out ---

    def _wanted(self, index: int, first: int) -> Iterator[Corrected | None]:
        """The results of a frame and its repeats, or as many times None if it is not wanted."""
        frame = self._window[index]
        following, second = (self._window.get(index + step) for step in (1, 2))
        if following is None or following.frozen or second is None or second.number > first:
            yield from self._with_repeats(index)
            return
        if frame.flows:  # the motion of later frames may depend on it
            for each in fused_with(self._window, index, self._behind, self._ahead):
                self._motion(each)
        yield from [None] * (1 + frame.repeats)

    def _with_repeats(self, index: int) -> Iterator[Corrected]:
        frame = self._window[index]
        if frame.frozen and self._latest is not None:
            for _ in range(1 + frame.repeats):
                yield replace(self._latest, repeats=True, after_cut=False)
            return
        if frame.flows:
            together = fused_with(self._window, index, self._behind, self._ahead)
            result = self._rendered(together, index, self._settings.tau)
        else:
            result = unchanged(frame.frame[0], ALONE)
        self._latest = result
        yield replace(result, after_cut=True) if frame.after_cut else result
        for _ in range(frame.repeats):
            yield replace(result, repeats=True)

    def _interval(self, index: int, count: int) -> Iterator[tuple[float, Corrected]]:
        """The instants from one frame up to the next, or the one instant of the last frame."""
        frame, following = self._window[index], self._window.get(index + 1)
        if following is None:
            [result, *repeated] = self._with_repeats(index)
            yield frame.time, result
            more = count * len(repeated)
            for step in range(more):
                yield frame.time + (frame.until - frame.time) * (step + 1) / more, replace(result, repeats=True)
            return
        instants = count * (1 + frame.repeats)
        times = [(following.time - frame.time) * step / instants for step in range(instants)]
        if following.shot != frame.shot:
            held = next(self._with_repeats(index))
            yield frame.time, held
            for passed in times[1:]:
                yield frame.time + passed, replace(held, repeats=True, fallback=HELD)
            return
        alone = self._resolved is None or self._resolved.fusion is None
        for step, passed in enumerate(times):
            nearest = index if 2 * step <= instants else index + 1
            instant = self._settings.tau + frame.time + passed - self._window[nearest].time
            result = self._rendered([nearest] if alone else [index, index + 1], nearest, instant, between=True)
            begins = frame.after_cut and step == 0
            yield frame.time + passed, replace(result, after_cut=True) if begins else result

    def _rendered(self, indices: list[int], own: int, tau: float, *, between: bool = False) -> Corrected:
        """The picture at `tau` after the start of frame `own`, from all the frames given; two, if it lies between."""
        assert self._resolved is not None  # frames with a motion have been linked
        settings, fusion = self._settings, self._resolved.fusion
        with self._seconds.of("motion"):
            motions = [self._motion(index) for index in indices]
        frames = [self._window[index] for index in indices]
        centre = indices.index(own)
        aligned = self._steps.align(
            [MovingFrame(f.frame, f.time, m.trajectory, f.limits) for f, m in zip(frames, motions, strict=True)],
            centre,
            tau,
            settings.readout,
            Correction(settings.warp, self._resolved.interpolation, settings.strength, settings.unsure),
            self._seconds,
        )
        alone = Warped(aligned.frames[:, centre], aligned.valid[:, centre])
        result = alone
        if fusion is not None:
            with self._seconds.of("fusion"):
                fused = between_two(fusion, aligned) if between and len(frames) == 2 else fusion(aligned)
                # Weights add up to 1 but for rounding.
                lows, highs = zip(*(frame.limits for frame in frames), strict=True)
                result = Warped(fused.image.clamp(min(lows), max(highs)), fused.valid)
                if settings.border == "repeat":
                    result = Warped(torch.where(alone.valid, result.image, alone.image), alone.valid)
        own_motion = motions[centre]
        return Corrected(
            result.image[0],
            result.valid[0],
            aligned.correction_fields[0, centre],
            unsure=(own_motion.trajectory.confidence < UNSURE_BELOW).float().mean(),
            filled=(~alone.valid).float().mean(),
            fallback=joined(
                own_motion.fallback or None,
                frames[centre].flow_fallback,
                fallback_of(fusion),
                self._steps.fallback,
                MENDED if frames[centre].mended else None,
            )
            or False,
        )


def _start_shot(previous: WindowFrame, newest: WindowFrame) -> None:
    """Begin a new shot: nothing is followed from one frame to the other."""
    newest.shot = previous.shot + 1
    newest.after_cut = not newest.frozen
