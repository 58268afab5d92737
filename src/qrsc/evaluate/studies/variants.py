"""Variants of a study as methods that can be scored."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.results import FrameAndField, Result
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.evaluate.studies.entries import Variant
from qrsc.fusion import Fusion
from qrsc.fusion.networks import NetworkFusion, fusion_from_file, shipped_fusion
from qrsc.pipeline import Corrector
from qrsc.pipeline import align as alignment
from qrsc.timing import Readout
from qrsc.weights import WeightsError, card, file_sha256, noted_options, read_notes


def identity(variant: Variant) -> str:
    """What the figures of a variant depend on: the name of its method, or its weights, motion and window."""
    if variant.method is not None:
        return variant.method
    return f"network@{weights_sha256(variant)[:16]}-{variant.motion}-{variant.frames}"


def weights_sha256(variant: Variant) -> str:
    """SHA-256 of the weights, in hexadecimal."""
    if variant.weights is None:
        raise ValueError(f"{variant.name} is the method {variant.method}, which has no weights.")
    return str(card(variant.weights)["sha256"]) if isinstance(variant.weights, str) else file_sha256(variant.weights)


def require_own_weights(variant: Variant) -> None:
    """Raise if the weights exist and cannot be loaded, or belong to another network than the variant says."""
    if variant.weights is None or variant.missing is not None:
        return
    there = {"motion": "quadratic", **_described(variant.weights)}
    wanted: dict[str, Any] = {**({"kind": variant.kind} if variant.kind is not None else {}), "motion": variant.motion}
    wanted |= {key: list(value) if isinstance(value, tuple) else value for key, value in variant.network.items()}
    told = [f"{key} = {there.get(key)!r}, not {value!r}" for key, value in wanted.items() if there.get(key) != value]
    if told:
        raise WeightsError(
            f"{variant.weights} is not the network that {variant.name} is said to be: it has {', '.join(told)}."
        )
    load_variant(variant)  # raises if the file is damaged, or of another version


def _described(weights: Path | str) -> dict[str, Any]:
    """What the notes of weights say: kind, options of the network, and motion if it is noted."""
    if isinstance(weights, str):
        return {**card(weights), **card(weights)["options"]}
    notes = read_notes(weights)
    if "kind" not in notes or "options" not in notes:
        raise WeightsError(f"{weights} does not say what network it is of; it is not the weights of a fusion network.")
    return {**notes, **noted_options(weights, notes, "options")}


def method_of(variant: Variant) -> Callable[[SharedFlow], Method]:
    """An entry for a table of methods (see `qrsc.evaluate.methods.registry`): a variant with weights."""

    @cache  # the network is loaded once, when it is first needed
    def fusion() -> Fusion:
        return load_variant(variant)

    def with_flow(flow: SharedFlow) -> Method:
        def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Result]:
            if variant.motion == "none":
                return uncorrected(frames, readout, tau, fusion(), variant.frames - 2)
            corrector = Corrector(
                readout, tau=tau, motion=variant.motion, fusion=fusion(), flow=flow, frames=variant.frames
            )
            return corrector.stream(frames)

        return method

    return with_flow


def load_variant(variant: Variant) -> NetworkFusion:
    """The fusion by the network of a variant, with its weights."""
    if variant.weights is None:
        raise ValueError(f"{variant.name} is the method {variant.method}, not a network.")
    return shipped_fusion(variant.weights) if isinstance(variant.weights, str) else fusion_from_file(variant.weights)


def uncorrected(
    frames: Iterable[Tensor], readout: Readout, tau: float, fusion: Fusion, count: int
) -> Iterator[FrameAndField]:
    """Frames as they came, fused without any correction: an ablation.

    Convention
        As a method of `qrsc.evaluate.methods.registry`. What the fusion gets is `qrsc.pipeline.align.uncorrected`.

    Args:
        frames: `[3, H, W]` each.
        fusion: of the frames.
        count: how many are fused, one more before the frame than after it if that is even; fewer at the ends.
    """
    behind = count // 2
    ahead = count - 1 - behind
    window: deque[Tensor] = deque(maxlen=count)
    waiting = 0  # frames at the end of the window whose results are due
    for frame in frames:
        window.append(frame)
        waiting += 1
        if waiting > ahead:
            yield _fused(list(window), len(window) - 1 - ahead, readout, tau, fusion)
            waiting -= 1
    for left in range(waiting, 0, -1):
        centre = len(window) - left
        shown = list(window)[max(0, centre - behind) :]
        yield _fused(shown, min(centre, behind), readout, tau, fusion)


def _fused(frames: list[Tensor], centre: int, readout: Readout, tau: float, fusion: Fusion) -> FrameAndField:
    clip = torch.stack(frames).unsqueeze(0)  # [1, T, 3, H, W]
    fused = fusion(alignment.uncorrected(clip, range(len(frames)), centre, tau, readout)).image[0]
    return FrameAndField(fused, torch.zeros_like(frames[centre][:2]))
