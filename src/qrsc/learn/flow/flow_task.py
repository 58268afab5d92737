"""What is trained in a training of the flow network."""

from __future__ import annotations

import torch
from torch import Tensor

from qrsc.flow.raft_rs.network import FlowNetwork
from qrsc.learn.flow.pairs import PairPool
from qrsc.learn.flow.sequence_loss import flow_loss


class FlowTask:
    """The flow network and its loss on pairs from a pool; a `qrsc.learn.trainer.lightning_module.TrainingTask`.

    Args:
        network: trained in place.
        pool: of pairs.
        batch: pairs per step; both directions of each are used.
        compiled: compile the convolutional parts and the loss with `torch.compile`.
    """

    def __init__(self, network: FlowNetwork, pool: PairPool, *, batch: int, compiled: bool = False) -> None:
        self.network = network
        self.pool = pool
        self.batch = batch
        self._loss = flow_loss
        if compiled:
            self._loss = torch.compile(flow_loss, dynamic=False)
            for part in (network.encoder, network.update, network.fine_update, network.enlarge, network.fine_enlarge):
                part.compile(dynamic=False)  # two of them run at two sizes, and both are kept

    @property
    def rendered(self) -> int:
        """Pairs rendered so far."""
        return self.pool.rendered

    def loss(self) -> Tensor:
        """The loss on a new batch of pairs."""
        with torch.autocast(self.pool.device.type, enabled=False):
            pairs = self.pool.draw(self.batch)
        return self._loss(self.network(pairs.first, pairs.second, True), pairs)
