"""The search first; the network only for the pairs of frames on which the search contradicts itself."""

from __future__ import annotations

from torch import Tensor

from qrsc.flow.dis import MIN_SIDE, DisFlow, on_cpu
from qrsc.flow.protocol import FlowEstimator, FlowPair
from qrsc.flow.refined import RefinedFlow
from qrsc.image.resize import reduced_size, resized_field
from qrsc.motion.consistency import consistency_confidence
from qrsc.motion.fill import fill_leaving, stays_inside

GRID = 0.25  # flows are checked at this size: a quarter of the rows and columns tells as much, in a tenth of the time
CONSISTENT = 0.5  # the least confidence of a flow that leads back; see `consistency_confidence`
# The part of the points, of those that stay in the frame, from which on the search is not believed. Above it are the
# pairs on which the network is worth its time: Carla-RS seq_a 0.28 (1.0 to 1.9 dB), Fastec-RS 0.17 to 0.20 (0.1),
# sim-occlusion at 320x240 0.08 to 0.19 (0.6 dB more from 0.085 on than from 0.1 on). BS-RSC, sim-easy and
# sim-nonlinear stay below 0.06, where the network gains 0.03 dB on average.
# A pair is judged by itself, so that a part of a clip is corrected as it is in the whole.
MOST_CONTRADICTED = 0.085


class SearchFirstFlow:
    """Forward and backward flow by `DisFlow`; by a `RefinedFlow` where the search contradicts itself.

    On most pairs of frames the search there and the search back lead to the same points, and a network changes nothing
    that could be seen. Where they do not, the network takes over for the whole pair.

    Args:
        refined: the network with the search after it.

    Attributes:
        search: alone, for images that no network was trained on.
        contradicted: the largest part of the points, 0 to 1, at which the search contradicted itself in a pair of the
            latest call.
        used_network: whether the latest call needed the network.
        fallback: that of the flow that was used in the latest call; None if there is none. Using the network is none.
    """

    def __init__(self, refined: RefinedFlow) -> None:
        self.refined = refined
        self.search = DisFlow("medium")
        self.contradicted = 0.0
        self.used_network = False
        self.fallback: str | None = None

    def __call__(self, first: Tensor, second: Tensor) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`; a batch takes the network if one of its pairs does."""
        if min(first.shape[-2:]) < MIN_SIDE:
            self.contradicted, self.used_network = 1.0, True
            found = self.refined(first, second)
            self.fallback = self.refined.fallback
            return found
        alone = self.search(first, second)
        self.contradicted = max(contradicted_part(*alone), contradicted_part(*reversed(alone)))
        self.used_network = self.contradicted > MOST_CONTRADICTED
        if self.used_network:
            found = self.refined.refine(first, second, alone)
            self.fallback = self.refined.fallback
            return found
        self.fallback = on_cpu(first.device)
        return FlowPair(fill_leaving(alone.forward), fill_leaving(alone.backward))


def for_even_light(flow: FlowEstimator) -> FlowEstimator:
    """The estimator for frames in even light, which no network was trained on: the search alone, if it goes first.

    Beside 22 simulated flashes, the network moved frames of three by 0.6 to 1.4 px too far, the search those of one by
    0.9 px.
    """
    return flow.search if isinstance(flow, SearchFirstFlow) else flow


def contradicted_part(flow: Tensor, reverse_flow: Tensor) -> float:
    """The largest part, over pairs, of the points of a flow `[B, 2, H, W]` that the reverse flow does not lead back.

    Points that leave the frame do not count. The search finds them in neither frame, and they are filled. A pair of
    which hardly any point stays counts as contradicted.
    """
    grid = reduced_size(flow.shape[-2:], GRID)
    there, back = resized_field(flow, grid), resized_field(reverse_flow, grid)
    stays = stays_inside(there).float()  # [B, 1, h, w]
    astray = stays * (consistency_confidence(there, back) < CONSISTENT).float()
    staying = stays.sum((1, 2, 3))
    part = astray.sum((1, 2, 3)) / staying.clamp(min=1.0)
    part[staying < 0.05 * stays[0].numel()] = 1.0
    return float(part.max())
