"""Frames corrected to one instant, with the true global-shutter frame, and the pool of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.fusion import AlignedFrames
from qrsc.learn.pool.pool import Pool
from qrsc.learn.pool.tensor_batch import TensorBatch

SampleSource = Callable[[torch.Generator], "FusionSamples"]


@dataclass(frozen=True)
class FusionSamples(TensorBatch):
    """A batch of samples: T aligned frames, of which the middle one is the centre, and the true frame.

    Attributes:
        frames: `[B, T, 3, H, W]`, in [0, 1].
        correction_fields: `[B, T, 2, H, W]`, pixels.
        valid: `[B, T, 1, H, W]`, bool.
        time_distance: `[B, T, 1, H, W]`, frame intervals.
        gamma: `[B]`.
        truth: `[B, 3, H, W]`, the global-shutter frame.
        seen: `[B, 1, H, W]`, bool: the point is visible in the centre frame.
        side: `[B]`, position of the centre frame in its clip: 0 inside, -1 at the end, with a neighbour before it only,
            1 at the start. The missing neighbour is black and not valid.
    """

    frames: Tensor
    correction_fields: Tensor
    valid: Tensor
    time_distance: Tensor
    gamma: Tensor
    truth: Tensor
    seen: Tensor
    side: Tensor

    def aligned(self, chosen: slice | None = None) -> AlignedFrames:
        """The input of a fusion: all frames, or some that include the centre."""
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
    """Concatenate batches."""
    return FusionSamples(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(FusionSamples)))


class SamplePool(Pool[FusionSamples]):
    """A pool of samples; each batch is cropped, flipped with its fields and row times, and changed in colour at random.

    Attributes:
        crop: `(height, width)` of the random crop; no crop if None.
        choosy: share of the samples for which two crops are drawn, and the one with more occlusion in the centre frame
            is taken: occluded pixels are what fusion is for, and they are 2 to 3 % of all.
    """

    kind_field = "side"
    crop: tuple[int, int] | None = None
    choosy: float = 0.5

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Frames in 8 bits, fields and times in 16."""
        pictures = {name: (values[name] * 255.0).round().to(torch.uint8) for name in ("frames", "truth")}
        halves = {name: values[name].to(torch.float16) for name in ("correction_fields", "time_distance")}
        return {**values, **pictures, **halves}

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> FusionSamples:
        """Augmented samples."""
        if self.crop is not None:
            drawn = self._cropped(drawn, self.crop, generator)
        for name in ("frames", "truth"):
            drawn[name] = drawn[name].float() / 255.0
        for name in ("correction_fields", "time_distance"):
            drawn[name] = drawn[name].float()
        return graded(mirrored(FusionSamples(**drawn), generator), generator)

    def _cropped(
        self, drawn: dict[str, Tensor], size: tuple[int, int], generator: torch.Generator
    ) -> dict[str, Tensor]:
        first = _crop_corners(drawn["truth"], size, generator)
        second = _crop_corners(drawn["truth"], size, generator)
        visible = [_crop_at(drawn["seen"], size, *corners).float().mean((1, 2, 3)) for corners in (first, second)]
        compared = torch.rand(len(visible[0]), generator=generator, device=visible[0].device) < self.choosy
        use_second = compared & (visible[1] < visible[0])
        top, left = (torch.where(use_second, other, own) for own, other in zip(first, second, strict=True))
        return {name: value if value.ndim == 1 else _crop_at(value, size, top, left) for name, value in drawn.items()}


def mirrored(samples: FusionSamples, generator: torch.Generator) -> FusionSamples:
    """Flip each sample horizontally, vertically, both or not at all, at random.

    A vertical flip reverses the scan; the row times are flipped with the frame.

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
        flipped = values["correction_fields"].clone()
        flipped[:, :, component] *= sign
        values["correction_fields"] = flipped
    return FusionSamples(**values)


def graded(samples: FusionSamples, generator: torch.Generator) -> FusionSamples:
    """Change exposure, tint and gamma and permute the channels, alike for all frames of a sample and its truth."""
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


def _crop_corners(pictures: Tensor, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Top rows and left columns of random crops of pictures `[B, ..., H, W]`, each `[B]`."""
    height, width = pictures.shape[-2:]
    if size[0] > height or size[1] > width:
        raise ValueError(f"samples are {height} x {width} pixels, too small for parts of {size[0]} x {size[1]}.")
    rand = torch.rand(2, len(pictures), generator=generator, device=pictures.device)
    return (rand[0] * (height - size[0] + 1)).long(), (rand[1] * (width - size[1] + 1)).long()


def _crop_at(values: Tensor, size: tuple[int, int], top: Tensor, left: Tensor) -> Tensor:
    """Crops of `[B, ..., H, W]` at these corners, `[B, ..., h, w]`."""
    count, device = len(values), values.device
    rows = top[:, None] + torch.arange(size[0], device=device)  # [B, h]
    columns = left[:, None] + torch.arange(size[1], device=device)
    flat = values.reshape(count, -1, *values.shape[-2:])
    number = torch.arange(count, device=device)[:, None, None]
    # Advanced indices on both sides of a slice come first: [B, h, w, channels].
    part = flat[number, :, rows[:, :, None], columns[:, None]].permute(0, 3, 1, 2)
    return part.reshape(*values.shape[:-2], *size)
