"""Command-line options from the fields of a dataclass, so that they are stated once.

A field is an option if its annotation holds a `qrsc.learn.trainer.training_options.Option`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, ForwardRef, get_args

import typer

from qrsc.learn.trainer.training_options import Option, RunOptions
from qrsc.names import parse_size

SIZES = (tuple[int, int], tuple[int, int] | None)  # `(height, width)`; WIDTHxHEIGHT on the command line


def takes(options: type[RunOptions]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a dataclass, in the place of its last parameter, `given`.

    The command gets the values of the fields by name. A field whose default depends on the recipe is left out where the
    user does not give it.
    """
    shown = _shown(options)

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def wrapped(**arguments: Any) -> None:
            given = {each.name: arguments.pop(each.name) for each in shown}
            command(**arguments, given=_values(shown, given))

        own = list(inspect.signature(command, eval_str=True).parameters.values())[:-1]
        parameters = [*own, *(each.parameter() for each in shown)]
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
        wrapped.__annotations__ = {each.name: each.annotation for each in parameters}
        return wrapped

    return decorate


@dataclass(frozen=True)
class _Shown:
    """A field that is a command-line option.

    Attributes:
        name, kind, default: of the field; a kind that cannot be read without torch is a list of words.
        option: what is said about it.
    """

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def is_size(self) -> bool:
        """Whether it is `(height, width)`, and WIDTHxHEIGHT on the command line."""
        return self.kind in SIZES

    @property
    def is_list(self) -> bool:
        """Whether it is a tuple of words, and has commas between them on the command line."""
        return isinstance(self.kind, ForwardRef)

    def parameter(self) -> inspect.Parameter:
        """The parameter of a command, as typer reads it."""
        about = self.option
        names = [about.names] if about.names else [f"--{self.name.replace('_', '-')}"] if self.kind is bool else []
        kind: Any = str if self.is_size or self.is_list else self.kind
        default = f"{self.default[1]}x{self.default[0]}" if self.is_size else self.default
        info = typer.Option(*names, help=about.help, metavar=about.metavar, min=about.at_least, max=about.at_most)
        if about.by_recipe:
            kind, default = kind | None, None
        annotation: Any = Annotated[kind, info]
        return inspect.Parameter(self.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _shown(options: type[RunOptions]) -> list[_Shown]:
    """The fields that are command-line options."""
    found = []
    for field in fields(options):
        kind, *about = get_args(field.type) or (field.type,)
        found += [_Shown(field.name, kind, field.default, each) for each in about if isinstance(each, Option)]
    return found


def _values(shown: Sequence[_Shown], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the fields: sizes and lists parsed, what is left to the recipe left out."""
    values = dict(given)
    for each in shown:
        value = values[each.name]
        if each.option.by_recipe and value is None:
            del values[each.name]
        elif each.is_size:
            values[each.name] = parse_size(value)
        elif each.is_list:
            values[each.name] = tuple(word.strip() for word in value.split(","))
    return values
