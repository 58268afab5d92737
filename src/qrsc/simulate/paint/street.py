"""Painted parts of a street: house fronts, sky, ground, trees, posts, vehicles, people.

Colours are `[3, h, w]` and masks `[1, h, w]`, both in 0 to 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.simulate.paint.lettering import write
from qrsc.simulate.paint.textures import Colour, bricks, fractal_noise, tinted

CREAM = (0.93, 0.9, 0.8)


def fill(canvas: Tensor, box: tuple[float, float, float, float], colour: Colour | Tensor, opacity: float = 1.0) -> None:
    """Paint a rectangle `(left, top, right, bottom)`, in texels, onto `[C, h, w]`, in place."""
    height, width = canvas.shape[1:]
    left, right = (min(max(round(value), 0), width) for value in (box[0], box[2]))
    top, bottom = (min(max(round(value), 0), height) for value in (box[1], box[3]))
    paint = colour if isinstance(colour, Tensor) else torch.tensor(colour[: canvas.shape[0]])
    part = canvas[:, top:bottom, left:right]
    part.lerp_(paint.reshape(-1, 1, 1).to(canvas).expand_as(part), opacity)


def house_front(
    height: int, width: int, generator: torch.Generator, *, storeys: int, bays: int, brick: Colour, shop: Colour
) -> Tensor:
    """A row of windows per storey over a shop front, in brick."""
    wall = bricks(height, width, generator, rows=storeys * 30, brick=brick)
    storey, bay = height / (storeys + 0.25), width / bays
    _shade_down(wall, 0, round(0.12 * storey), 0.55)
    fill(wall, (0, 0, width, 0.1 * storey), (0.66, 0.63, 0.58))
    for level in range(storeys):
        top = 0.25 * storey + level * storey
        ground = level == storeys - 1
        if not ground:
            fill(wall, (0, top + 0.93 * storey, width, top + 0.99 * storey), (0.6, 0.57, 0.52))
            _shade_down(wall, round(top + 0.99 * storey), round(0.1 * storey), 0.7)
        for column in range(bays):
            left = column * bay
            if ground:
                box = (left + 0.06 * bay, top + 0.22 * storey, left + 0.94 * bay, top + 0.93 * storey)
                _shop_window(wall, box, shop, generator)
            else:
                box = (left + 0.26 * bay, top + 0.16 * storey, left + 0.74 * bay, top + 0.82 * storey)
                _window(wall, box, generator)
    stains = fractal_noise(height, width, generator, cells=3)
    streaks = fractal_noise(height, width, generator, cells=2, octaves=7).cumsum(0)
    streaks = streaks / streaks.abs().amax()
    return (wall * (1.0 + 0.05 * stains + 0.06 * streaks)).clamp(0.0, 1.0)


def _window(wall: Tensor, box: tuple[float, float, float, float], generator: torch.Generator) -> None:
    left, top, right, bottom = box
    wide, tall = right - left, bottom - top
    stone = (0.7, 0.67, 0.61)
    fill(wall, (left - 0.1 * wide, top - 0.13 * tall, right + 0.1 * wide, top), stone)
    fill(wall, (left - 0.12 * wide, bottom, right + 0.12 * wide, bottom + 0.07 * tall), stone)
    fill(
        wall,
        (left - 0.1 * wide, bottom + 0.07 * tall, right + 0.1 * wide, bottom + 0.12 * tall),
        (0.1, 0.08, 0.07),
        0.5,
    )
    fill(wall, box, (0.86, 0.85, 0.81))
    edge = 0.07 * wide
    pane = (left + edge, top + edge, right - edge, bottom - edge)
    _glass(wall, pane, generator)
    if torch.rand(1, generator=generator) < 0.6:
        drawn = 0.15 + 0.35 * float(torch.rand(1, generator=generator))
        cloth = (0.75, 0.72, 0.66)
        fill(wall, (pane[0], pane[1], pane[0] + drawn * (pane[2] - pane[0]), pane[3]), cloth, 0.7)
        fill(wall, (pane[2] - drawn * (pane[2] - pane[0]), pane[1], pane[2], pane[3]), cloth, 0.7)
    middle = 0.5 * (left + right)
    for bar in (
        (middle - 0.03 * wide, top, middle + 0.03 * wide, bottom),
        (left, top + 0.4 * tall, right, top + 0.4 * tall + 0.05 * wide),
    ):
        fill(wall, bar, (0.83, 0.82, 0.78))
    fill(wall, (left, top, right, top + 0.05 * tall), (0.05, 0.05, 0.05), 0.5)


def _glass(wall: Tensor, box: tuple[float, float, float, float], generator: torch.Generator) -> None:
    """Dark glass with reflections: brighter towards the top, with soft shapes."""
    left, top, right, bottom = (round(value) for value in box)
    left, top = max(left, 0), max(top, 0)
    part = wall[:, top:bottom, left:right]
    if part.numel() == 0:
        return
    shapes = fractal_noise(max(part.shape[1], 4), max(part.shape[2], 4), generator, cells=3, octaves=4)
    shapes = shapes[: part.shape[1], : part.shape[2]]
    ramp = torch.linspace(1.0, 0.0, part.shape[1])[:, None]
    part.copy_(tinted((0.25 + 0.45 * ramp + 0.16 * shapes).clamp(0, 1), (0.05, 0.07, 0.09), (0.5, 0.6, 0.68)))


def _shop_window(
    wall: Tensor, box: tuple[float, float, float, float], colour: Colour, generator: torch.Generator
) -> None:
    left, top, right, bottom = box
    wide, tall = right - left, bottom - top
    frame = tuple(0.5 * part for part in colour)
    fill(wall, (left - 0.03 * wide, top - 0.3 * tall, right + 0.03 * wide, bottom + 0.2 * tall), torch.tensor(frame))
    fill(wall, (left, top - 0.26 * tall, right, top - 0.05 * tall), colour)
    write(wall, (left + 0.1 * wide, top - 0.22 * tall, right - 0.1 * wide, top - 0.09 * tall), CREAM, generator)
    _glass(wall, box, generator)
    for _ in range(9):
        x, y, w, h = torch.rand(4, generator=generator).tolist()
        goods = torch.rand(1, generator=generator) * 0.5 + 0.25 * torch.rand(3, generator=generator) + 0.05
        x0 = left + wide * (0.04 + 0.85 * x)
        y0 = top + tall * (0.45 + 0.4 * y)
        fill(
            wall,
            (x0, y0, min(x0 + wide * (0.04 + 0.1 * w), right), min(y0 + tall * (0.1 + 0.3 * h), bottom)),
            goods,
            0.75,
        )
    for at in (0.33, 0.66):
        fill(wall, (left + at * wide - 0.012 * wide, top, left + at * wide + 0.012 * wide, bottom), torch.tensor(frame))
    _shade_down(wall[:, :, max(round(left), 0) : round(right)], round(top), round(0.12 * tall), 0.6)


def _shade_down(canvas: Tensor, top: int, length: int, strength: float) -> None:
    """Add a shadow that is darkest at row `top` and fades below it, in place."""
    part = canvas[:, max(top, 0) : max(top, 0) + max(length, 0)]
    part.mul_(torch.linspace(strength, 1.0, part.shape[1])[:, None])


def sky(height: int, width: int, generator: torch.Generator) -> Tensor:
    """Blue sky that gets paler towards the horizon, with clouds."""
    ramp = torch.linspace(0.0, 1.0, height)[:, None].expand(height, width)
    clear = tinted(ramp, (0.36, 0.55, 0.82), (0.8, 0.87, 0.93))
    noise = fractal_noise(height, width, generator, cells=3, octaves=7, roughness=0.6)
    lit = fractal_noise(height, width, generator, cells=6, octaves=6)
    cloud = ((noise + 0.3) / 1.5).clamp(0.0, 1.0)
    white = (0.93 + 0.05 * lit - 0.12 * cloud)[None].expand(3, -1, -1)
    return torch.lerp(clear, white, 0.85 * cloud).clamp(0.0, 1.0)


def pavement(height: int, width: int, generator: torch.Generator, *, line: float = 0.9) -> Tensor:
    """Ground seen from above; from top to bottom: slabs, kerb, gutter, asphalt with a dashed line.

    Args:
        line: top of the dashed line, as a fraction of the height.
    """
    grain = fractal_noise(height, width, generator, cells=32, octaves=8, roughness=0.95)
    patches = fractal_noise(height, width, generator, cells=3, octaves=6, roughness=0.7)
    asphalt = tinted((0.5 + 0.16 * grain + 0.08 * patches).clamp(0, 1), (0.2, 0.2, 0.21), (0.54, 0.53, 0.52))
    ground = asphalt.clone()
    kerb = round(0.4 * height)
    slab = tinted((0.5 + 0.12 * grain + 0.08 * patches).clamp(0, 1), (0.36, 0.35, 0.33), (0.66, 0.64, 0.6))
    side = kerb / 3
    row = (torch.arange(kerb) / side).floor()[:, None]
    column = (torch.arange(width)[None] / side + 0.5 * (row % 2)).floor()
    tone = torch.randn(8, 4096, generator=generator)[row.long(), column.long()]
    slab[:, :kerb] *= 1.0 + 0.05 * tone
    joint_x = ((torch.arange(width)[None] / side + 0.5 * (row % 2)) % 1 < 0.03).float()
    joint_y = ((torch.arange(kerb) / side) % 1 < 0.03).float()[:, None]
    slab[:, :kerb] *= 1.0 - 0.45 * torch.maximum(joint_x, joint_y.expand_as(joint_x))
    ground[:, :kerb] = slab[:, :kerb]
    fill(ground, (0, kerb, width, kerb + 0.03 * height), (0.68, 0.66, 0.62))
    _shade_down(ground, round(kerb + 0.03 * height), round(0.04 * height), 0.5)
    dash = width / 12
    for number in range(12):
        fill(
            ground,
            (number * dash, line * height, (number + 0.5) * dash, (line + 0.05) * height),
            (0.85, 0.84, 0.78),
            0.8,
        )
    return ground.clamp(0.0, 1.0)


def post(height: int, width: int, generator: torch.Generator) -> Tensor:
    """A painted metal post: round, lit from the left, with rust and a few coloured bands."""
    across = torch.linspace(-1.0, 1.0, width)[None]
    light = 0.25 + 0.75 * (1.0 - (across + 0.35).square()).clamp(0.0, 1.0)
    rust = fractal_noise(height, width, generator, cells=12, octaves=6)
    metal = tinted(
        (light * (0.55 + 0.05 * rust)).clamp(0, 1).expand(height, width), (0.03, 0.05, 0.05), (0.55, 0.6, 0.58)
    )
    for at, colour in (
        (0.34, (0.75, 0.75, 0.7)),
        (0.55, (0.8, 0.65, 0.15)),
        (0.7, (0.7, 0.2, 0.15)),
        (0.82, (0.1, 0.1, 0.1)),
    ):
        box = (0.0, at * height, float(width), (at + 0.035) * height)
        fill(metal, box, colour, 0.8)
    return (metal * (0.4 + 0.6 * light)).clamp(0.0, 1.0)


def leaves(height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A tree: colour and mask."""
    y = torch.linspace(-1.0, 1.0, height)[:, None]
    x = torch.linspace(-1.0, 1.0, width)[None]
    coarse = fractal_noise(height, width, generator, cells=5, octaves=3)
    fine = fractal_noise(height, width, generator, cells=24, octaves=5, roughness=0.8)
    crown = 1.0 - ((x / 0.92).square() + ((y + 0.32) / 0.66).square())
    mask = ((crown + 0.22 * coarse + 0.22 * fine) / 0.08).clamp(0.0, 1.0)
    light = (0.45 - 0.35 * y - 0.25 * x + 0.12 * coarse + 0.2 * fine).clamp(0.0, 1.0)
    colour = tinted(light.expand(height, width), (0.05, 0.1, 0.03), (0.5, 0.6, 0.22))
    bark = fractal_noise(height, width, generator, cells=16, octaves=5)
    trunk = ((0.07 - (x + 0.02 * coarse).abs() + 0.04 * (y - 0.2).clamp_min(0)) / 0.01).clamp(0.0, 1.0) * (y > 0.0)
    behind = (1.0 - mask) * trunk
    brown = tinted((0.4 + 0.15 * bark - 1.5 * x).clamp(0, 1), (0.12, 0.08, 0.05), (0.45, 0.36, 0.27))
    colour = torch.where(behind > 0.5, brown, colour)
    return colour, torch.maximum(mask, trunk)[None]


