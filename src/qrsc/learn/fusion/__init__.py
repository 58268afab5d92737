"""Training of the fusion networks: `train_fusion(output, FusionTrainingOptions(...))`.

`train_fusion` is loaded on first use, so that the options can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qrsc.learn.fusion.fusion_options import FusionTrainingOptions

if TYPE_CHECKING:
    from qrsc.learn.fusion.fusion_training import train_fusion
else:

    def __getattr__(name: str) -> object:
        if name != "train_fusion":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from qrsc.learn.fusion.fusion_training import train_fusion

        return train_fusion


__all__ = ["FusionTrainingOptions", "train_fusion"]
