"""Weighted sums of table rows: the lookup of textures, curves and homographies."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def weighted_rows(index: Tensor, tables: Tensor, weight: Tensor) -> Tensor:
    """Sums of K rows of each table, for M lookups.

    On a GPU with Triton this is a custom kernel: `embedding_bag`, which is fast on a CPU, assigns a whole group of
    threads to each lookup, however short its rows are.

    Args:
        index: `[M, K]`, int32 or int64.
        tables: `[G, R, C]`, floating point.
        weight: `[M, K]`, in the tables' dtype.

    Returns:
        `[G, C, M]`.
    """
    if index.shape != weight.shape or index.ndim != 2 or tables.ndim != 3:
        raise ValueError(
            "expected index and weight as [M, K] and tables as [G, R, C]; got "
            f"{tuple(index.shape)}, {tuple(weight.shape)} and {tuple(tables.shape)}."
        )
    if tables.device.type == "cuda" and _has_triton():
        from qrsc.simulate.paint.gather_kernel import weighted_rows as on_gpu

        return on_gpu(index, tables, weight)
    sums = [F.embedding_bag(index, table, per_sample_weights=weight, mode="sum").t() for table in tables]
    return sums[0][None] if len(sums) == 1 else torch.stack(sums)


def _has_triton() -> bool:
    from importlib.util import find_spec

    return find_spec("triton") is not None
