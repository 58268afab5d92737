"""Frames corrected to one instant with the true picture of it, as training and scoring of the fusion use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.fusion import AlignedFrames
from qrsc.learn.pool.pool import Pool


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
        side: `[B]`, where in its clip the centre frame is: 0 inside, -1 at its end, where there are frames before it
            alone, 1 at its start. The neighbour that is not there is black.
    """

    frames: Tensor
    correction_fields: Tensor
    valid: Tensor
    time_distance: Tensor
    gamma: Tensor
    truth: Tensor
    seen: Tensor
    side: Tensor

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


class SamplePool(Pool[FusionSamples]):
    """Batches of samples: cut, mirrored with their fields and row times, and graded, in another way each time.

    Attributes:
        crop: `(height, width)` of the part that is cut out of each; all of it if None.
        choosy: for this part of the samples two parts are drawn, and the one is taken that hides more of itself from
            the centre frame: there is what fusion is for, and it is 2 to 3 % of the pixels.
    """

    kind_of = "side"
    crop: tuple[int, int] | None = None
    choosy: float = 0.5

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Pictures in 8 bits, fields and times in 16."""
        pictures = {name: (values[name] * 255.0).round().to(torch.uint8) for name in ("frames", "truth")}
        halves = {name: values[name].to(torch.float16) for name in ("correction_fields", "time_distance")}
        return {**values, **pictures, **halves}

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> FusionSamples:
        """Samples, augmented."""
        if self.crop is not None:
            drawn = self._part(drawn, self.crop, generator)
        for name in ("frames", "truth"):
            drawn[name] = drawn[name].float() / 255.0
        for name in ("correction_fields", "time_distance"):
            drawn[name] = drawn[name].float()
        return graded(mirrored(FusionSamples(**drawn), generator), generator)

    def _part(self, drawn: dict[str, Tensor], size: tuple[int, int], generator: torch.Generator) -> dict[str, Tensor]:
        first = _places(drawn["truth"], size, generator)
        second = _places(drawn["truth"], size, generator)
        shown = [_cut_at(drawn["seen"], size, *places).float().mean((1, 2, 3)) for places in (first, second)]
        often = torch.rand(len(shown[0]), generator=generator, device=shown[0].device) < self.choosy
        better = often & (shown[1] < shown[0])
        top, left = (torch.where(better, other, own) for own, other in zip(first, second, strict=True))
        return {name: value if value.ndim == 1 else _cut_at(value, size, top, left) for name, value in drawn.items()}


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


def _places(pictures: Tensor, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Where random parts of pictures `[B, ..., H, W]` begin: rows and columns, `[B]` each."""
    height, width = pictures.shape[-2:]
    if size[0] > height or size[1] > width:
        raise ValueError(f"samples are {height} x {width} pixels, too small for parts of {size[0]} x {size[1]}.")
    rand = torch.rand(2, len(pictures), generator=generator, device=pictures.device)
    return (rand[0] * (height - size[0] + 1)).long(), (rand[1] * (width - size[1] + 1)).long()


def _cut_at(values: Tensor, size: tuple[int, int], top: Tensor, left: Tensor) -> Tensor:
    """A part of each of `[B, ..., H, W]`: `[B, ..., h, w]`."""
    count, device = len(values), values.device
    rows = top[:, None] + torch.arange(size[0], device=device)  # [B, h]
    columns = left[:, None] + torch.arange(size[1], device=device)
    flat = values.reshape(count, -1, *values.shape[-2:])
    number = torch.arange(count, device=device)[:, None, None]
    # Advanced indices on both sides of a slice come first: [B, h, w, channels].
    part = flat[number, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)
    return part.reshape(*values.shape[:-2], *size)
