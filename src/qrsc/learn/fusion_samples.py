"""Frames corrected to one instant with the true picture of it, as training and scoring of the fusion use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.flow.filling import settle_flow
from qrsc.fusion import AlignedFrames
from qrsc.learn.stream import Pool
from qrsc.motion import correction_field, fit_trajectory
from qrsc.pipeline import REGULARISATION
from qrsc.timing import Readout
from qrsc.warp import Warped, apply_correction


@dataclass(frozen=True)
class FusionSamples:
    """A batch of T aligned frames each, the middle one the centre, with the truth.

    Attributes:
        frames: `[B, T, 3, H, W]`, in [0, 1].
        correction_fields: `[B, T, 2, H, W]`, pixels.
        valid: `[B, T, 1, H, W]`, bool.
        time_distance: `[B, T, 1, H, W]`, frame intervals.
        gamma: `[B]`.
        truth: `[B, 3, H, W]`, the global-shutter frame.
        seen: `[B, 1, H, W]`, bool: the centre frame shows the point.
    """

    frames: Tensor
    correction_fields: Tensor
    valid: Tensor
    time_distance: Tensor
    gamma: Tensor
    truth: Tensor
    seen: Tensor

    def __len__(self) -> int:
        return len(self.frames)

    def __getitem__(self, index: Tensor | slice) -> FusionSamples:
        """Some of the samples."""
        return FusionSamples(*(getattr(self, field.name)[index] for field in fields(self)))

    def to(self, device: torch.device | str) -> FusionSamples:
        """The same samples elsewhere."""
        return FusionSamples(*(getattr(self, field.name).to(device) for field in fields(self)))

    def aligned(self, chosen: slice | None = None) -> AlignedFrames:
        """What a fusion takes; of all frames, or of some that the centre is among."""
        count = self.frames.shape[1]
        kept = range(count)[chosen or slice(None)]
        part = slice(kept.start, kept.stop)
        return AlignedFrames(
            self.frames[:, part],
            self.correction_fields[:, part],
            self.valid[:, part],
            self.time_distance[:, part],
            kept.index(count // 2),
            self.gamma,
        )


def join_samples(parts: Sequence[FusionSamples]) -> FusionSamples:
    """One batch from several."""
    return FusionSamples(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(FusionSamples)))


class Alignment:
    """Multi-QRS on a batch of clips: any frame corrected to an instant of any other, each motion found once.

    The same steps as in `qrsc.pipeline.Corrector`, for many clips of one readout at a time.

    Args:
        frames: `[B, N, 3, H, W]`.
        forward: N - 1 flows `[B, 2, H, W]`, from each frame to the next.
        backward: N - 1 flows, from each next frame back.
        readout: what the frames are taken to be read with.
    """

    def __init__(self, frames: Tensor, forward: Sequence[Tensor], backward: Sequence[Tensor], readout: Readout) -> None:
        self.frames, self.readout = frames, readout
        self._flows: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # by frame and step; with confidences
        for index, (there, back) in enumerate(zip(forward, backward, strict=True)):
            self._flows[index, 1] = settle_flow(there, back)
            self._flows[index + 1, -1] = settle_flow(back, there)

    def __call__(
        self, indices: Sequence[int], centre: int, tau: float, without: Sequence[tuple[int, int]] = ()
    ) -> AlignedFrames:
        """Some of the frames, corrected to `tau` after the start of the one at `indices[centre]`.

        Args:
            without: (frame, step) of flows that shall not be used, as at the ends of a clip.
        """
        warped, corrections, distances = [], [], []
        height, width = self.frames.shape[-2:]
        exposed = self.readout.row_times(height, width, dtype=self.frames.dtype, device=self.frames.device)
        for index in indices:
            flows: Mapping[int, tuple[Tensor, Tensor]] = {
                step: self._flows[index, step]
                for step in (-1, 1)
                if (index, step) in self._flows and (index, step) not in without
            }
            trajectory = fit_trajectory(
                {step: flow for step, (flow, _) in flows.items()},
                self.readout,
                order=min(2, len(flows)),
                confidences={step: confidence for step, (_, confidence) in flows.items()},
                regularisation=REGULARISATION,
            )
            apart = indices[centre] - index
            correction = correction_field(trajectory, self.readout, tau, apart)
            with_mask = torch.cat([self.frames[:, index], trajectory.valid.to(self.frames.dtype)], 1)
            image, valid = apply_correction(with_mask, correction, interpolation="bilinear")
            warped.append(Warped(image[:, :3].clamp(0.0, 1.0), valid & (image[:, 3:] > 0.5)))
            corrections.append(correction)
            distances.append((apart + tau - exposed).abs().expand(len(image), 1, height, width))
        return AlignedFrames(
            torch.stack([each.image for each in warped], 1),
            torch.stack(corrections, 1),
            torch.stack([each.valid for each in warped], 1),
            torch.stack(distances, 1),
            centre,
            self.readout.gamma,
        )


class SamplePool(Pool[FusionSamples]):
    """Batches of samples: cut, mirrored with their fields and row times, and graded, in another way each time."""

    crop: tuple[int, int] | None = None

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Pictures in 8 bits, fields and times in 16."""
        pictures = {name: (values[name] * 255.0).round().to(torch.uint8) for name in ("frames", "truth")}
        halves = {name: values[name].to(torch.float16) for name in ("correction_fields", "time_distance")}
        return {**values, **pictures, **halves}

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> FusionSamples:
        """Samples, augmented."""
        if self.crop is not None:
            drawn = _cut(drawn, self.crop, generator)
        for name in ("frames", "truth"):
            drawn[name] = drawn[name].float() / 255.0
        for name in ("correction_fields", "time_distance"):
            drawn[name] = drawn[name].float()
        return graded(mirrored(FusionSamples(**drawn), generator), generator)


