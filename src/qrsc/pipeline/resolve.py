"""Which flow and which fusion a corrector uses for frames on a device, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from qrsc.flow import FlowEstimator, default_flow, load_flow
from qrsc.fusion import DEFAULT_FUSION, Fusion, load_fusion, wanted_interpolation
from qrsc.names import Interpolation
from qrsc.pipeline.presets import Preset


@dataclass(frozen=True, repr=False)
class Resolved:
    """What a corrector uses for frames on a device.

    Attributes:
        device: of the frames.
        flow: the estimator.
        fusion: the fusion; None corrects each frame from itself alone.
        interpolation: how frames are sampled.
        flow_name, fusion_name: what they are called.
        reasons: why each was chosen, in words, by `flow`, `fusion` and `interpolation`.
    """

    device: torch.device
    flow: FlowEstimator
    fusion: Fusion | None
    interpolation: Interpolation
    flow_name: str
    fusion_name: str
    reasons: dict[str, str]

    def __repr__(self) -> str:
        chosen = {"flow": self.flow_name, "fusion": self.fusion_name, "interpolation": self.interpolation}
        told = ", ".join(f"{part} {name} ({self.reasons[part]})" for part, name in chosen.items())
        return f"Resolved({told}; frames on {self.device})"


class Resolver:
    """Chooses flow and fusion by device where none was asked for. What it has loaded is kept, by name.

    Args:
        flow: an estimator, its name, or None.
        fusion: a fusion, its name, or None.
        interpolation: of the frames; None is what the fusion was made for.
        preset: for what is None; without one, or where it says nothing, the device decides.
        frames: how many frames are fused.
    """

    def __init__(
        self,
        flow: FlowEstimator | str | None,
        fusion: Fusion | str | None,
        interpolation: Interpolation | None,
        preset: Preset | None,
        frames: int,
    ) -> None:
        self._flow: FlowEstimator | str | None
        self._fusion: Fusion | str | None
        self._flow, self._flow_reason = _chosen(flow, preset, "flow")
        self._fusion, self._fusion_reason = _chosen(fusion, preset, "fusion")
        self._interpolation = interpolation
        self._frames = 1 if self._fusion == "none" else frames
        self._flows: dict[str, FlowEstimator] = {}
        self._fusions: dict[str, Fusion | None] = {}
        # A name that is not known is refused at once, not at the first frame.
        if isinstance(self._flow, str):
            self._loaded_flow(self._flow)
        if isinstance(self._fusion, str):
            self._loaded_fusion(self._fusion)

    @property
    def frames(self) -> int:
        """How many frames are fused: 1 without a fusion."""
        return self._frames

    def __call__(self, device: torch.device) -> Resolved:
        """Flow and fusion for frames on a device."""
        flow = default_flow(device) if self._flow is None else self._flow
        fusion = DEFAULT_FUSION if self._fusion is None else self._fusion
        merge = self._loaded_fusion(fusion) if isinstance(fusion, str) else fusion
        return Resolved(
            device,
            self._loaded_flow(flow) if isinstance(flow, str) else flow,
            merge,
            self._interpolation or wanted_interpolation(merge, self._frames),
            name_of(flow),
            name_of(fusion),
            {
                "flow": self._flow_reason or f"the default on {device.type}",
                "fusion": self._fusion_reason or "the default",
                "interpolation": "asked for" if self._interpolation else "what the fusion was made for",
            },
        )

    def _loaded_flow(self, name: str) -> FlowEstimator:
        if name not in self._flows:
            self._flows[name] = load_flow(name)
        return self._flows[name]

    def _loaded_fusion(self, name: str) -> Fusion | None:
        if name not in self._fusions:
            self._fusions[name] = load_fusion(name)
        return self._fusions[name]


def _chosen(asked: Any, preset: Preset | None, part: str) -> tuple[Any, str | None]:
    """What was asked for, or else what the preset says, and why; None twice if the device decides."""
    if asked is not None:
        return asked, "asked for"
    by_preset = None if preset is None else getattr(preset, part)
    return by_preset, None if preset is None or by_preset is None else f"the preset {preset.name}"


def name_of(part: object) -> str:
    """What a flow or a fusion is called: its name, or that of its function or class."""
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)
