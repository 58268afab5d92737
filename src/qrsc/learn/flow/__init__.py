"""Training of the flow network: `train_flow(output, FlowTrainingOptions(...))`.

`train_flow` is loaded on first use, so that the options can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qrsc.learn.flow.flow_options import FlowTrainingOptions

if TYPE_CHECKING:
    from qrsc.learn.flow.flow_training import train_flow
else:

    def __getattr__(name: str) -> object:
        if name != "train_flow":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from qrsc.learn.flow.flow_training import train_flow

        return train_flow


__all__ = ["FlowTrainingOptions", "train_flow"]
