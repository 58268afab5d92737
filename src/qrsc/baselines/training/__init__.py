"""Training of the networks among the baselines, all on the same batches: `train_baselines(names, output, options)`.

`train_baselines` is loaded on first use, so that the options can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qrsc.baselines.training.options import BaselineTrainingOptions

if TYPE_CHECKING:
    from qrsc.baselines.training.train import train_baselines
else:

    def __getattr__(name: str) -> object:
        if name != "train_baselines":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from qrsc.baselines.training.train import train_baselines

        return train_baselines


__all__ = ["BaselineTrainingOptions", "train_baselines"]