def hills(height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A distant line of trees and roofs: colour and mask."""
    y = torch.linspace(0.0, 1.0, height)[:, None]
    skyline = 0.35 + 0.12 * fractal_noise(64, width, generator, cells=1, octaves=5, roughness=0.6)[32:33]
    bumps = fractal_noise(height, width, generator, cells=6, octaves=6, roughness=0.7)
    mask = ((y - skyline + 0.06 * bumps) / 0.02).clamp(0.0, 1.0)
    light = (0.55 - 0.3 * y + 0.15 * bumps).clamp(0, 1)
    return tinted(light, (0.2, 0.28, 0.24), (0.5, 0.58, 0.5)), mask[None]


def landscape(height: int, width: int, generator: torch.Generator) -> Tensor:
    """A distant view: sky, a line of hills and trees, and fields below the horizon, which is halfway down."""
    view = sky(height, width, generator)
    half = height // 2
    fields = fractal_noise(height - half, width, generator, cells=6, octaves=6)
    view[:, half:] = tinted((0.5 + 0.2 * fields).clamp(0, 1), (0.2, 0.26, 0.12), (0.55, 0.58, 0.38))
    for distance, tall in ((1.0, 0.22), (0.5, 0.12)):
        line_height = round(2.0 * tall * half)
        colour, mask = hills(line_height, width, generator)
        haze = torch.tensor((0.66, 0.74, 0.82)).reshape(3, 1, 1)
        part = view[:, half - line_height // 2 : half - line_height // 2 + line_height]
        part.copy_(torch.lerp(part, torch.lerp(colour, haze, 0.6 * distance), mask))
    return view.clamp(0.0, 1.0)


def van(
    height: int, width: int, generator: torch.Generator, paint: Colour = (0.28, 0.55, 0.72)
) -> tuple[Tensor, Tensor]:
    """A delivery van seen from the side, driving to the right: colour and mask."""
    y = torch.linspace(0.0, 1.0, height)[:, None]
    x = torch.linspace(0.0, 1.0, width)[None]
    nose = 0.1 + 0.42 * ((x - 0.74) / 0.22).clamp(0, 1) ** 1.6
    rounded = 0.1 + 0.06 * ((0.06 - x) / 0.06).clamp(0, 1) ** 2
    mask = ((y > torch.maximum(nose, rounded)) & (y < 0.86) & (x > 0.01) & (x < 0.985)).float()
    noise = fractal_noise(height, width, generator, cells=6, octaves=7)
    colour = _metal(y, noise, paint)
    fill(colour, (0.06 * width, 0.2 * height, 0.6 * width, 0.58 * height), (0.9, 0.9, 0.86), 0.92)
    fill(colour, (0.09 * width, 0.25 * height, 0.57 * width, 0.38 * height), (0.8, 0.25, 0.1))
    write(colour, (0.11 * width, 0.28 * height, 0.55 * width, 0.35 * height), CREAM, generator)
    fill(colour, (0.09 * width, 0.42 * height, 0.35 * width, 0.47 * height), (0.15, 0.3, 0.55))
    fill(colour, (0.09 * width, 0.49 * height, 0.45 * width, 0.52 * height), (0.15, 0.3, 0.55), 0.6)
    window = (y > nose + 0.08) & (y < 0.5) & (x > 0.66) & (x < 0.93) & ((x - 0.8).abs() > 0.006)
    colour = torch.where(window, _dark_glass(y, noise), colour)
    fill(colour, (0, 0.6 * height, width, 0.612 * height), (0.1, 0.1, 0.1), 0.6)
    fill(colour, (0.63 * width, 0.2 * height, 0.634 * width, 0.78 * height), (0.1, 0.1, 0.1), 0.6)
    fill(colour, (0.955 * width, 0.6 * height, 0.985 * width, 0.68 * height), (0.95, 0.93, 0.8))
    return _on_wheels(colour, mask, (0.2, 0.8), 0.15)


def car(height: int, width: int, generator: torch.Generator, paint: Colour) -> tuple[Tensor, Tensor]:
    """A car seen from the side, driving to the right: colour and mask."""
    y = torch.linspace(0.0, 1.0, height)[:, None]
    x = torch.linspace(0.0, 1.0, width)[None]
    cabin = 0.06 + 0.4 * ((0.3 - x) / 0.22).clamp(0, 1) ** 1.5 + 0.42 * ((x - 0.52) / 0.2).clamp(0, 1) ** 1.3
    hood = torch.maximum(cabin, 0.46 + 0.1 * ((x - 0.8) / 0.18).clamp(0, 1) ** 2 - 0.04 * (x < 0.1))
    top = torch.where((x > 0.08) & (x < 0.72), torch.minimum(cabin, hood), hood)
    mask = ((y > top) & (y < 0.84) & (x > 0.015) & (x < 0.985)).float()
    noise = fractal_noise(height, width, generator, cells=6, octaves=7)
    colour = _metal(y, noise, paint)
    window = (y > top + 0.07) & (y < 0.44) & (x > 0.14) & (x < 0.68) & ((x - 0.42).abs() > 0.012)
    colour = torch.where(window, _dark_glass(y, noise), colour)
    for at in (0.2, 0.42, 0.64):
        fill(colour, (at * width, 0.45 * height, (at + 0.004) * width, 0.8 * height), (0.05, 0.05, 0.05), 0.6)
    fill(colour, (0.945 * width, 0.53 * height, 0.985 * width, 0.6 * height), (0.95, 0.93, 0.8))
    fill(colour, (0.015 * width, 0.5 * height, 0.045 * width, 0.58 * height), (0.6, 0.05, 0.04))
    return _on_wheels(colour, mask, (0.2, 0.8), 0.17)


def _metal(y: Tensor, noise: Tensor, paint: Colour) -> Tensor:
    """Painted sheet metal: light from above, a bright line below the roof."""
    light = 0.95 - 0.45 * y + 0.15 * torch.exp(-(((y - 0.2) / 0.05) ** 2))
    return tinted((light * (0.9 + 0.03 * noise)).clamp(0, 1), _scaled(paint, 0.1), paint)


def _dark_glass(y: Tensor, noise: Tensor) -> Tensor:
    return tinted((0.6 - 0.6 * y + 0.1 * noise).clamp(0, 1), (0.03, 0.04, 0.05), (0.55, 0.65, 0.7))


def _scaled(colour: Colour, factor: float) -> Colour:
    return colour[0] * factor, colour[1] * factor, colour[2] * factor


def _on_wheels(colour: Tensor, mask: Tensor, centres: tuple[float, float], radius: float) -> tuple[Tensor, Tensor]:
    """A sill and two wheels under a car body."""
    height, width = mask.shape
    y = torch.linspace(0.0, 1.0, height)[:, None]
    x = torch.linspace(0.0, 1.0, width)[None]
    fill(colour, (0, 0.78 * height, width, 0.86 * height), (0.07, 0.07, 0.08))
    for centre in centres:
        across = (x - centre) * (width / height)
        distance = torch.hypot(across, y - 0.985 + radius)
        mask = torch.maximum(mask, (distance < radius).float())
        spokes = torch.cos(5.0 * torch.atan2((y - 0.985 + radius).expand_as(distance), across.expand_as(distance)))
        tyre = torch.tensor((0.04, 0.04, 0.05)).reshape(3, 1, 1)
        colour = torch.where(distance < radius + 0.02, tyre, colour)
        hub = (0.45 + 0.2 * spokes).clamp(0, 1)
        colour = torch.where(distance < 0.6 * radius, hub[None].expand(3, -1, -1), colour)
    return colour.clamp(0.0, 1.0), mask[None]


def person(height: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A person walking to the right: colour and mask."""
    y = torch.linspace(0.0, 1.0, height)[:, None].expand(height, width)
    x = (torch.linspace(-0.5, 0.5, width)[None] * width / height).expand(height, width)
    shirt, trousers, hair, skin = torch.rand(4, 3, generator=generator)
    shirt, trousers = 0.4 * shirt + 0.6 * shirt.mean(), 0.25 * trousers + 0.75 * trousers.mean()
    stride = 0.05 + 0.09 * float(torch.rand(1, generator=generator))

    def limb(start: tuple[float, float], end: tuple[float, float], thick: float) -> Tensor:
        along_x, along_y = end[0] - start[0], end[1] - start[1]
        part = ((x - start[0]) * along_x + (y - start[1]) * along_y) / (along_x**2 + along_y**2)
        part = part.clamp(0.0, 1.0)
        return torch.hypot(x - start[0] - part * along_x, y - start[1] - part * along_y) < thick * (1.0 - 0.3 * part)

    head = torch.hypot(x / 0.85, y - 0.075) < 0.062
    legs = limb((0.0, 0.5), (stride, 0.975), 0.05) | limb((0.0, 0.5), (-stride, 0.975), 0.05)
    torso = limb((0.0, 0.2), (0.0, 0.5), 0.085)
    arms = limb((0.0, 0.2), (-1.2 * stride, 0.5), 0.035) | limb((0.0, 0.2), (1.2 * stride, 0.48), 0.035)
    folds = fractal_noise(height, width, generator, cells=10, octaves=5)
    light = (0.85 - 0.9 * x - 0.1 * y + 0.12 * folds).clamp(0.3, 1.2)
    colour = (0.1 + 0.5 * trousers).reshape(3, 1, 1).expand(3, height, width)
    colour = torch.where(torso | arms, (0.1 + 0.8 * shirt).reshape(3, 1, 1), colour)
    tone = torch.tensor((0.85, 0.65, 0.52)) * (0.45 + 0.6 * skin[0])
    colour = torch.where(head | (arms & (y > 0.45)), tone.reshape(3, 1, 1), colour)
    colour = torch.where(
        head & ((y < 0.06) | (x < -0.02)), (torch.tensor((0.5, 0.38, 0.25)) * hair[0]).reshape(3, 1, 1), colour
    )
    mask = head | legs | torso | arms | limb((0.0, 0.1), (0.0, 0.22), 0.03)
    return (colour * light).clamp(0.0, 1.0), mask.float()[None]


def soft_shadow(height: int, width: int) -> Tensor:
    """A blurred oval with an opacity below one half, so that a shadow never counts as the visible surface."""
    y = torch.linspace(-1.0, 1.0, height)[:, None]
    x = torch.linspace(-1.0, 1.0, width)[None]
    return (0.49 * (1.6 * (1.0 - (x**4 + y**4))).clamp(0.0, 1.0))[None]
