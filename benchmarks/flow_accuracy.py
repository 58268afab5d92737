"""End-point errors of flow estimators on the fixed test sets, by the length of the motion.

    python benchmarks/flow_accuracy.py [--flows dis,raft-rs,raft-rs+dis] [--scenes 20] [--size 640x480] [--device cuda]
        [--sets sim-easy,sim-shake] [--json flow_accuracy.json]

All neighbouring frames of every scene, both directions, against the simulator's exact flows. "all" counts every pixel
that has a true flow, also where its point leaves the frame or gets hidden; the other columns count points that both
frames show.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from qrsc.flow import FlowPair, load_flow
from qrsc.learn.flow.endpoint_scores import FlowScore, score_flow, score_table
from qrsc.learn.flow.pairs import FlowPairs, join_pairs, render_pairs
from qrsc.simulate.output.sets import FIXED_SETS, FRAMES, SCENES, set_textures, set_world


def set_pairs(name: str, scenes: int, size: tuple[int, int], device: str) -> FlowPairs:
    """All pairs of the first scenes of a set, kept on the CPU."""
    textures = set_textures().to(device)
    parts = []
    for number in range(scenes):
        world, readout = set_world(name, number, textures=textures, size=size)
        parts.append(render_pairs(world.scene, readout, range(FRAMES)).to("cpu"))
    return join_pairs(parts)


def score(name: str, pairs: FlowPairs, device: str) -> FlowScore:
    """The errors of an estimator. Searches run on the CPU, so that as many as there are cores are asked at a time."""
    if "dis" not in name:
        return score_flow(load_flow(name), pairs.to(device))

    def flows(index: int) -> FlowPair:
        part = pairs[index : index + 1].to(device)
        return load_flow(name)(part.first, part.second)

    with ThreadPoolExecutor() as threads:
        answers = iter([FlowPair(*(flow.cpu() for flow in found)) for found in threads.map(flows, range(len(pairs)))])
    return score_flow(lambda first, second: next(answers), pairs, batch=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", default="dis,raft-rs,raft-rs+dis", help="names, commas between")
    parser.add_argument("--sets", default=",".join(FIXED_SETS), help="names, commas between")
    parser.add_argument("--scenes", type=int, default=SCENES)
    parser.add_argument("--size", default="640x480")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="keep the figures in a file")
    options = parser.parse_args()
    width, height = (int(side) for side in options.size.split("x"))
    figures: dict[str, dict[str, object]] = {}
    for name in options.sets.split(","):
        pairs = set_pairs(name, options.scenes, (height, width), options.device)
        scores = {flow: score(flow, pairs, options.device) for flow in options.flows.split(",")}
        print(f"\n{name}: {len(pairs)} pairs\n\n{score_table(scores)}", flush=True)
        figures[name] = {flow: asdict(value) for flow, value in scores.items()}
        if options.json is not None:
            options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
