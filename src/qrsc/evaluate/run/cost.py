"""What methods cost: parameters, operations and time of a frame."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.flop_counter import FlopCounterMode

from qrsc.backend.cuda_graphs import unrecorded
from qrsc.data.dataset import LoadedFrame, load_frame, split_at_gaps
from qrsc.evaluate.methods.registry import load_method, method_instants
from qrsc.evaluate.methods.results import frame_of
from qrsc.evaluate.methods.shared_flow import SharedFlow, shared_flow
from qrsc.evaluate.run.plan import Plan

FRAMES = 3


@dataclass(frozen=True)
class Cost:
    """What a frame costs, optical flow included.

    Attributes:
        parameters: of all networks that ran, in millions.
        gflop: operations of their layers, two for a multiplication with its addition; in 1e9.
        milliseconds: of wall time; of one method at a time, warmed up.
    """

    parameters: float
    gflop: float
    milliseconds: float


def method_costs(plan: Plan) -> dict[str, Cost]:
    """The cost of each method of a plan, on the first frames of its first clip with flows found anew."""
    clip = next(clip for sequence in plan.sequences for clip in split_at_gaps(sequence))
    clip = replace(clip, frames=clip.frames[:FRAMES])
    frames = [load_frame(files, (), device=plan.device) for files in clip.frames]
    device = torch.device(plan.device)

    def run(name: str) -> float:
        flow: SharedFlow = shared_flow(plan.flow, None, 1)
        method = load_method(name, flow, plan.table)
        flow.start_clip()
        at = next((at for at in plan.instants if at in method_instants(name, plan.table)), None)
        tau = clip.readout.instant(at or method_instants(name, plan.table)[0])
        started = _now(device)
        with torch.no_grad():
            for result in method((_announced(flow, frame).rolling for frame in frames), clip.readout, tau):
                frame_of(result)
        return _now(device) - started

    found = {}
    for name in plan.methods:
        weights: dict[int, int] = {}

        def count(module: nn.Module, given: object, weights: dict[int, int] = weights) -> None:
            weights.update({id(each): each.numel() for each in module.parameters(recurse=False)})

        hook = register_module_forward_pre_hook(count)
        try:
            # The counter does not see what a recorded graph does.
            with unrecorded(), FlopCounterMode(display=False) as counted:
                run(name)
        finally:
            hook.remove()
        seconds = min(run(name) for _ in range(2))
        found[name] = Cost(
            sum(weights.values()) / 1e6, counted.get_total_flops() / 1e9 / len(frames), 1000.0 * seconds / len(frames)
        )
    return found


def _announced(flow: SharedFlow, frame: LoadedFrame) -> LoadedFrame:
    flow.announce(frame)
    return frame


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
