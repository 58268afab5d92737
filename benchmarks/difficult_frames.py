"""Frames whose motion cannot be measured: what becomes of their detail, and how far are they moved?

A shaking camera's clip with a frozen tail, a flash, a dropped frame, a jump cut, a fade, an exposure change and dark
bars that roll through the picture. For every frame: the energy of its detail over that of its input, and by how much
the correction exceeds the true one, in pixels (99.9 % of the pixels). Bars: detail from 0.85 on, excess up to 0.5 px.

    python benchmarks/difficult_frames.py --preset fast
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from qrsc.evaluate.metrics.detail import detail
from qrsc.image.resize import resized_picture
from qrsc.names import PresetName
from qrsc.pipeline import Corrected, Corrector
from qrsc.timing import Readout
from qrsc.warp import sample

READOUT = Readout(0.8)
LEAST_DETAIL, LARGEST_EXCESS = 0.85, 0.5
LIGHT_MARGIN = 10  # rows beside a change of light that do not count as detail


@dataclass(frozen=True)
class Clip:
    """Frames `[T, 3, H, W]` with the lengths of their true corrections `[T, H, W]` in pixels."""

    frames: Tensor
    lengths: Tensor
    light_edge: int | None = None  # a row at which the light changes within a frame


def walk(size: tuple[int, int], count: int, seed: int) -> Clip:
    """A detailed picture seen by a shaking camera: `count` frames of a size `(H, W)`."""
    generator = torch.Generator().manual_seed(seed)
    height, width = size
    picture = _texture((height + 80, width + 160), generator)
    amplitude = torch.tensor([8.0, 3.0]) * (0.7 + 0.6 * torch.rand(3, 2, generator=generator))
    rate = 0.2 + 0.3 * torch.rand(3, 2, generator=generator)
    phase = 6.2832 * torch.rand(3, 2, generator=generator)
    drift = torch.tensor([1.5, 0.3])

    def place(time: Tensor) -> Tensor:
        """Where the camera looks at times `[N]`: `[2, N]`."""
        when = time.reshape(-1, 1, 1)
        return (drift * time[:, None] + (amplitude * torch.sin(rate * when + phase)).sum(dim=1)).T

    x, y = torch.arange(width), torch.arange(height)
    frames, lengths = [], []
    for number in range(count):
        rows = place(number + READOUT.gamma * y / height)  # [2, H]
        target = place(torch.tensor([number + READOUT.instant("middle")]))  # [2, 1]
        seen = torch.stack(
            [(40.0 + x + rows[0][:, None]), (40.0 + y[:, None] + rows[1][:, None]).expand(height, width)]
        )
        frames.append(sample(picture, seen, interpolation="bicubic").image.clamp(0.0, 1.0))
        lengths.append((rows - target).norm(dim=0)[:, None].expand(height, width))
    return Clip(torch.stack(frames), torch.stack(lengths))


def _texture(size: tuple[int, int], generator: torch.Generator) -> Tensor:
    """`[3, H, W]`: noise of all scales, from leaves to buildings."""
    total = torch.zeros(3, *size)
    for octave in range(7):
        coarse = torch.rand(1, 3, size[0] // 2**octave + 2, size[1] // 2**octave + 2, generator=generator) - 0.5
        total += 1.5**octave * torch.nn.functional.interpolate(coarse, size, mode="bicubic")[0]
    return (0.5 + 0.2 * total / total.std()).clamp(0.0, 1.0)


def frozen_tail(clip: Clip) -> Clip:
    """The last frames repeat one, with a little coding noise; before it the clip jumps."""
    noise = 0.003 * torch.randn(14, *clip.frames.shape[1:], generator=torch.Generator().manual_seed(0))
    last = clip.frames[-1:]
    return Clip(
        torch.cat([clip.frames[:8], last, last + noise]),
        torch.cat([clip.lengths[:8], clip.lengths[-1:].expand(15, -1, -1)]),
    )


def flash(clip: Clip) -> Clip:
    """One frame is over-exposed, from a row on: the flash goes off while it is read."""
    frames = clip.frames.clone()
    rows = frames.shape[-2] // 3
    frames[6, :, rows:] = (2.5 * frames[6, :, rows:]).clamp(max=1.0)
    frames[7, :, :rows] = (2.5 * frames[7, :, :rows]).clamp(max=1.0)
    return Clip(frames, clip.lengths, rows)


def dropped_frame(clip: Clip) -> Clip:
    """One frame is missing, and timestamps do not say so."""
    kept = [index for index in range(len(clip.frames)) if index != 7]
    return Clip(clip.frames[kept], clip.lengths[kept])


def jump_cut(clip: Clip) -> Clip:
    """The same scene ten frames later."""
    kept = [*range(7), *range(17, len(clip.frames))]
    return Clip(clip.frames[kept], clip.lengths[kept])


def fade(clip: Clip) -> Clip:
    """Nearly to black within ten frames."""
    brightness = torch.cat([torch.ones(4), torch.linspace(1.0, 0.05, 10)])
    return Clip(clip.frames[:14] * brightness.reshape(-1, 1, 1, 1), clip.lengths[:14])


def exposure_change(clip: Clip) -> Clip:
    """Half the brightness from one frame on."""
    frames = clip.frames[:14].clone()
    frames[7:] *= 0.5
    return Clip(frames, clip.lengths[:14])


def rolling_bar(clip: Clip) -> Clip:
    """Dark bars of a lamp roll through the picture."""
    rows = torch.arange(clip.frames.shape[-2]) / clip.frames.shape[-2]
    phase = torch.arange(14)[:, None] * 0.37 + 0.8 * rows[None]
    return Clip(clip.frames[:14] * (1.0 - 0.45 * torch.sin(6.2832 * phase) ** 8)[:, None, :, None], clip.lengths[:14])


CASES: dict[str, Callable[[Clip], Clip]] = {
    "plain": lambda clip: Clip(clip.frames[:14], clip.lengths[:14]),
    "frozen tail": frozen_tail,
    "flash": flash,
    "dropped frame": dropped_frame,
    "jump cut": jump_cut,
    "fade": fade,
    "exposure change": exposure_change,
    "rolling bar": rolling_bar,
}


@dataclass(frozen=True)
class Score:
    """Detail over that of the input, and the largest excess of the correction over the true one, in pixels."""

    detail: float
    excess: float


def score(result: Corrected, frame: Tensor, length: Tensor, light_edge: int | None = None) -> Score:
    """How a frame `[3, H, W]` fared whose true correction is `[H, W]` pixels long."""
    # In pixels of the frame, on whatever grid.
    field = resized_picture(result.correction_field[None], (frame.shape[-2], frame.shape[-1]))[0]
    excess = (field.norm(dim=0) - length).flatten().kthvalue(int(0.999 * length.numel())).values
    # The edge of a flash is no detail of the scene: half a pixel of shift takes a seventh of the energy from it alone.
    parts = [slice(None)]
    if light_edge is not None:
        parts = [slice(None, light_edge - LIGHT_MARGIN), slice(light_edge + LIGHT_MARGIN, None)]
    least = min(float(detail(result.frame[None, :, part], frame[None, :, part])) for part in parts)
    return Score(least, float(excess))


def scores(clip: Clip, preset: PresetName) -> list[Score]:
    """Of all frames of a clip."""
    corrector = Corrector(READOUT, preset=preset, find_cuts=True, find_repeats=True)
    results = corrector.stream(clip.frames)
    return [score(*each, clip.light_edge) for each in zip(results, clip.frames, clip.lengths, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", default="default", choices=get_args(PresetName))
    parser.add_argument("--seeds", type=int, default=2, help="number of scenes")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--frames", action="store_true", help="every frame, not only the worst")
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.seeds):
        whole = walk((192, 256), 24, seed)
        for name in given.case or CASES:
            found = scores(CASES[name](whole), given.preset)
            worst_detail = min(range(len(found)), key=lambda k: found[k].detail)
            worst_excess = max(range(len(found)), key=lambda k: found[k].excess)
            met = found[worst_detail].detail >= LEAST_DETAIL and found[worst_excess].excess <= LARGEST_EXCESS
            print(
                f"{seed} {name:16} detail {found[worst_detail].detail:.2f} (frame {worst_detail:2}), excess "
                f"{found[worst_excess].excess:5.2f} px (frame {worst_excess:2}) {'' if met else 'MISSED'}"
            )
            for index, each in enumerate(found if given.frames else []):
                print(f"    {index:3} {each.detail:.2f} {each.excess:6.2f}")


if __name__ == "__main__":
    main()
