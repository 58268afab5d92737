"""Slow, obvious twins of RSA^2-Net and its sampling operator.

`adacof` follows its definition literally, a sum over taps pixel by pixel. `rsa2` is the network of the paper's
equations from named weight tensors: loops over frames and windows, attention as matrices. It shares nothing with the
fast network but the weights. Meant for float64 and small images.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.rsa2.network import Rsa2Options

Weights = Mapping[str, Tensor]


def adacof(frames: Tensor, weights: Tensor, alpha: Tensor, beta: Tensor, dilation: int = 1) -> Tensor:
    """Twin of `fusion.adacof.operator.adacof`."""
    count, _, height, width = frames.shape
    side = math.isqrt(weights.shape[1])
    pixels = []
    for n, y, x in itertools.product(range(count), range(height), range(width)):
        total = torch.zeros_like(frames[n, :, 0, 0])
        for tap, (row, column) in enumerate(itertools.product(range(side), range(side))):
            at_x = x + dilation * (column - side // 2) + alpha[n, tap, y, x]
            at_y = y + dilation * (row - side // 2) + beta[n, tap, y, x]
            total = total + weights[n, tap, y, x] * _read(frames[n], at_x, at_y)
        pixels.append(total)
    return torch.stack(pixels).reshape(count, height, width, -1).permute(0, 3, 1, 2)


def _read(frame: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The bilinear sample `[C]` of a frame `[C, H, W]` at a position clamped to it."""
    height, width = frame.shape[-2:]
    x, y = x.clamp(0, width - 1), y.clamp(0, height - 1)
    left, top = math.floor(float(x.detach())), math.floor(float(y.detach()))
    right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
    part_x, part_y = x - left, y - top
    upper = (1 - part_x) * frame[:, top, left] + part_x * frame[:, top, right]
    lower = (1 - part_x) * frame[:, bottom, left] + part_x * frame[:, bottom, right]
    return (1 - part_y) * upper + part_y * lower


# --- the network ---


def rsa2(weights: Weights, options: Rsa2Options, aligned: AlignedFrames) -> Tensor:
    """Twin of `fusion.rsa2.network.Rsa2Network` with the transformer and RSAdaCof, from its weights by name."""
    channels = torch.cat([aligned.frames, 0.05 * aligned.correction_fields], 2)
    if not options.fields:
        channels = aligned.frames
    count = channels.shape[1] * channels.shape[3] * channels.shape[4]
    channels = channels - channels.sum((1, 3, 4), keepdim=True) / count
    if options.validity:
        channels = torch.cat([channels, aligned.valid.to(channels), aligned.time_distance], 2)
    if options.calm:
        assert aligned.detail is not None
        channels = torch.cat([channels, 10.0 * _luma(aligned.detail)], 2)
    levels = _encoded(weights, options, channels.transpose(1, 2))
    features, scales = levels[-1], []
    for number, skipped in enumerate(reversed(levels[:-1])):
        features = _leaky(_transposed(features, weights, f"decoder.enlarge.{number}", (1, 2, 2), (0, 0, 0)))
        features = torch.cat([features, skipped], 1)
        smooth = f"decoder.smooth.{number}"
        found = _residual(_leaky(_convolved(features, weights, f"{smooth}.enter")), weights, f"{smooth}.residual")
        scales.append(found)
    if options.calm:
        aligned = replace(aligned, frames=_restored(weights, scales[-1], aligned))
    fused = None
    for number, found in enumerate(scales):
        head = _head(weights, options, number, found, aligned)
        fused = head if fused is None else _upsampled(fused) + head
    assert fused is not None
    return fused


def _restored(weights: Weights, features: Tensor, aligned: AlignedFrames) -> Tensor:
    """Frames with detail restored according to the gates, luma and chroma separately."""
    detail, frames = aligned.detail, []
    assert detail is not None
    for i in range(detail.shape[1]):
        gates = _upsampled(_convolved(features[:, :, i : i + 1], weights, "gates").squeeze(2))
        luma = _luma(detail[:, i])
        frames.append(aligned.frames[:, i] + gates[:, :1] * luma + gates[:, 1:] * (detail[:, i] - luma))
    return torch.stack(frames, 1)


def _luma(image: Tensor) -> Tensor:
    return (torch.tensor([0.299, 0.587, 0.114]).to(image).reshape(3, 1, 1) * image).sum(-3, keepdim=True)


def _encoded(weights: Weights, options: Rsa2Options, features: Tensor) -> list[Tensor]:
    features = _residual(_leaky(_convolved(features, weights, "encoder.stem")), weights, "encoder.residual")
    levels = []
    for number, (depth, heads) in enumerate(zip(options.depths, options.heads, strict=True)):
        stage = f"encoder.stages.{number}"
        features = _leaky(_convolved(features, weights, f"{stage}.halve", stride=2))
        tokens = features.permute(0, 2, 3, 4, 1)
        for block in range(depth):
            shift = options.window // 2 if block % 2 else 0
            tokens = _block(weights, f"{stage}.blocks.{block}", tokens, heads, options.window, shift)
        features = tokens.permute(0, 4, 1, 2, 3)
        levels.append(features)
    return levels


