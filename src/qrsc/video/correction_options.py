"""The options of a correction as one value: what `qrsc correct` takes, apart from files and the part of a clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qrsc.backend.progress import CancelToken, ProgressCallback
from qrsc.calibrate.decision import ChosenReadout
from qrsc.flow import FlowEstimator
from qrsc.fusion import Fusion
from qrsc.names import DeviceName, Instant, MotionName, PresetName, Scan, Unsure, VideoBorder, WarpMethod
from qrsc.pipeline import Corrected, Corrector
from qrsc.pipeline.presets import choose_scale, choose_threads, get_preset
from qrsc.video.clip_job import ClipJob, EncodingOptions, prepare_clip
from qrsc.video.edges import CROPPED, Edges, choose_edges
from qrsc.video.readout import ReadoutOptions, choose_tau
from qrsc.video.source import clip_size


@dataclass(frozen=True, kw_only=True)
class CorrectionOptions:
    """How clips are corrected; see the arguments of `qrsc.correct_video`."""

    gamma: float | None = None
    readout_ms: float | None = None
    percent: float | None = None
    camera: str | None = None
    fps: float | None = None
    scan: Scan | None = None
    at: Instant | None = None
    tau: float | None = None
    strength: float = 1.0
    border: VideoBorder = "fill"
    margin: float = 0.04
    preset: PresetName = "default"
    motion: MotionName = "path"
    fusion: str | Fusion | None = None
    denoise: bool = False
    flow: str | FlowEstimator | None = None
    warp: WarpMethod = "invert"
    unsure: Unsure = "linear"
    frames: int = 5
    scale: float | None = None
    device: DeviceName = "auto"
    codec: str | None = None
    crf: float | None = None
    pixel_format: str | None = None
    encoder_preset: str | None = None
    verify: bool | None = None
    progressive: bool = False
    always: bool = False

    def job(
        self,
        source: str | Path,
        output: str | Path,
        *,
        compare: str | Path | None = None,
        start: float | None = None,
        end: float | None = None,
        overwrite: bool = False,
        chosen: ChosenReadout | None = None,
        progress: ProgressCallback | None = None,
        cancel: CancelToken | None = None,
        on_note: Callable[[str], None] | None = None,
        on_frame: Callable[[Corrected], None] | None = None,
    ) -> ClipJob:
        """Prepare a clip; see `prepare_clip`."""
        quick, transparent = self.preset == "fast", self.border == "transparent"
        return prepare_clip(
            source,
            output,
            ReadoutOptions(self.gamma, self.readout_ms, self.percent, self.camera, self.fps, self.scan),
            EncodingOptions(self.codec, self.crf, self.pixel_format, self.encoder_preset, quick, transparent),
            compare=compare,
            start=start,
            end=end,
            device=self.device,
            overwrite=overwrite,
            verify=self.verify,
            progressive=self.progressive,
            always=self.always,
            chosen=chosen,
            progress=progress,
            cancel=cancel,
            on_note=on_note,
            on_frame=on_frame,
        )

    def corrector(self, job: ClipJob, strength: float) -> Corrector:
        """The corrector of a clip; `strength` may be less than was asked for."""
        readout = job.chosen.readout
        return Corrector(
            readout,
            preset=self.preset,
            tau=choose_tau(readout, self.tau, self.at),
            motion=self.motion,
            fusion=self.fusion,
            denoise=self.denoise,
            warp=self.warp,
            flow=self.flow,
            frames=self.frames,
            strength=strength,
            border="repeat" if self.border == "repeat" else "fill",
            unsure=self.unsure,
            scale=choose_scale(self.scale, clip_size(job.source, job.info)),
            find_cuts=True,
            find_repeats=True,
            flows_ahead=1,
        )

    def edges(self, size: tuple[int, int]) -> Edges:
        """What becomes of the edges of frames of a size `(H, W)`."""
        return choose_edges(self.border, self.margin, size)

    def threads(self, job: ClipJob) -> int | None:
        """How many threads each operation gets; None for all of them."""
        # Networks asked for beside the fast preset have more to do than a search, and get all cores.
        quick = get_preset(self.preset).halves_threads and self.flow is None and self.fusion is None
        return choose_threads(job.device) if quick and not self.denoise else None

    def keeps_all(self, corrector: Corrector) -> bool:
        """Whether every frame leaves as it comes: nothing is corrected, nor cropped."""
        return corrector.changes_nothing and self.border not in CROPPED
