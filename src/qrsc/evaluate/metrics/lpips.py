"""LPIPS: perceptual distance of two pictures by the features of AlexNet, where it is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

WEIGHTS = "alexnet-owt-7be5be79.pth"
_PACKAGES = ("torchmetrics", "torchvision")


def load_lpips() -> Callable[[Tensor, Tensor], float]:
    """The function from a picture and its truth, both `[3, H, W]` in [0, 1], to LPIPS (AlexNet, inputs in [-1, 1]).

    Raises:
        ValueError: the packages or the weights are not there; nothing is ever downloaded.
    """
    missing = [package for package in _PACKAGES if find_spec(package) is None]
    if missing:
        raise ValueError(f"LPIPS needs {' and '.join(missing)}: pip install 'qrsc[lpips]', or leave lpips out.")
    if not weights_file().is_file():
        raise ValueError(
            f"LPIPS needs AlexNet's weights as {weights_file()}; get them with: python -c "
            "\"import torchvision; torchvision.models.alexnet(weights='IMAGENET1K_V1')\""
        )
    try:
        from torchmetrics.image.lpip import LearnedPerceptualImagePatchSimilarity
    except (ImportError, RuntimeError) as error:  # the second by a torchvision built for another torch
        raise ValueError(f"LPIPS needs a torchvision that fits torch {torch.__version__}: {error}.") from error

    network = LearnedPerceptualImagePatchSimilarity(net_type="alex", normalize=True)  # takes [0, 1] to [-1, 1] itself

    @torch.no_grad()
    def lpips(picture: Tensor, truth: Tensor) -> float:
        pair = (picture.clamp(0, 1).unsqueeze(0), truth.clamp(0, 1).unsqueeze(0))
        return float(network.to(truth.device)(*pair))

    return lpips


def weights_file() -> Path:
    """Where torchvision keeps the weights."""
    return Path(torch.hub.get_dir()) / "checkpoints" / WEIGHTS
