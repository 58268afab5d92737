"""The closed-form quadratic solver against a batched matrix solve of the same systems, in one run.

python benchmarks/solver_speed.py [--height 480 --width 640 --device cpu]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from qrsc.motion.trajectory import Trajectory, solve_trajectory
from qrsc.timing import Readout


def matrix_solve(flow_prev: Tensor, flow_next: Tensor, readout: Readout) -> Tensor:
    """Velocity and acceleration `[B, H, W, 2, 2]` by `torch.linalg.solve`, one 2 x 2 system per pixel."""
    time_prev = readout.flight_time(flow_prev, -1).squeeze(1)
    time_next = readout.flight_time(flow_next, 1).squeeze(1)
    rows = [torch.stack([t, 0.5 * t * t], -1) for t in (time_prev, time_next)]
    right = [flow.movedim(1, -1) for flow in (flow_prev, flow_next)]
    return torch.linalg.solve(torch.stack(rows, -2), torch.stack(right, -2))


def median_ms(task: Callable[[], object], device: str, repeats: int = 30) -> float:
    times = []
    for _ in range(repeats + 3):
        start = time.perf_counter()
        task()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return sorted(times[3:])[repeats // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()

    readout = Readout(0.9)
    shape = (1, 2, options.height, options.width)
    flow_prev, flow_next = (8.0 * torch.randn(shape, device=options.device) for _ in range(2))
    confidence = torch.rand(1, 1, *shape[-2:], device=options.device)

    def weighted() -> Trajectory:
        return solve_trajectory(
            flow_prev,
            flow_next,
            readout,
            confidence_prev=confidence,
            confidence_next=confidence,
            regularisation=0.01,
        )

    compiled = torch.compile(weighted, fullgraph=True)
    solved = matrix_solve(flow_prev, flow_next, readout)
    trajectory = solve_trajectory(flow_prev, flow_next, readout)
    assert trajectory.acceleration is not None
    difference = (solved[..., 1, :].movedim(-1, 1) - trajectory.acceleration).abs().max()

    tasks: dict[str, Callable[[], object]] = {
        "batched torch.linalg.solve": lambda: matrix_solve(flow_prev, flow_next, readout),
        "closed form": lambda: solve_trajectory(flow_prev, flow_next, readout),
        "weighted, regularised": weighted,
        "weighted, regularised, compiled": compiled,
    }
    milliseconds = {name: median_ms(task, options.device) for name, task in tasks.items()}
    base = milliseconds["batched torch.linalg.solve"]
    threads = torch.get_num_threads()
    print(f"{options.width}x{options.height}, {options.device}, {threads} threads, torch {torch.__version__}")
    for name, value in milliseconds.items():
        print(f"{name:34s} {value:8.3f} ms   {base / value:6.1f} x")
    print(f"largest difference of the accelerations: {float(difference):.1e} px/frame^2")


if __name__ == "__main__":
    main()
