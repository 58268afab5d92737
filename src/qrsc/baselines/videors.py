"""VideoRS: frames interpolated for every row's time, the row that is due picked from each, and a polish at test time.

Naor, Antebi, Bagon, Irani: Combining internal and external constraints for unrolling shutter in videos, ECCV 2022.

Any instant. Rows of the corrected frame come from frames interpolated between two neighbours, each at the time at which
that row of an interpolated frame is seen at the wanted instant. Then two steps of Adam on the pixels of five frames:
half closeness to what was picked, half closeness of patches in time and along a row to the nearest patches of the
rolling-shutter frames, which are undistorted there because a row is seen at one time.

Changed: optical flow and splatting of both neighbours interpolate, in place of DAIN; rows are picked in pairs; one
result in place of the mean of 16 (reversed, rotated and mirrored), since splatting both frames treats them alike; no
network merges them, since there is one. Adam's rate is a fifth of the published 0.01, which on [0, 1] moves every pixel
by up to five grey levels: a synthetic pan is undone to a mean difference of 0.011 with it, 0.0035 here, and 0.0029
without the polish. Patches are looked for along the row only, up to six pixels away. At the ends of a clip the flow
between the two frames there is extended.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from qrsc.evaluate.methods.registry import Method
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.timing import Readout
from qrsc.warp import backward_warp, splat

BAND = 2  # rows that are picked from one interpolated frame
SHARPNESS = 20.0  # of the choice between pixels that land together, by how badly their flow fits
STEPS, RATE = 2, 0.002  # of Adam; the steps bound the time
FRAMES, WIDTH = 5, 7  # of a patch
REACH = 6  # pixels, to each side, that patches are looked for


class VideoRs:
    """An entry for a table of methods."""

    def __call__(self, flow: SharedFlow) -> Method:
        def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Tensor]:
            window: deque[tuple[Tensor, Tensor]] = deque(maxlen=FRAMES)
            half = FRAMES // 2

            def polished_middle() -> Tensor:
                given, picked = (torch.stack(each) for each in zip(*window, strict=True))
                found = polished(picked, given)[half]
                return found.mT if readout.sideways else found

            count = 0
            for pair in _picked(frames, flow, readout, tau):
                # The outermost frame stands for those beyond it.
                window.extend([pair] if window else [pair] * (half + 1))
                count += 1
                if count > half:
                    yield polished_middle()
            for _ in range(min(count, half)):
                window.extend([window[-1]] * max(1, FRAMES - len(window)))
                yield polished_middle()

        return method


def _picked(
    frames: Iterable[Tensor], flow: SharedFlow, readout: Readout, tau: float
) -> Iterator[tuple[Tensor, Tensor]]:
    """Each frame `[3, H, W]`, and what is picked for it from interpolated ones.

    Frames that are read sideways are turned about their diagonal: below, their columns are rows.
    """
    frame: Tensor | None = None
    before: Between | None = None
    for following in frames:
        if frame is not None:
            # Asked for before the frame is given back, while the shared flow still knows both.
            flows = [each.flow[0] for each in flow.filled(frame.unsqueeze(0), following.unsqueeze(0))]
            ends = [frame, following]
            if readout.sideways:
                flows, ends = [each.flip(0).mT for each in flows], [each.mT for each in ends]
            after = Between(ends, flows)
            yield ends[0], _rows(ends[0], before, after, readout, tau)
            before = after
        frame = following
    if frame is not None:
        frame = frame.mT if readout.sideways else frame
        yield frame, _rows(frame, before, None, readout, tau)


class Between:
    """Two consecutive frames and what lies between them.

    Args:
        ends: both frames, `[3, H, W]` each.
        flows: from the first to the second and back, `[2, H, W]` each.
    """

    def __init__(self, ends: Sequence[Tensor], flows: Sequence[Tensor]) -> None:
        self.ends, self.flows = ends, flows
        self.fits = [
            -SHARPNESS * (one - backward_warp(other, field).image).abs().mean(0, keepdim=True)
            for one, other, field in zip(ends, ends[::-1], flows, strict=True)
        ]
        self.steepest = max(float(field[1].abs().max()) for field in flows)

    def rows(self, share: float, top: int, bottom: int) -> Tensor:
        """Rows `[3, bottom - top, W]` of the frame at a share of the interval; beyond 0 or 1 from the nearer frame."""
        margin = int(self.steepest * max(abs(share), abs(1.0 - share))) + 2
        start, stop = max(0, top - margin), bottom + margin
        total: Tensor | float = 0.0
        weights: Tensor | float = 0.0
        for each, along, near in ((0, share, 1.0 - share), (1, 1.0 - share, share)):
            if near <= 0.0:
                continue
            frame, field, fits = (values[each][:, start:stop] for values in (self.ends, self.flows, self.fits))
            moved, covered = splat(frame, along * field, fits)
            total = total + near * covered * moved
            weights = weights + near * covered
        assert isinstance(weights, Tensor)  # one of the two is near
        nearer = self.ends[0 if share < 0.5 else 1][:, start:stop]
        made = torch.where(weights > 0.0, total / weights.clamp_min(1e-6), nearer)
        return made[:, top - start : bottom - start]


def _rows(frame: Tensor, before: Between | None, after: Between | None, readout: Readout, tau: float) -> Tensor:
    """The frame at instant tau `[3, H, W]`, its rows from frames interpolated at the times that they need."""
    if before is None and after is None:
        return frame  # one frame shows no motion
    height, width = frame.shape[-2:]
    given = (width, height) if readout.sideways else (height, width)
    late = (tau - readout.row_times(*given)).flatten().tolist()
    found = []
    for top in range(0, height, BAND):
        bottom = min(height, top + BAND)
        due = sum(late[top:bottom]) / (bottom - top)
        if before is not None and (due < 0.0 or after is None):
            found.append(before.rows(1.0 + due, top, bottom))
        else:
            assert after is not None  # one of them is there
            found.append(after.rows(due, top, bottom))
    return torch.cat(found, 1)


@torch.enable_grad()
def polished(picked: Tensor, given: Tensor) -> Tensor:
    """Frames `[N, 3, H, W]` after two steps towards patches of the rolling-shutter frames of the same numbers."""
    edges = F.pad(picked.diff(dim=-1).abs().mean((0, 1)), (1, 0))  # [H, W]
    weights = edges / edges.mean().clamp_min(1e-6)
    pixels = picked.clone().requires_grad_()
    optimizer = torch.optim.Adam([pixels], lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        patches = (weights * nearest_patches(pixels, given)).mean()
        loss = 0.5 * (pixels - picked).square().mean() + 0.5 * patches
        loss.backward()  # type: ignore[no-untyped-call]  # torch's stubs
        optimizer.step()
    return pixels.detach().clamp(0.0, 1.0)


def nearest_patches(pixels: Tensor, given: Tensor) -> Tensor:
    """How far the patch round each pixel is from the nearest one of other frames in its row, mean square: `[H, W]`.

    A patch has all N frames, one row, and seven pixels of it.

    Args:
        pixels, given: `[N, 3, H, W]`.
    """
    wide = F.pad(given, (REACH, REACH, 0, 0), mode="replicate")
    found = []
    for step in range(2 * REACH + 1):
        apart = (pixels - wide[..., step : step + given.shape[-1]]).square().mean((0, 1))  # [H, W]
        found.append(F.avg_pool2d(apart[None, None], (1, WIDTH), 1, (0, WIDTH // 2), count_include_pad=False)[0, 0])
    return torch.stack(found).amin(0)
