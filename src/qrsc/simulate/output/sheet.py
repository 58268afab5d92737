"""A labelled contact sheet of simulated scenes: the recorded frame and its ground truth."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from qrsc.media.annotate import above, beside, labelled, mask_picture
from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import write_frame
from qrsc.simulate.output.preview import depth_colours, flow_colours
from qrsc.simulate.render.rows import render_gs, render_rs
from qrsc.simulate.render.truth import rs_flow, rs_kinematics
from qrsc.simulate.scene.worlds import World
from qrsc.timing import Readout

SHEET_SCENES = 5  # rows of a contact sheet
SHEET_FRAME = 1  # the frame of each clip that it shows


@torch.no_grad()
def sheet_row(world: World, readout: Readout, frame: int) -> Tensor:
    """Draw one scene: RS, GS at the middle row, flow to the next frame, what is hidden there, depth.

    Args:
        world: a batch of 1.
        readout: of its camera.
        frame: number of the frame to show.

    Returns:
        `[3, H, 5 W]` plus gaps, on the CPU.
    """
    scene = world.scene
    rolling = render_rs(scene, readout, frame)[0].cpu()
    still = render_gs(scene, frame + readout.instant("middle"))[0].cpu()
    flow, visible = (value.cpu() for value in rs_flow(scene, readout, frame, frame + 1))
    depth = rs_kinematics(scene, readout, frame).depth.cpu()
    lengths = flow.norm(dim=1).flatten()
    longest = max(float(lengths.kthvalue(max(1, round(0.99 * lengths.numel()))).values), 1e-3)
    missing = 100.0 * float((~visible).float().mean())
    seen = depth[depth > 0]
    nearest = f"from {float(seen.min()):.3g} m" if len(seen) else "nothing there"
    return beside(
        [
            labelled(rolling, f"RS, {world.styles[0]}, gamma {readout.gamma:.2g}"),
            labelled(still, "GS, middle row"),
            labelled(flow_colours(flow, longest)[0], f"flow to next, up to {longest:.3g} px"),
            labelled(mask_picture(rolling, ~visible[0]), f"not seen in next, {missing:.2g} %"),
            labelled(depth_colours(depth)[0], f"depth, {nearest}"),
        ]
    )


def write_sheet(path: Path, rows: Iterable[Tensor]) -> None:
    """Write rows from `sheet_row`, one above the other, as a picture."""
    sheet = above(list(rows))
    with atomic_file(path) as work:
        write_frame(work, sheet)
