"""Windows of three rolling-shutter frames with the flows and the true frames that the networks are trained with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from qrsc.baselines.learned.window import Truths, Window
from qrsc.learn.pool.pool import Pool
from qrsc.learn.pool.tensor_batch import TensorBatch

PICTURES = ("frames", "before", "first", "middle")


@dataclass(frozen=True)
class WindowSamples(TensorBatch):
    """A batch of windows, read from the top.

    Attributes:
        frames: `[B, 3, 3, H, W]`, in [0, 1]: previous, current, next.
        flows: `[B, 2, 2, H, W]`, pixels: from the previous to the current frame, and back.
        gamma: `[B]`.
        before, first, middle: `[B, 3, H, W]`, the true frames; see `Truths`.
    """

    frames: Tensor
    flows: Tensor
    gamma: Tensor
    before: Tensor
    first: Tensor
    middle: Tensor

    def window(self) -> Window:
        """What the networks are given; those that take two frames get `window().shown(2)`."""
        return Window(self.frames, self.flows, self.gamma, self.frames.shape[-2])

    def truths(self) -> Truths:
        """What their losses compare with."""
        return Truths(self.before, self.first, self.middle)


def join_windows(parts: Sequence[WindowSamples]) -> WindowSamples:
    """Concatenate batches."""
    return WindowSamples(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(WindowSamples)))


class WindowPool(Pool[WindowSamples]):
    """A pool of windows; each batch is cropped at the sides, mirrored and changed in colour at random.

    Crops keep all rows, so that the time of every row stays what it is. For the same reason nothing is mirrored upside
    down.

    Attributes:
        crop: width of the crops.
    """

    crop: int = 256

    def packed(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        """Frames in 8 bits, flows in 16."""
        pictures = {name: (values[name] * 255.0).round().to(torch.uint8) for name in PICTURES}
        return {**values, **pictures, "flows": values["flows"].to(torch.float16)}

    def augmented(self, drawn: dict[str, Tensor], generator: torch.Generator) -> WindowSamples:
        """Augmented windows."""
        drawn = _cropped(drawn, self.crop, generator)
        values = {name: value.float() for name, value in drawn.items()}
        values.update({name: values[name] / 255.0 for name in PICTURES})
        return graded(mirrored(WindowSamples(**values), generator), generator)


def mirrored(samples: WindowSamples, generator: torch.Generator) -> WindowSamples:
    """Exchange left and right in each window or not, at random.

    Args:
        generator: on the samples' device.
    """
    chosen = torch.rand(len(samples), generator=generator, device=samples.gamma.device) < 0.5
    values = {field.name: getattr(samples, field.name) for field in fields(samples)}
    for name, value in values.items():
        if value.ndim > 1:
            values[name] = torch.where(chosen.reshape(-1, *[1] * (value.ndim - 1)), value.flip(-1), value)
    sign = torch.where(chosen, -1.0, 1.0)
    across = torch.stack([sign, torch.ones_like(sign)], 1).reshape(-1, 1, 2, 1, 1)
    values["flows"] = values["flows"] * across
    return WindowSamples(**values)


def graded(samples: WindowSamples, generator: torch.Generator) -> WindowSamples:
    """Change exposure, tint and gamma and permute the channels, alike for all frames of a window and its truths."""
    count, device = len(samples), samples.gamma.device

    def factor(spread: float, channels: int) -> Tensor:
        drawn = torch.rand(count, 1, channels, 1, 1, generator=generator, device=device)
        return torch.exp(spread * (2.0 * drawn - 1.0))

    light, power = factor(0.3, 1) * factor(0.15, 3), factor(0.3, 1)
    order = torch.rand(count, 3, generator=generator, device=device).argsort(1)[:, None, :, None, None]

    def changed(pictures: Tensor) -> Tensor:  # [B, N, 3, H, W]
        own = pictures.gather(2, order.expand_as(pictures))
        return (own * light).clamp(1e-4, 1.0) ** power

    truths = changed(torch.stack([samples.before, samples.first, samples.middle], 1)).unbind(1)
    # Whole tensors of their own: the networks compare with each of them many times.
    return WindowSamples(
        changed(samples.frames), samples.flows, samples.gamma, *(truth.contiguous() for truth in truths)
    )


def _cropped(drawn: dict[str, Tensor], width: int, generator: torch.Generator) -> dict[str, Tensor]:
    """All rows and some columns of each sample, the same for everything that belongs to it."""
    whole = drawn["first"].shape[-1]
    if width > whole:
        raise ValueError(f"samples are {whole} pixels wide, too narrow for crops of {width}.")
    count, device = len(drawn["first"]), drawn["first"].device
    left = (torch.rand(count, generator=generator, device=device) * (whole - width + 1)).long()
    columns = left[:, None] + torch.arange(width, device=device)  # [B, w]

    def part(values: Tensor) -> Tensor:
        if values.ndim == 1:
            return values
        places = columns.reshape(count, *[1] * (values.ndim - 2), width)
        return values.gather(-1, places.expand(*values.shape[:-1], width))

    return {name: part(value) for name, value in drawn.items()}
