"""How close the networks come to the truth on rendered windows, beside the input and our own method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from qrsc.baselines.learned.window import Baseline
from qrsc.baselines.training.samples import WindowSamples
from qrsc.data.dataset import TruthInstant
from qrsc.flow import FlowEstimator
from qrsc.learn.fusion.alignment import Alignment, clip_flows
from qrsc.timing import Readout

INSTANTS: tuple[TruthInstant, ...] = ("first", "middle")
Scores = Mapping[str, Mapping[TruthInstant, float]]


@torch.no_grad()
def score_baselines(
    networks: Mapping[str, Baseline], calls: Sequence[WindowSamples], flow: FlowEstimator | None = None
) -> Scores:
    """Mean PSNR in dB of all windows, by row and instant.

    Args:
        networks: by name; each is scored at the instants that it gives.
        calls: windows with one readout each, in several batches.
        flow: adds a row `qrs`: each frame alone, corrected by our quadratic motion with this flow.
    """
    rows: dict[str, dict[TruthInstant, list[Tensor]]] = {}

    def add(row: str, instant: TruthInstant, found: Tensor, samples: WindowSamples) -> None:
        rows.setdefault(row, {}).setdefault(instant, []).append(_decibels(found, getattr(samples, instant)))

    for samples in calls:
        gamma = float(samples.gamma[0])
        taus: dict[TruthInstant, float] = {"first": 0.0, "middle": 0.5 * gamma}
        aligned = None
        if flow is not None:
            flows = clip_flows(samples.frames, flow)
            aligned = Alignment(samples.frames, flows, Readout(gamma), motion="quadratic", interpolation="bicubic")
        for instant in INSTANTS:
            add("rs input", instant, samples.frames[:, 1], samples)
            if aligned is not None:
                add("qrs", instant, aligned((1,), 0, taus[instant]).frames[:, 0], samples)
        window = samples.window()
        for name, network in networks.items():
            for instant in network.instants:
                tau = torch.full_like(samples.gamma, taus[instant])
                add(name, instant, network.corrected(window.shown(network.inputs), tau), samples)
    return {
        row: {instant: float(torch.cat(values).mean()) for instant, values in instants.items()}
        for row, instants in rows.items()
    }


def score_table(scores: Scores, networks: Mapping[str, Baseline]) -> str:
    """A Markdown table of scores, with the sizes of the networks."""
    lines = ["| row | first row | middle row | million weights | published |", "| --- | ---: | ---: | ---: | ---: |"]
    for row, instants in scores.items():
        cells = [f"{instants[instant]:.2f}" if instant in instants else "" for instant in INSTANTS]
        network = networks.get(row)
        if network is None:
            cells += ["", ""]
        else:
            own = sum(weight.numel() for weight in network.parameters())
            cells += [f"{own / 1e6:.2f}", f"{network.published:.2f}"]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _decibels(found: Tensor, truth: Tensor) -> Tensor:
    """PSNR of each picture `[B, 3, H, W]`, in 8 bits: `[B]`."""
    rounded = (found.float().clamp(0.0, 1.0) * 255.0).round() / 255.0
    return -10.0 * torch.log10((rounded - truth).square().mean((1, 2, 3)).clamp_min(1e-10))
