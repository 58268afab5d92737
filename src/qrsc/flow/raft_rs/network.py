"""The flow network: a global match, refined at an eighth of the frame's resolution and then at a quarter.

It belongs to the RAFT family (Teed and Deng, 2020): a recurrent step looks up the correlation of features around the
current flow and updates it. Three things differ. The flow is initialised by a softmax over all matches, so that few
steps suffice for motion of any length. Both directions of a pair are one batch over shared features. And the last steps
work at a quarter of the resolution with the pixels of the frames: the second frame is warped to the first by the
current flow, and their difference is an input of the update. That is where small motion gets its precision.

Convention
    Flows are in pixels of the frame, (dx, dy), on every grid. The batch of a result holds the flows from first to
    second, then those from second to first: `[2 B, ...]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.backend.kernels import usable
from qrsc.flow.raft_rs.correlation import correlation_pyramid, global_match, standardised
from qrsc.flow.raft_rs.encoder import Encoder
from qrsc.flow.raft_rs.evidence import evidence_around, exchanged, fine_evidence
from qrsc.flow.raft_rs.update import Update, Upsampler, aligned
from qrsc.weights.architecture import require_sizes

MULTIPLE = 16  # both sides of a frame must be a multiple of this


_LIMITS = {
    **dict.fromkeys(("stem", "widths", "matching", "fine_matching", "hidden", "fine_hidden"), (1, 1024)),
    **dict.fromkeys(("levels", "radius", "fine_radius"), (1, 8)),
    **dict.fromkeys(("depths", "steps", "fine_steps"), (1, 32)),
}


@dataclass(frozen=True)
class NetworkSize:
    """The size of the network. The defaults are those of the shipped weights.

    Attributes:
        stem, widths, depths: of the encoder.
        matching: channels of the features that are correlated at strides 8 and 16.
        fine_matching: the same at stride 4.
        hidden, fine_hidden: channels of the recurrent states at strides 8 and 4.
        levels, radius: of the correlation lookup at stride 8.
        fine_radius: of the local correlation at stride 4.
        steps, fine_steps: number of recurrent steps at strides 8 and 4.
    """

    stem: int = 48
    widths: tuple[int, int, int] = (80, 144, 192)
    depths: tuple[int, int, int] = (3, 3, 2)
    matching: int = 128
    fine_matching: int = 48
    hidden: int = 128
    fine_hidden: int = 80
    levels: int = 3
    radius: int = 4
    fine_radius: int = 3
    steps: int = 4
    fine_steps: int = 2

    def __post_init__(self) -> None:
        require_sizes(self, _LIMITS)


@dataclass
class Estimates:
    """The output of the network after every step; the last of `fine` is the result.

    Attributes:
        initial: `[2 B, 2, H / 16, W / 16]`, the flow of the global match.
        log_probability: `[2 B, N, N]`, with N cells of stride 16, of the matches behind it.
        coarse: one `[2 B, 4, H / 4, W / 4]` per step at stride 8: flow and uncertainty (see `certainty.py`).
        fine: one `[2 B, 4, H, W]` per step at stride 4.
    """

    initial: Tensor
    log_probability: Tensor
    coarse: list[Tensor] = field(default_factory=list)
    fine: list[Tensor] = field(default_factory=list)


class FlowNetwork(nn.Module):
    """Forward and backward flow of pairs of frames; see the module's description."""

    def __init__(self, size: NetworkSize | None = None) -> None:
        super().__init__()
        self.size = size = NetworkSize() if size is None else size
        self.encoder = Encoder(size.stem, size.widths, size.depths)
        self.to_matching = nn.Conv2d(size.widths[1], size.matching, 1)
        self.to_global = nn.Conv2d(size.widths[2], size.matching, 1)
        self.to_fine_matching = nn.Conv2d(size.widths[0], size.fine_matching, 1)
        self.to_state = nn.Conv2d(size.widths[1], 2 * size.hidden, 1)
        self.to_fine_state = nn.Conv2d(size.widths[0] + size.hidden, 2 * size.fine_hidden, 1)
        self.sharpness = nn.Parameter(torch.zeros(()))  # natural logarithm
        self.update = Update(aligned(size.levels * (2 * size.radius + 1) ** 2 + 2), size.hidden, size.hidden)
        self.enlarge = Upsampler(size.hidden, 2)
        fine_evidence = aligned((2 * size.fine_radius + 1) ** 2 + 2 * 3 * 16 + 2)
        self.fine_update = Update(fine_evidence, size.fine_hidden, size.fine_hidden)
        self.fine_enlarge = Upsampler(size.fine_hidden, 4)

    def forward(
        self, first: Tensor, second: Tensor, every_step: bool = False, start: Tensor | None = None
    ) -> Estimates:
        """Flows of pairs of frames `[B, 3, H, W]` in [0, 1], H and W multiples of `MULTIPLE`.

        Args:
            every_step: also upsample the flows before the last step, for training.
            start: `[2 B, 2, H / 8, W / 8]`, the initial flow in place of the global match.
        """
        frames = torch.cat([first, second])
        quarter, eighth, sixteenth = self.encoder(frames)
        flow, initial, log_probability = self._start(self._global_features(sixteenth))
        coarse_inputs = self._coarse_inputs(eighth)
        flow, state, coarse = self._coarse_steps(*coarse_inputs, flow if start is None else start, every_step)
        flow, fine = self._fine_steps(frames, quarter, self._fine_matching(quarter), flow, state, every_step)
        return Estimates(initial, log_probability, coarse, fine)

    def brief(self, first: Tensor, second: Tensor, start: Tensor | None = None) -> Tensor:
        """Flow and uncertainty without the steps at stride 4, `[2 B, 4, H / 4, W / 4]`, of pairs as for `forward`."""
        _, eighth, sixteenth = self.encoder(torch.cat([first, second]))
        flow = self._start(self._global_features(sixteenth))[0] if start is None else start
        return self._coarse_steps(*self._coarse_inputs(eighth), flow, False)[2][-1]

    def rough(self, first: Tensor, second: Tensor) -> Tensor:
        """The flow of `brief`, `[2 B, 2, H / 4, W / 4]`."""
        return self.brief(first, second)[:, :2]

    def encoded(self, frames: Tensor, halved: Tensor | None) -> tuple[Tensor, ...]:
        """All that the network computes from single frames, for `between`.

        Args:
            frames: as for `forward`.
            halved: the frames at half the size, for the flow to start from; None starts from the global match.
        """
        quarter, eighth, sixteenth = self.encoder(frames)
        own = (frames, quarter, self._fine_matching(quarter), *self._coarse_inputs(eighth))
        if halved is None:
            return *own, self._global_features(sixteenth)
        _, eighth, sixteenth = self.encoder(halved)
        return *own, self._global_features(sixteenth), *self._coarse_inputs(eighth)

    def between(self, first: Sequence[Tensor], second: Sequence[Tensor]) -> Tensor:
        """Flow and uncertainty `[2 B, 4, H, W]` of pairs of encoded frames: the last of `Estimates.fine`."""
        both = [torch.cat(pair) for pair in zip(first, second, strict=True)]
        frames, quarter, fine_matching, state, matching, distinct, *small = both
        flow = self._start(distinct)[0]
        if small:
            flow = 2.0 * self._coarse_steps(small[0], small[1], flow, False)[0]
        flow, state, _ = self._coarse_steps(state, matching, flow, False)
        return self._fine_steps(frames, quarter, fine_matching, flow, state, False)[1][-1]

    def _global_features(self, features: Tensor) -> Tensor:
        """Of the global match, float32, from features at stride 16."""
        return standardised_in_float32(self.to_global(features))

    def _coarse_inputs(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """From features at stride 8: the first state with the context, and features to correlate, float32."""
        return self.to_state(features), standardised_in_float32(self.to_matching(features))

    def _fine_matching(self, features: Tensor) -> Tensor:
        """Features to correlate at stride 4, in the dtype of the features."""
        return standardised(self.to_fine_matching(features)).to(features.dtype)

    def _start(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The global match, in pixels: upsampled to stride 8, at stride 16, and the log probabilities behind it."""
        with torch.autocast(features.device.type, enabled=False):
            cells, log_probability = global_match(features, exchanged(features), self.sharpness.exp())
            initial = 16.0 * cells
            flow = F.interpolate(initial, scale_factor=2.0, mode="bilinear", align_corners=False)
            return flow, initial, log_probability

    def _coarse_steps(
        self, state: Tensor, matching: Tensor, flow: Tensor, every_step: bool
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The flow after the steps at stride 8, on the grid of stride 4; the state; and the flows after each step."""
        state, context = state.chunk(2, dim=1)
        state, context = torch.tanh(state), F.relu(context)
        # The update sees bfloat16 on a GPU: so may the volume be, which takes half the memory then.
        kept = state.dtype if usable(matching, state) else torch.float32
        with torch.autocast(matching.device.type, enabled=False):
            pyramid = correlation_pyramid(matching, exchanged(matching), self.size.levels, kept)
        found = []
        for step in range(self.size.steps):
            flow = flow.detach()
            evidence = evidence_around(pyramid, flow / 8.0, self.size.radius, state.dtype)
            state, outputs = self.update(state, context, evidence)
            flow = flow + 8.0 * outputs[:, :2].float()
            if every_step or step == self.size.steps - 1:
                found.append(self.enlarge(torch.cat([flow, outputs[:, 2:].float()], dim=1), state))
        return found[-1][:, :2], state, found

    def _fine_steps(
        self, frames: Tensor, features: Tensor, matching: Tensor, flow: Tensor, state: Tensor, every_step: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """The steps at stride 4, from a flow at stride 4 and a state at stride 8: the last flow, and full-size ones."""
        state = F.interpolate(state, scale_factor=2.0, mode="bilinear", align_corners=False)
        state, context = self.to_fine_state(torch.cat([features, state], dim=1)).chunk(2, dim=1)
        state, context = torch.tanh(state), F.relu(context)
        found = []
        for step in range(self.size.fine_steps):
            flow = flow.detach()
            evidence = fine_evidence(frames, matching, flow, self.size.fine_radius, state.dtype)
            state, outputs = self.fine_update(state, context, evidence)
            flow = flow + outputs[:, :2].float()
            if every_step or step == self.size.fine_steps - 1:
                found.append(self.fine_enlarge(torch.cat([flow, outputs[:, 2:].float()], dim=1), state))
        return flow, found


def parameter_count(network: nn.Module) -> int:
    """Number of parameters of a network."""
    return sum(parameter.numel() for parameter in network.parameters())


def standardised_in_float32(features: Tensor) -> Tensor:
    """`standardised` without autocast."""
    with torch.autocast(features.device.type, enabled=False):
        return standardised(features)
