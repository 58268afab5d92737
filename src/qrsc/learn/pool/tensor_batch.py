"""The base class of batches: dataclasses of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import torch
from torch import Tensor

Batch = TypeVar("Batch", bound="TensorBatch")


@dataclass(frozen=True)
class TensorBatch:
    """A dataclass of tensors only, all with the samples along their first dimension."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self: Batch, index: Tensor | slice) -> Batch:
        """Some of the samples."""
        return _with_each(self, lambda values: values[index])

    def to(self: Batch, device: torch.device | str) -> Batch:
        """The same samples on another device."""
        return _with_each(self, lambda values: values.to(device))


def _with_each(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    return replace(batch, **{field.name: change(getattr(batch, field.name)) for field in fields(batch)})