def mirrored(samples: FusionSamples, generator: torch.Generator) -> FusionSamples:
    """Each sample as it is, mirrored left to right, turned upside down, or both; at random.

    Turned upside down a frame is read the other way; its row times turn with it.

    Args:
        generator: on the samples' device.
    """
    values = {field.name: getattr(samples, field.name) for field in fields(samples)}
    device = samples.frames.device
    for dim, component in ((-1, 0), (-2, 1)):
        chosen = torch.rand(len(samples), generator=generator, device=device) < 0.5
        for name, value in values.items():
            if value.ndim > 1:
                own = chosen.reshape(-1, *[1] * (value.ndim - 1))
                values[name] = torch.where(own, value.flip(dim), value)
        sign = torch.where(chosen, -1.0, 1.0).reshape(-1, 1, 1, 1)
        turned = values["correction_fields"].clone()
        turned[:, :, component] *= sign
        values["correction_fields"] = turned
    return FusionSamples(**values)


def graded(samples: FusionSamples, generator: torch.Generator) -> FusionSamples:
    """Other light, tint and contrast, the same for all frames of a sample and its truth; colours exchanged."""
    count, device = len(samples), samples.frames.device

    def factor(spread: float, channels: int) -> Tensor:
        return torch.exp(spread * (2.0 * torch.rand(count, channels, 1, 1, generator=generator, device=device) - 1.0))

    light, power = factor(0.3, 1) * factor(0.15, 3), factor(0.3, 1)
    order = torch.rand(count, 3, generator=generator, device=device).argsort(1)

    def changed(pictures: Tensor) -> Tensor:  # [B, 3, H, W]
        own = pictures.gather(1, order[:, :, None, None].expand_as(pictures))
        return (own * light).clamp(1e-4, 1.0) ** power

    frames = torch.stack([changed(each) for each in samples.frames.unbind(1)], 1)
    values = {field.name: getattr(samples, field.name) for field in fields(samples)}
    return FusionSamples(**{**values, "frames": frames, "truth": changed(samples.truth)})


def _cut(values: dict[str, Tensor], size: tuple[int, int], generator: torch.Generator) -> dict[str, Tensor]:
    """A random part of each sample."""
    height, width = values["truth"].shape[-2:]
    if size[0] > height or size[1] > width:
        raise ValueError(f"samples are {height} x {width} pixels, too small for parts of {size[0]} x {size[1]}.")
    count, device = len(values["truth"]), values["truth"].device
    rand = torch.rand(2, count, generator=generator, device=device)
    top = (rand[0] * (height - size[0] + 1)).long()
    left = (rand[1] * (width - size[1] + 1)).long()
    rows = top[:, None] + torch.arange(size[0], device=device)  # [B, h]
    columns = left[:, None] + torch.arange(size[1], device=device)
    result = {}
    for name, value in values.items():
        if value.ndim == 1:
            result[name] = value
            continue
        flat = value.reshape(count, -1, height, width)
        number = torch.arange(count, device=device)[:, None, None]
        # Advanced indices on both sides of a slice come first: [B, h, w, channels].
        part = flat[number, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)
        result[name] = part.reshape(*value.shape[:-2], *size)
    return result
