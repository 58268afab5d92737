"""Flow networks of other packages as estimators: torchvision's RAFT, and the models of ptlflow.

Nothing is imported, built or downloaded before the first pair of frames. The package then downloads the named weights
to its own cache and verifies them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from urllib.error import URLError

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.flow.protocol import FlowPair, check_pair

TORCHVISION_MODELS = ("raft_large", "raft_small")
RANDOM = "random"  # in place of a checkpoint: random weights, for timing and tests

# From a network and first and second frames [B, 3, H, W] in [0, 1] to flows [B, 2, H, W].
Run: TypeAlias = Callable[[nn.Module, Tensor, Tensor], Tensor]


class ForeignFlow:
    """Forward and backward flow by a network for one direction: both orders of each pair form one batch.

    Args:
        build: builds the network; called with the first pair.
        run: calls it.
        multiple: frames are padded, by replicating their edges, to a height and width that are multiples of this.
        smallest: the least height and width to pad to.
    """

    def __init__(self, build: Callable[[], nn.Module], run: Run, *, multiple: int = 1, smallest: int = 1) -> None:
        self._build = build
        self._run = run
        self._multiple = multiple
        self._smallest = smallest
        self._network: nn.Module | None = None

    @torch.inference_mode()
    def __call__(self, first: Tensor, second: Tensor, /) -> FlowPair:
        """Flows of pairs of frames `[B, 3, H, W]`."""
        check_pair(first, second)
        if self._network is None:
            self._network = self._build().eval()
        self._network.to(first.device)
        height, width = first.shape[-2:]
        frames, others = (self._extended(torch.cat(pair).float()) for pair in ((first, second), (second, first)))
        flow = self._run(self._network, frames, others)[..., :height, :width]
        forward, backward = flow.to(first.dtype).chunk(2)
        return FlowPair(forward.clone(), backward.clone())

    def _extended(self, frames: Tensor) -> Tensor:
        down, right = (
            max(self._smallest, -(-side // self._multiple) * self._multiple) - side for side in frames.shape[-2:]
        )
        return F.pad(frames, (0, right, 0, down), mode="replicate") if down or right else frames


def torchvision_flow(model: str, weights: str | None = None) -> ForeignFlow:
    """RAFT from torchvision.

    Args:
        model: `raft_large` or `raft_small`.
        weights: torchvision's name of them, such as `C_T_V2`; its default if None; or `random`.
    """
    if model not in TORCHVISION_MODELS:
        raise ValueError(
            f"unknown flow 'torchvision:{model}'; choose one of "
            f"{', '.join(f'torchvision:{name}' for name in TORCHVISION_MODELS)}."
        )

    def build() -> nn.Module:
        optical_flow = _imported("torchvision.models.optical_flow", "torchvision")
        with _downloading(f"torchvision:{model}"):
            network: nn.Module = getattr(optical_flow, model)(
                weights=None if weights == RANDOM else weights or "DEFAULT"
            )
        return network

    def run(network: nn.Module, first: Tensor, second: Tensor) -> Tensor:
        steps: list[Tensor] = network(2.0 * first - 1.0, 2.0 * second - 1.0)
        return steps[-1]

    # Its correlation pyramid has four levels over features at an eighth of the resolution, the last at least 2 x 2.
    return ForeignFlow(build, run, multiple=8, smallest=128)


def ptlflow_flow(model: str, checkpoint: str | None = None) -> ForeignFlow:
    """A model of ptlflow (0.4 or later), which pads frames itself.

    Args:
        model: such as `gma` or `sea_raft_s`.
        checkpoint: such as `things`; or `random`.
    """
    if checkpoint is None:
        raise ValueError(
            f"ptlflow:{model} needs the name of a checkpoint, such as ptlflow:{model}@things "
            f"(or @{RANDOM} for random weights)."
        )

    def build() -> nn.Module:
        ptlflow = _imported("ptlflow", "ptlflow")
        with _downloading(f"ptlflow:{model}"):
            network: nn.Module = ptlflow.get_model(model, None if checkpoint == RANDOM else checkpoint)
        return network

    def run(network: nn.Module, first: Tensor, second: Tensor) -> Tensor:
        images = torch.stack([first, second], dim=1).flip(2)  # [B, 2, 3, H, W]; ptlflow expects BGR
        flows: Tensor = network({"images": images})["flows"]  # [B, 1, 2, H, W]
        return flows[:, 0]

    return ForeignFlow(build, run)


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    """Turn a failed download of weights into an error that says what to do."""
    try:
        yield
    except URLError as error:
        folder = torch.hub.get_dir()
        raise ValueError(
            f"the weights of {name} could not be downloaded ({error.reason}). Their place is "
            f"{folder}/checkpoints: put them there, or use a flow that comes with the package, such as raft-rs."
        ) from error


def _imported(module: str, extra: str) -> Any:
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError as error:
        raise ValueError(
            f"the flows of {extra} need the package {extra}, which cannot be imported here ({error}); "
            f"install it with: pip install 'qrsc[{extra}]'"
        ) from error
