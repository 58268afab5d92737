"""The networks as rows of `qrsc evaluate`, with weights from a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from qrsc.baselines.learned.networks import NETWORKS, baseline_from_file
from qrsc.baselines.learned.window import Baseline, Window
from qrsc.data.dataset import TruthInstant
from qrsc.evaluate.methods.registry import CorrectorMethod, Method
from qrsc.evaluate.methods.shared_flow import SharedFlow
from qrsc.flow import FlowPair
from qrsc.timing import Readout
from qrsc.weights import WeightsError, file_sha256

VARIABLE = "QRSC_BASELINE_WEIGHTS"
PACKAGED = Path(__file__).parents[1] / "weights"  # where the package keeps them, if it comes with any
PAPER = "qrsc-paper"


class LearnedRow:
    """An entry for a table of methods: a network by name.

    The frame at an end of a clip is given itself in place of the neighbour that it lacks, and a flow of zero.

    Args:
        name: of the network.
        folder: with its weights; see `baseline_weights`.

    Attributes:
        instants: those that the network gives.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.instants: tuple[TruthInstant, ...] = NETWORKS[name].instants
        self._name, self._folder = name, folder

    def __call__(self, flow: SharedFlow) -> Method:
        network = baseline_from_file(self._file()).eval().requires_grad_(False)

        def method(frames: Iterable[Tensor], readout: Readout, tau: float, /) -> Iterator[Tensor]:
            if readout.scan != "top-down" or readout.offset:
                raise ValueError(f"{self._name} takes frames that are read from the top; these are {readout}.")
            previous: Tensor | None = None
            current: Tensor | None = None
            pair: FlowPair | None = None
            for following in frames:
                onward = None
                if current is not None:
                    # Asked for before the frame is given back, while the shared flow still knows both.
                    onward = flow(current.unsqueeze(0), following.unsqueeze(0)) if network.uses_flow else None
                    yield corrected(network, (previous, current, following), pair, readout, tau)
                previous, current, pair = current, following, onward
            if current is not None:
                yield corrected(network, (previous, current, None), pair, readout, tau)

        return method

    def fingerprint(self) -> str:
        """The SHA-256 of the weights."""
        return file_sha256(self._file())

    def _file(self) -> Path:
        return required_weights(self._name, self._folder, f"qrsc train baseline {self._name} DIR")


class PaperRow:
    """The paper's own configuration: the quadratic solver negated, and RSA^2-Net with the published options.

    Args:
        folder: with weights that `qrsc train fusion --paper` has trained, as `qrsc-paper.safetensors`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, flow: SharedFlow) -> Method:
        path: str = str(self._file())
        # A file of weights, which the Corrector takes in place of a name.
        return CorrectorMethod("quadratic", path, "negate", "bilinear")(flow)  # type: ignore[arg-type]

    def fingerprint(self) -> str:
        """The SHA-256 of the weights."""
        return file_sha256(self._file())

    def _file(self) -> Path:
        return required_weights(
            PAPER, self._folder, f"qrsc train fusion --paper DIR, and call them {PAPER}.safetensors"
        )


def corrected(
    network: Baseline,
    frames: tuple[Tensor | None, Tensor, Tensor | None],
    pair: FlowPair | None,
    readout: Readout,
    tau: float,
) -> Tensor:
    """The frame `[3, H, W]` at instant tau.

    Args:
        network: moves to the device of the frames.
        frames: previous, current and next; None at an end of the clip.
        pair: flows between previous and current, `[1, 2, H, W]` each; None for none.
    """
    current = frames[1]
    network.to(current.device)
    flows = current.new_zeros(1, 2, 2, *current.shape[-2:]) if pair is None else torch.stack(tuple(pair), 1)
    given = torch.stack([current if frame is None else frame for frame in frames]).unsqueeze(0)
    window = Window(given, flows.to(current), current.new_full((1,), readout.gamma), current.shape[-2])
    found = network.corrected(window.shown(network.inputs), current.new_full((1,), tau))
    return found[0].clamp(0.0, 1.0)


def baseline_weights(given: Path | None = None) -> Path:
    """The folder of weights: the given one, else that of the variable QRSC_BASELINE_WEIGHTS, else the package's."""
    return given or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else PACKAGED)


def required_weights(name: str, folder: Path, train: str) -> Path:
    """The file with the weights of a method.

    Raises:
        WeightsError: there is none; a method never runs with random weights.
    """
    path = folder / f"{name}.safetensors"
    if not path.is_file():
        raise WeightsError(
            f"the method {name} has no weights: there is no {path}. Train some with {train}, and name their folder by "
            f"--baseline-weights DIR or the variable {VARIABLE}."
        )
    return path