def _block(weights: Weights, name: str, tokens: Tensor, heads: int, window: int, shift: int) -> Tensor:
    """Attention within windows, attention over frames, and a perceptron, on tokens `[B, T, H, W, C]`."""
    batch, frames, height, width, channels = tokens.shape
    normal = _normalised(tokens, weights, f"{name}.spatial_norm")
    mixed = torch.empty_like(tokens)
    for b, t in itertools.product(range(batch), range(frames)):
        for top, left in itertools.product(range(-shift, height, window), range(-shift, width, window)):
            places = list(itertools.product(range(top, top + window), range(left, left + window)))
            inside = [0 <= y < height and 0 <= x < width for y, x in places]
            zero = tokens.new_zeros(channels)
            rows = [normal[b, t, y, x] if ok else zero for (y, x), ok in zip(places, inside, strict=True)]
            attended = _attention(torch.stack(rows), weights, f"{name}.spatial", heads)
            for (y, x), ok, row in zip(places, inside, attended, strict=True):
                if ok:
                    mixed[b, t, y, x] = row
    tokens = tokens + mixed
    normal = _normalised(tokens, weights, f"{name}.temporal_norm")
    for b, y, x in itertools.product(range(batch), range(height), range(width)):
        mixed[b, :, y, x] = _attention(normal[b, :, y, x], weights, f"{name}.temporal", heads)
    tokens = tokens + mixed
    wide = _linear(_normalised(tokens, weights, f"{name}.mlp_norm"), weights, f"{name}.expand")
    wide = 0.5 * wide * (1.0 + torch.erf(wide / math.sqrt(2.0)))
    return tokens + _linear(wide, weights, f"{name}.reduce")


def _attention(rows: Tensor, weights: Weights, name: str, heads: int) -> Tensor:
    """Multi-head self-attention among the rows of `[N, C]`."""
    length = rows.shape[1]
    query, key, value = _linear(rows, weights, f"{name}.qkv").chunk(3, 1)
    size = length // heads
    parts = []
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        scores = torch.exp(query[:, own] @ key[:, own].T / math.sqrt(size))
        parts.append(scores / scores.sum(1, keepdim=True) @ value[:, own])
    return _linear(torch.cat(parts, 1), weights, f"{name}.project")


