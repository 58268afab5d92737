"""The corrector: options in, checked once; each clip is a `Stream` of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import get_args

import torch
from torch import Tensor

from qrsc.flow import FlowEstimator
from qrsc.fusion import Fusion
from qrsc.names import Border, FusionName, Interpolation, MotionName, PresetName, Unsure, WarpMethod
from qrsc.pipeline.align import MOTION_ORDERS, REGULARISATION, MotionModel
from qrsc.pipeline.corrected import Corrected, Seconds, unchanged
from qrsc.pipeline.input_frames import MENDED, InputFrame, ready_frames
from qrsc.pipeline.presets import get_preset
from qrsc.pipeline.recorded import Steps
from qrsc.pipeline.resolve import Resolved, Resolver, name_of
from qrsc.pipeline.stream import Stream, StreamSettings
from qrsc.timing import Readout
from qrsc.warp import INTERPOLATIONS, WARP_METHODS

WINDOWS = (3, 4, 5)
DENOISING: FusionName = "coherent"  # the fusion that `denoise` stands for
EARLIEST, LATEST = -1.0, 2.0  # target times: beyond the neighbouring frames nothing is known about the motion
BORDERS: tuple[Border, ...] = get_args(Border)
UNSURE: tuple[Unsure, ...] = get_args(Unsure)


class Corrector:
    """Corrects clips frame by frame, each flow computed once.

    Args:
        readout: how the camera reads its frames.
        preset: `fast`, `default` or `best`, as in `qrsc correct`: sets `flow`, `fusion` and `field_scale` where they
            are not given. None leaves flow and fusion to the device, and solves motion at full size.
        tau: the global-shutter instant, in frame intervals after the start of each frame; None is the middle row.
        motion: of each pixel, `linear` (order 1), `quadratic` (2) or `cubic` (3, from the flows to two frames on either
            side). The first and the last frame of a clip have one neighbour and are linear. `path` first fits the
            camera's path through 7 frames, and a quadratic motion to the residual (see `qrsc.motion.camera_path`).
        fusion: `mean` merges neighbouring frames corrected to the same instant, `coherent` keeps only the detail that
            they agree on, which removes noise; `none` uses each frame alone. Or the name of a network with shipped
            weights, a file of weights (.safetensors), or a function of `qrsc.fusion.AlignedFrames`. None is the
            default, `rsa2-lite`.
        warp: `invert`, `splat` or `negate`; see `qrsc.warp.apply_correction`.
        denoise: use the fusion `coherent`, which removes noise and, with it, fine detail; not together with another
            `fusion`.
        flow: an estimator or its name; None is the default for the device, see `qrsc.flow.default_flow`.
        frames: size of the window, 3, 4 or 5; the inner 1, 2 or 3 frames of it are fused.
        interpolation: `bicubic`, or `bilinear` (removes a quarter of the energy of fine detail; on noisy frames with
            imperfect flow up to 0.4 dB ahead). None is what the fusion was made for, and bicubic if it does not say.
        regularisation: pull of the acceleration towards zero.
        strength: 1 corrects fully; 0.5 gives what a camera with half the readout time would have seen; 0 nothing.
        border: what the frame does not show is taken from neighbours (`fill`), or repeats its edge (`repeat`).
        unsure: pixels whose flows contradict each other follow the simpler model (`linear`), or, where whole regions
            do, fade to the input frame (`input`).
        scale: the size at which flow is found, relative to the frames: 0.5 for 4K.
        field_scale: the size at which motion is solved and inverted, relative to the frames, at most `scale`. None is
            the preset's, and 1 without a preset.
        find_cuts: do not look across a change of scene.
        find_repeats: recognise a frame that only repeats the one before, and give it the same correction.
        flows_ahead: how many frames a second thread may find flows for while this one warps; 0 for no thread.

    Device and dtype are those of the frames; flow and fusion are chosen anew for each clip, by the device of its
    frames (see `resolved`). `seconds` says where the time went.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        preset: PresetName | None = None,
        tau: float | None = None,
        motion: MotionName = "path",
        fusion: str | Fusion | None = None,
        denoise: bool = False,
        warp: WarpMethod = "invert",
        flow: FlowEstimator | str | None = None,
        frames: int = 5,
        interpolation: Interpolation | None = None,
        regularisation: float = REGULARISATION,
        strength: float = 1.0,
        border: Border = "fill",
        unsure: Unsure = "linear",
        scale: float = 1.0,
        field_scale: float | None = None,
        find_cuts: bool = False,
        find_repeats: bool = False,
        flows_ahead: int = 0,
    ) -> None:
        choices = {
            "motion": (motion, tuple(MOTION_ORDERS)),
            "warp": (warp, WARP_METHODS),
            "interpolation": (interpolation or "bicubic", INTERPOLATIONS),
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
        if tau is not None and not EARLIEST <= tau <= LATEST:
            raise ValueError(
                f"tau must be a time from {EARLIEST:g} to {LATEST:g} frame intervals after the frame's start, within "
                f"its neighbours; got {tau!r}."
            )
        basis = None if preset is None else get_preset(preset)
        if field_scale is None:
            field_scale = 1.0 if basis is None else basis.field_scale
        for name, factor in (("scale", scale), ("field_scale", field_scale)):
            if not 0.0 < factor <= 1.0:
                raise ValueError(f"{name} must be over 0 and at most 1, got {factor!r}.")
        if denoise and fusion not in (None, DENOISING):
            raise ValueError(
                f"denoise uses the fusion {DENOISING!r}, and {name_of(fusion)!r} was asked for: leave out one of them."
            )
        self._resolver = Resolver(flow, DENOISING if denoise else fusion, interpolation, basis, frames - 2)
        self.preset = preset
        self.seconds = Seconds()
        self._steps = Steps()
        self.settings = StreamSettings(
            readout,
            readout.instant("middle") if tau is None else float(tau),
            MotionModel(motion, regularisation),
            self._resolver.frames,
            warp,
            strength,
            border,
            unsure,
            scale,
            min(scale, field_scale),
            find_cuts,
            find_repeats,
            flows_ahead,
        )

    def __call__(self, frames: Tensor) -> Tensor:
        """Correct a whole clip `[T, 3, H, W]`; returns the same shape."""
        if frames.ndim != 4 or len(frames) == 0:
            raise ValueError(f"a clip is a tensor [T, 3, H, W] of one frame or more; got {tuple(frames.shape)}.")
        return torch.stack([corrected.frame for corrected in self.stream(frames)])

    @property
    def changes_nothing(self) -> bool:
        """Whether every frame comes back as it went in: a global shutter at its own instant, or no strength."""
        readout = self.settings.readout
        return self.settings.strength == 0.0 or (readout.gamma == 0.0 and self.settings.tau == readout.offset)

    def resolved(self, device: torch.device | str) -> Resolved:
        """The flow, fusion and interpolation used for frames on a device, and why."""
        return self._resolver(torch.device(device))

    def stream(self, frames: Iterable[InputFrame]) -> Iterator[Corrected]:
        """Correct frames as they come: one out for each one in, a few frames later, in order.

        Frames are tensors `[3, H, W]` of floats in [0, 1], or numpy arrays `[H, W, 3]` of uint8, uint16 or floats in
        [0, 1]; results are tensors. Frames without a time (see `TimedFrame`) are one frame interval apart. Pixels that
        are not finite are filled from their surroundings.
        """
        if not self.changes_nothing:
            yield from self.new_stream().corrected(frames)
            return
        for ready in ready_frames(frames):
            yield unchanged(ready.frame, MENDED if ready.mended else False)

    def between(self, frames: Iterable[InputFrame], count: int) -> Iterator[tuple[float, Corrected]]:
        """Temporal super-resolution: `count` instants per frame interval, evenly spaced.

        Each is fused from the two frames around it, both corrected to it (the nearer one alone if `fusion` is `none`).
        The first instant of a frame is `tau` after its start. Nothing lies beyond the last frame, so T frames give
        `(T - 1) count + 1` instants. Before a change of scene the last frame of the shot is held.

        Yields:
            The time of the frame interval's start plus the part of it that has passed, and the picture.
        """
        if count < 1:
            raise ValueError(f"count must be one instant per frame interval or more, got {count!r}.")
        yield from self.new_stream().between(frames, count)

    def new_stream(self) -> Stream:
        """One pass over a clip, or over a part of it (see `Stream.corrected_from`)."""
        return Stream(self.settings, self.resolved, self.seconds, self._steps)
