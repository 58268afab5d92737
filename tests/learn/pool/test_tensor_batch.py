from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from qrsc.learn.pool.tensor_batch import TensorBatch


@dataclass(frozen=True)
class Numbered(TensorBatch):
    number: Tensor  # [B]
    picture: Tensor  # [B, 3, H, W]

    @property
    def sizes(self) -> list[int]:
        return list(self.picture.shape)


@pytest.fixture
def batch() -> Numbered:
    number = torch.arange(5)
    return Numbered(number, number.reshape(5, 1, 1, 1).expand(5, 3, 2, 4).float())


@pytest.mark.parametrize(
    ("index", "expected"), [(slice(1, 3), [1, 2]), (torch.tensor([4, 0, 4]), [4, 0, 4]), (slice(0, 0), [])]
)
def test_a_part_takes_the_same_samples_of_every_tensor(
    batch: Numbered, index: Tensor | slice, expected: list[int]
) -> None:
    part = batch[index]
    assert isinstance(part, Numbered)
    assert len(part) == len(expected)
    assert part.sizes == [len(expected), 3, 2, 4]
    assert part.number.tolist() == part.picture[:, 0, 0, 0].tolist() == expected
    assert len(batch) == 5


def test_all_tensors_move_to_another_device(batch: Numbered) -> None:
    moved = batch.to("meta")
    assert isinstance(moved, Numbered)
    assert moved.number.is_meta
    assert moved.picture.is_meta
    assert (len(moved), moved.sizes) == (5, [5, 3, 2, 4])
