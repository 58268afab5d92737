"""Letters for signs and posters: a font of 5 x 7 dots, and random words without meaning."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

# Seven rows per letter from the top; the five bits of each number are the dots from the left.
GLYPHS: dict[str, tuple[int, ...]] = {
    "A": (14, 17, 17, 31, 17, 17, 17),
    "B": (30, 17, 17, 30, 17, 17, 30),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "D": (30, 17, 17, 17, 17, 17, 30),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "F": (31, 16, 16, 30, 16, 16, 16),
    "G": (14, 17, 16, 23, 17, 17, 15),
    "H": (17, 17, 17, 31, 17, 17, 17),
    "I": (14, 4, 4, 4, 4, 4, 14),
    "K": (17, 18, 20, 24, 20, 18, 17),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "M": (17, 27, 21, 21, 17, 17, 17),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "O": (14, 17, 17, 17, 17, 17, 14),
    "P": (30, 17, 17, 30, 16, 16, 16),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "V": (17, 17, 17, 17, 17, 10, 4),
    "W": (17, 17, 17, 21, 21, 21, 10),
    "Y": (17, 17, 10, 4, 4, 4, 4),
    "Z": (31, 1, 2, 4, 8, 16, 31),
    " ": (0, 0, 0, 0, 0, 0, 0),
}
CONSONANTS = "BCDGHKLMNPRSTVWZ"
VOWELS = "AEIOUY"


def word(generator: torch.Generator, syllables: int) -> str:
    """A pronounceable word without meaning."""
    letters = ""
    for _ in range(syllables):
        first, second = torch.rand(2, generator=generator).tolist()
        letters += CONSONANTS[int(first * len(CONSONANTS))] + VOWELS[int(second * len(VOWELS))]
    return letters


def write(
    canvas: Tensor, box: tuple[float, float, float, float], ink: Sequence[float], generator: torch.Generator
) -> None:
    """Write a line of words into a box `(left, top, right, bottom)`, in texels, of `[C, h, w]`, in place."""
    left, top, right, bottom = (round(value) for value in box)
    part = canvas[:, max(top, 0) : bottom, max(left, 0) : right]
    if part.numel() == 0:
        return
    height, width = part.shape[1:]
    room = int(width / (6 / 7 * height))
    text = ""
    while len(text) < room:
        text += word(generator, 1 + int(3 * torch.rand(1, generator=generator))) + " "
    text = text[:room]
    if not text.strip():
        return
    dots = torch.tensor([[[row >> bit & 1 for bit in (4, 3, 2, 1, 0)] + [0] for row in GLYPHS[x]] for x in text])
    line = dots.permute(1, 0, 2).reshape(1, 1, 7, -1).float()
    # Upsampled and thresholded at one half, the dots merge into strokes with round ends.
    smooth = F.interpolate(line, size=(height, min(width, round(height * line.shape[-1] / 7))), mode="bicubic")[0, 0]
    opacity = ((smooth - 0.5) * max(1.0, height / 7) + 0.5).clamp(0.0, 1.0)
    part = part[:, :, : opacity.shape[1]]
    part.lerp_(torch.tensor(ink).reshape(-1, 1, 1).to(part).expand_as(part), opacity.to(part).expand_as(part))
