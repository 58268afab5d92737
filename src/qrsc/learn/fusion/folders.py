"""Training samples of the fusion from data sets on disk, and from two sources in a proportion."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from qrsc.data.dataset import Dataset, Sample
from qrsc.flow import FlowEstimator
from qrsc.fusion.mean import plain_mean
from qrsc.learn.fusion.alignment import Alignment, AlignmentMotion, clip_flows
from qrsc.learn.fusion.samples import FusionSamples, SampleSource, join_samples
from qrsc.warp import Interpolation

FRAMES = 5  # three that are fused, and their neighbours


@dataclass
class FolderSamples:
    """Samples from random windows of a data set; call it with a generator.

    Frames are corrected in full, as in use, and cropped afterwards. Where the data set's mask marks the truth as
    unknown, the mean of the frames takes its place. A data set does not say what is visible in the centre frame; the
    validity of its correction is used instead.

    Attributes:
        windows: of five frames.
        size: `(height, width)` of the random crop.
        flow: estimates flows.
        count: samples per call.
        device: where frames are corrected.
        motion: the motion model that corrects the frames to one instant; see `Alignment`.
        interpolation: of the frames.
    """

    windows: Dataset
    size: tuple[int, int]
    flow: FlowEstimator
    count: int = 8
    device: torch.device | str = "cpu"
    motion: AlignmentMotion = "path"
    interpolation: Interpolation = "bicubic"

    def __post_init__(self) -> None:
        if self.windows.frames != FRAMES:
            raise ValueError(f"samples need windows of {FRAMES} frames; got {self.windows.frames}.")
        if len(self.windows) == 0:
            raise ValueError(f"the data set has no {FRAMES} consecutive frames with a truth for the one in the middle.")

    @torch.no_grad()
    def __call__(self, generator: torch.Generator) -> FusionSamples:
        """Return new samples."""
        chosen = torch.randint(len(self.windows), (self.count,), generator=generator).tolist()
        return join_samples([self._sample(self.windows[index], generator) for index in chosen])

    def _sample(self, sample: Sample, generator: torch.Generator) -> FusionSamples:
        frames = sample.frames[None].to(self.device)  # [1, 5, 3, H, W]
        flows = clip_flows(frames, self.flow) if self.motion != "none" else []
        centre = FRAMES // 2
        around = range(centre - 1, centre + 2)
        align = Alignment(frames, flows, sample.readout, motion=self.motion, interpolation=self.interpolation)
        aligned = align(around, 1, sample.tau)
        truth = sample.truth[None].to(self.device)
        known = sample.mask[None].to(self.device)
        if not bool(known.all()):
            truth = torch.where(known, truth, plain_mean(aligned).image)
        rows, columns = self._random_crop(sample, generator)
        return FusionSamples(
            frames=aligned.frames[..., rows, columns],
            correction_fields=aligned.correction_fields[..., rows, columns],
            valid=aligned.valid[..., rows, columns],
            time_distance=aligned.time_distance[..., rows, columns],
            gamma=torch.full((1,), sample.readout.gamma, device=truth.device),
            truth=truth[..., rows, columns],
            seen=aligned.valid[:, 1, :, rows, columns],
            side=torch.zeros(len(aligned.frames), dtype=torch.int64, device=aligned.frames.device),
        )

    def _random_crop(self, sample: Sample, generator: torch.Generator) -> tuple[slice, slice]:
        height, width = sample.truth.shape[-2:]
        if height < self.size[0] or width < self.size[1]:
            raise ValueError(
                f"{sample.name} is {width}x{height}, smaller than the parts of {self.size[1]}x{self.size[0]} that are "
                "cut out; choose a smaller size."
            )
        rand = torch.rand(2, generator=generator).tolist()
        top = int(rand[0] * (height - self.size[0] + 1))
        left = int(rand[1] * (width - self.size[1] + 1))
        return slice(top, top + self.size[0]), slice(left, left + self.size[1])


@dataclass
class MixedSamples:
    """Samples from two sources in a proportion; call it with a generator.

    Attributes:
        first, second: the sources; their samples have one size.
        share: of the samples that come from the first.
    """

    first: SampleSource
    second: SampleSource
    share: float
    _made: list[int] = field(default_factory=lambda: [0, 0])

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError(f"share must be from 0 to 1, got {self.share!r}.")

    def __call__(self, generator: torch.Generator) -> FusionSamples:
        """Return new samples, from the source that is behind its share."""
        number = 0 if self._made[0] < self.share * (sum(self._made) + 1) else 1
        source = (self.first, self.second)[number]
        samples = source(generator)
        self._made[number] += len(samples)
        return samples
