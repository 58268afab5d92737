"""`qrsc.simulate.paint.gather.weighted_rows` as a Triton kernel with one thread per lookup."""

# Triton has no types, and its arguments are pointers.
# mypy: disable-error-code="no-untyped-def, misc, untyped-decorator"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


@triton.jit
def _sum_rows(
    index,
    tables,
    weight,
    result,
    count,
    rows,
    K: tl.constexpr,
    C: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    table = tl.program_id(1).to(tl.int64)
    lookup = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = lookup < count
    for column in range(C):
        total = tl.zeros((BLOCK,), dtype=tl.float64 if WIDE else tl.float32)
        for k in range(K):  # from the second column on, index and weight are in the cache
            row = tl.load(index + lookup * K + k, mask=inside, other=0).to(tl.int64)
            share = tl.load(weight + lookup * K + k, mask=inside, other=0.0)
            total += share * tl.load(tables + (table * rows + row) * C + column, mask=inside, other=0.0)
        tl.store(result + (table * C + column) * count + lookup, total, mask=inside)


def weighted_rows(index: Tensor, tables: Tensor, weight: Tensor) -> Tensor:
    """See `qrsc.simulate.paint.gather.weighted_rows`."""
    (count, each), (groups, rows, columns) = index.shape, tables.shape
    result = torch.empty((groups, columns, count), dtype=tables.dtype, device=tables.device)
    if result.numel() > 0:
        _sum_rows[(triton.cdiv(count, BLOCK), groups)](
            index.contiguous(),
            tables.contiguous(),
            weight.contiguous(),
            result,
            count,
            rows,
            each,
            columns,
            tables.dtype == torch.float64,
            BLOCK,
        )
    return result