def _head(weights: Weights, options: Rsa2Options, number: int, features: Tensor, aligned: AlignedFrames) -> Tensor:
    """RSAdaCof at scale `number`, from features `[B, C, T, h, w]`."""
    factor = (4, 2, 1)[number]
    frames, distance = _shrunk(aligned.frames, factor), _shrunk(aligned.time_distance, factor)
    valid = _shrunk(aligned.valid.to(aligned.frames), factor)
    count = frames.shape[1]
    average = sum(features[:, :, i] for i in range(count)) / count
    assert isinstance(average, Tensor)
    likely = (
        _prior(frames, valid, distance, aligned.centre, 0.25 if options.calm else 0.15)
        if options.prior
        else torch.zeros_like(distance)
    )
    outputs, masks = [], []
    for i in range(count):
        taps = [_subnet(features[:, :, i], weights, f"heads.{number}.{part}") for part in ("weights", "alpha", "beta")]
        if number == 2:
            taps[0][:, options.taps**2 // 2] += 1.0
        outputs.append(adacof(frames[:, i], taps[0], taps[1], taps[2]))
        pair = torch.cat([features[:, :, i], average], 1)
        gathered = _leaky(_convolved(pair.unsqueeze(2), weights, f"heads.{number}.gather").squeeze(2))
        masks.append(torch.exp(_subnet(gathered, weights, f"heads.{number}.mask", 0.2) + likely[:, i]))
    far = sum(distance[:, i] for i in range(count))
    near = [(1.0 - distance[:, i] / far).clamp_min(0.02) if options.time_grid == "true" else 1.0 for i in range(count)]
    total = sum(mask * weight for mask, weight in zip(masks, near, strict=True))
    fused = sum(out * mask * weight / total for out, mask, weight in zip(outputs, masks, near, strict=True))
    assert isinstance(fused, Tensor)
    return fused


def _prior(frames: Tensor, valid: Tensor, distance: Tensor, centre: int, differ: float) -> Tensor:
    """Log weights by time distance, difference from the centre frame within 5 x 5 pixels, and validity."""
    batch, count, _, height, width = frames.shape
    result = torch.empty_like(distance)
    for b, i, y, x in itertools.product(range(batch), range(count), range(height), range(width)):
        rows, columns = slice(max(y - 2, 0), y + 3), slice(max(x - 2, 0), x + 3)
        difference = frames[b, i, :, rows, columns] - frames[b, centre, :, rows, columns]
        unlike = (difference**2).mean() / differ**2 if float(valid[b, centre, 0, y, x]) > 0.5 else 0.0
        shown = valid[b, i, 0, y, x]
        if i == centre:
            shown = shown + 1.0 - max(valid[b, j, 0, y, x] for j in range(count))
        result[b, i, 0, y, x] = -distance[b, i, 0, y, x] / 0.5 - unlike - 12.0 * (1.0 - shown)
    return result


def _subnet(features: Tensor, weights: Weights, name: str, slope: float = 0.0) -> Tensor:
    """Two convolutions with ReLUs, the second leaky, and a transposed one that doubles the size of `[B, C, h, w]`."""
    deep = features.unsqueeze(2)
    deep = _convolved(deep, weights, f"{name}.0").clamp_min(0.0)
    deep = _convolved(deep, weights, f"{name}.2")
    deep = torch.where(deep > 0, deep, slope * deep)
    return _transposed(deep, weights, f"{name}.4", (1, 2, 2), (0, 1, 1)).squeeze(2)


def _kernel(weights: Weights, name: str) -> Tensor:
    """Weights of a convolution with a temporal dimension."""
    kernel = weights[f"{name}.weight"]
    return kernel if kernel.ndim == 5 else kernel.unsqueeze(2)


def _convolved(features: Tensor, weights: Weights, name: str, stride: int = 1) -> Tensor:
    """A zero-padded convolution of `[B, C, T, H, W]`, tap by tap, at the same size (or with a stride)."""
    kernel = _kernel(weights, name)
    frames, height, width = features.shape[-3:]
    reach = [side // 2 for side in kernel.shape[-3:]]
    padded = torch.nn.functional.pad(features, (reach[2], reach[2], reach[1], reach[1], reach[0], reach[0]))
    total: Tensor | float = 0.0
    for t, y, x in itertools.product(*(range(side) for side in kernel.shape[-3:])):
        shifted = padded[:, :, t : t + frames, y : y + height : stride, x : x + width : stride]
        total = total + torch.einsum("bcthw,oc->bothw", shifted, kernel[:, :, t, y, x])
    return total + weights[f"{name}.bias"].reshape(1, -1, 1, 1, 1)


def _transposed(
    features: Tensor, weights: Weights, name: str, stride: tuple[int, int, int], extra: tuple[int, int, int]
) -> Tensor:
    """A transposed convolution: every pixel is added to the outputs of its taps, then one ring is cropped."""
    kernel = _kernel(weights, name)
    batch, _, *size = features.shape
    sides = kernel.shape[-3:]
    whole = [(n - 1) * s + k for n, s, k in zip(size, stride, sides, strict=True)]
    spread = features.new_zeros(batch, kernel.shape[1], *(n + e for n, e in zip(whole, extra, strict=True)))
    for t, y, x in itertools.product(*(range(side) for side in sides)):
        part = torch.einsum("bcthw,co->bothw", features, kernel[:, :, t, y, x])
        ends = [offset + (n - 1) * s + 1 for offset, n, s in zip((t, y, x), size, stride, strict=True)]
        spread[:, :, t : ends[0] : stride[0], y : ends[1] : stride[1], x : ends[2] : stride[2]] += part
    ring = [1 if side > 1 else 0 for side in sides]
    inner = tuple(slice(r, n + e - r) for r, n, e in zip(ring, whole, extra, strict=True))
    return spread[(slice(None), slice(None), *inner)] + weights[f"{name}.bias"].reshape(1, -1, 1, 1, 1)


def _residual(features: Tensor, weights: Weights, name: str) -> Tensor:
    return features + _convolved(_leaky(_convolved(features, weights, f"{name}.first")), weights, f"{name}.second")


def _linear(rows: Tensor, weights: Weights, name: str) -> Tensor:
    return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _normalised(tokens: Tensor, weights: Weights, name: str) -> Tensor:
    centred = tokens - tokens.mean(-1, keepdim=True)
    spread = torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5)
    return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _leaky(features: Tensor) -> Tensor:
    return torch.where(features > 0, features, 0.2 * features)


def _shrunk(pictures: Tensor, factor: int) -> Tensor:
    """Means over squares of `factor` x `factor` pixels of `[B, T, C, H, W]`."""
    *leading, height, width = pictures.shape
    return pictures.reshape(*leading, height // factor, factor, width // factor, factor).mean((-3, -1))


def _upsampled(picture: Tensor) -> Tensor:
    """Upsample by 2 bilinearly: each new pixel is three quarters of the nearest old one and a quarter of the next."""
    for dim in (-2, -1):
        size = picture.shape[dim]
        rows = []
        for new in range(2 * size):
            near, next_ = new // 2, min(max(new // 2 + (1 if new % 2 else -1), 0), size - 1)
            rows.append(0.75 * picture.select(dim, near) + 0.25 * picture.select(dim, next_))
        picture = torch.stack(rows, dim)
    return picture
