"""The trunks of ST-LPIPS: AlexNet and VGG-16 without strides, with published weights.

Convention
    Pictures are `[B, 3, H, W]` in [-1, 1]. A trunk gives features `[B, C, h, w]` at some of its layers, the taps; two
    pictures differ at a tap by the squared difference of their features, each of unit length over the channels, added
    up with weights that were learned with the trunk.

The networks are those of Ghildyal and Liu (2022): no convolution skips pixels. Where the original networks do, the
features are blurred by 1, 2, 1 and every second one is kept; max-pooling moves by single pixels. The weights are in the
package `stlpips_pytorch` (BSD licence), of which only the two files are read: its code needs much else, and is not
imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from pickle import UnpicklingError
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PACKAGE = "stlpips_pytorch"
TrunkName = Literal["alex", "vgg"]
TRUNKS: tuple[TrunkName, ...] = get_args(TrunkName)
TINY = 1e-10  # added to the length of features, which can be 0
BLUR_RIM = 2  # pixels that features are mirrored by at their edges before they are blurred


@dataclass(frozen=True)
class Stage:
    """What lies between two taps.

    Attributes:
        pool: side of the windows of the max-pooling that it begins with, after which every second pixel is kept; 0 for
            none.
        convolutions: their numbers in the weights' file, each followed by a rectifier.
        padding: of the convolutions, zeros.
        blur_first: every second pixel is kept behind the first convolution, before its rectifier.
    """

    pool: int
    convolutions: tuple[int, ...]
    padding: int
    blur_first: bool = False


STAGES: dict[TrunkName, tuple[Stage, ...]] = {
    "alex": (
        Stage(0, (0,), 2, blur_first=True),
        Stage(3, (5,), 2),
        Stage(3, (9,), 1),
        Stage(0, (11,), 1),
        Stage(0, (13,), 1),
    ),
    "vgg": (
        Stage(0, (0, 2), 1),
        Stage(2, (6, 8), 1),
        Stage(2, (12, 14, 16), 1),
        Stage(2, (20, 22, 24), 1),
        Stage(2, (28, 30, 32), 1),
    ),
}


class Trunk(nn.Module):
    """The first taps of a trunk, and how much each channel counts there.

    Args:
        name: `alex` or `vgg`.
        weights: by their names in the file.
        taps: how many of the five.
    """

    shift: Tensor
    scale: Tensor

    def __init__(self, name: TrunkName, weights: Mapping[str, Tensor], taps: int = 5) -> None:
        super().__init__()
        if not 1 <= taps <= len(STAGES[name]):
            raise ValueError(f"a trunk has 1 to {len(STAGES[name])} taps; got {taps!r}.")
        self.stages = STAGES[name][:taps]
        for each in ("shift", "scale"):
            self.register_buffer(each, weights[f"scaling_layer.{each}"].float())
        self.convolutions = nn.ModuleList()
        for number, stage in enumerate(self.stages, start=1):
            for layer in stage.convolutions:
                kernel, bias = (weights[f"net.slice{number}.{layer}.{part}"].float() for part in ("weight", "bias"))
                convolution = nn.Conv2d(kernel.shape[1], kernel.shape[0], kernel.shape[-1], padding=stage.padding)
                convolution.load_state_dict({"weight": kernel, "bias": bias})
                self.convolutions.append(convolution)
        for tap in range(taps):
            self.register_buffer(f"counts_{tap}", weights[f"lin{tap}.model.1.weight"].float())  # [1, C, 1, 1]
        self.eval().requires_grad_(False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """The features at the taps, of unit length over the channels."""
        features = (pictures - self.shift) / self.scale
        convolutions = iter(self.convolutions)
        found = []
        for stage in self.stages:
            if stage.pool:
                features = halved(F.max_pool2d(features, stage.pool, stride=1))
            for place in range(len(stage.convolutions)):
                features = next(convolutions)(features)
                features = F.relu(halved(features) if stage.blur_first and place == 0 else features)
            found.append(features / (torch.linalg.vector_norm(features, dim=1, keepdim=True) + TINY))
        return found

    def differences(self, features: list[Tensor], others: list[Tensor]) -> list[Tensor]:
        """How much features differ at each tap, `[B, 1, h, w]`."""
        return [
            (getattr(self, f"counts_{tap}") * (one - other).square()).sum(1, keepdim=True)
            for tap, (one, other) in enumerate(zip(features, others, strict=True))
        ]


def halved(features: Tensor) -> Tensor:
    """Every second pixel of features `[B, C, H, W]` blurred by 1, 2, 1 across and down; edges are mirrored."""
    padded = F.pad(features, [BLUR_RIM] * 4, mode="reflect")
    # Sums of shifted features: convolutions of single channels take many times as long on a GPU.
    rows = 0.25 * (padded[..., :-2:2, :] + padded[..., 2::2, :]) + 0.5 * padded[..., 1:-1:2, :]
    return 0.25 * (rows[..., :-2:2] + rows[..., 2::2]) + 0.5 * rows[..., 1:-1:2]


def load_trunk(name: TrunkName, taps: int = 5) -> Trunk:
    """A trunk with its weights, on the CPU.

    Raises:
        ValueError: the package with the weights is not there, or damaged; nothing is ever downloaded.
    """
    if name not in TRUNKS:
        raise ValueError(f"unknown trunk {name!r}; choose one of {', '.join(TRUNKS)}.")
    path = weights_file(name)
    try:
        weights: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
        return Trunk(name, weights, taps)
    except (UnpicklingError, RuntimeError, EOFError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({type(error).__name__}); install {PACKAGE} again.") from error


def weights_file(name: TrunkName) -> Path:
    """Where the package has a trunk's weights; a `ValueError` where it is not installed."""
    # Looked for and not imported: importing it would run its code.
    found = find_spec(PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        path = Path(folder) / "weights" / "vST0.0" / f"{name}_shift_tolerant.pth"
        if path.is_file():
            return path
    raise ValueError(
        f"ST-LPIPS and the perceptual loss need the weights of the package {PACKAGE}: pip install 'qrsc[perceptual]', "
        f"or, without its own dependencies, pip install --no-deps {PACKAGE}. For training you can "
        "choose laplacian or census in its place."
    )
