"""The weights of the package in words: one line each, a whole card, or JSON."""

from __future__ import annotations

import json
from typing import Any

from qrsc.weights import FOLDER, WeightsError, card, shipped_weights, verify


def describe_weights(name: str | None, *, as_json: bool) -> tuple[str, bool]:
    """Describe one or all weights of the package; the second value is whether every file matches its card."""
    cards = {known: card(known) for known in ([name] if name is not None else shipped_weights())}
    problems = {known: _problem(known, content) for known, content in cards.items()}
    intact = not any(problems.values())
    if as_json:
        return json.dumps(
            [{**content, "intact": not problems[known]} for known, content in cards.items()], indent=2
        ), intact
    if name is not None:
        return "\n".join([*_card_lines(cards[name]), f"file: {problems[name] or 'intact'}"]), intact
    return "\n".join(_summary(known, content, problems[known]) for known, content in cards.items()), intact


def _problem(name: str, content: dict[str, Any]) -> str:
    try:
        verify(FOLDER / f"{name}.safetensors", str(content["sha256"]))
    except WeightsError as error:
        return str(error)
    return ""


def _summary(name: str, content: dict[str, Any], problem: str) -> str:
    size = (FOLDER / f"{name}.safetensors").stat().st_size / 1e6
    millions = content["parameters"] / 1e6
    facts = f"{millions:.2f} M parameters, {size:.1f} MB, {content['date']}, {content['licence']}"
    return f"{name}: {facts}; {problem or 'intact'}\n    {content['network']}\n    {content['data']}"


def _card_lines(content: Any, indent: int = 0) -> list[str]:
    """A model card as indented lines."""
    lines = []
    for key, value in content.items():
        if isinstance(value, dict):
            lines += [f"{' ' * indent}{key}:", *_card_lines(value, indent + 4)]
        elif isinstance(value, list) and any(isinstance(entry, dict) for entry in value):
            lines.append(f"{' ' * indent}{key}:")
            for number, entry in enumerate(value, start=1):
                lines += [f"{' ' * (indent + 4)}{number}.", *_card_lines(entry, indent + 8)]
        else:
            lines.append(f"{' ' * indent}{key}: {value}")
    return lines
