"""Check the description of a network before it is built: a file can claim ten million layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from qrsc.files.documents import shortened

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Limits = Mapping[str, tuple[int, int]]  # smallest and largest value of a field, or of each number in it

_INITIALISERS = frozenset({"normal_", "uniform_", "fill_", "zero_", "mul_"})


def require_sizes(options: DataclassInstance, limits: Limits) -> None:
    """Raise unless all fields of a description have the types and lengths of their defaults, and lie within limits.

    Args:
        options: a dataclass in which every field has a default.
        limits: of every field that is a whole number, or several.

    Raises:
        ValueError: the message names the field.
    """
    for each in fields(options):
        value, default = getattr(options, each.name), each.default
        assert default is not MISSING
        if each.name not in limits:
            if not isinstance(value, type(default)):
                wanted = "true or false" if isinstance(default, bool) else "a word"
                raise ValueError(f"{each.name} must be {wanted}; got {shortened(value)}.")
            continue
        least, most = limits[each.name]
        several = isinstance(default, tuple)
        numbers = value if isinstance(value, tuple) and several else (value,)
        if len(numbers) != (len(default) if several else 1) or not all(
            type(number) is int and least <= number <= most for number in numbers
        ):
            wanted = f"{len(default)} whole numbers" if several else "a whole number"
            raise ValueError(f"{each.name} must be {wanted} from {least} to {most}; got {shortened(value)}.")


@contextmanager
def without_memory() -> Iterator[None]:
    """Networks that are built inside have names and shapes, and no values: they take no memory."""
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Leaves out what initialises tensors.

    They have no values to set, and for random ones on the meta device torch imports its compiler: 12 s on two busy
    cores.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if getattr(func, "__name__", "") in _INITIALISERS:
            return args[0] if args else named["tensor"]  # `torch.nn.init` names its arguments
        return func(*args, **named)
