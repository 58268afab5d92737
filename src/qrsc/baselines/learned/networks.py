"""The networks among the baselines by name, and their files of weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from qrsc.baselines.learned.adarsc import Adarsc
from qrsc.baselines.learned.cvr import Cvr
from qrsc.baselines.learned.dsun import Dsun
from qrsc.baselines.learned.jcd import Jcd
from qrsc.baselines.learned.rssr import Rssr
from qrsc.baselines.learned.sunet import Sunet
from qrsc.baselines.learned.window import Baseline
from qrsc.files.documents import shortened
from qrsc.weights import WeightsError, build_strictly, noted_options, read_notes, read_weights

NETWORKS: Mapping[str, type[Baseline]] = MappingProxyType(
    {"dsun": Dsun, "sunet": Sunet, "rssr": Rssr, "cvr": Cvr, "jcd": Jcd, "adarsc": Adarsc}
)
MOST_WIDTH = 64


def named_networks(names: str) -> tuple[str, ...]:
    """The networks that a text names: `all`, or names with commas between them.

    Raises:
        ValueError: a name is unknown, or stands twice.
    """
    found = tuple(NETWORKS) if names.strip() == "all" else tuple(word.strip() for word in names.split(","))
    unknown = [name for name in found if name not in NETWORKS]
    if unknown or len(set(found)) < len(found):
        raise ValueError(
            f"name one or more of {', '.join(NETWORKS)}, each once and with commas between them, or all; got {names!r}."
        )
    return found


def build_baseline(name: str, width: int | None = None) -> Baseline:
    """A network by name, with random weights.

    Args:
        width: of its first layer; None for that which `qrsc train baseline` trains.
    """
    kind = NETWORKS[name]
    return kind(kind.trained_width if width is None else width)


def baseline_from_file(path: Path) -> Baseline:
    """A network from a file that `qrsc train baseline` wrote.

    Raises:
        WeightsError: it is no such file, or damaged.
    """
    notes = read_notes(path)
    name = notes.get("baseline", "")
    if name not in NETWORKS:
        raise WeightsError(
            f"{path} holds no weights of {', '.join(NETWORKS)}: its metadata says {shortened(name)}. "
            "`qrsc train baseline` writes such files."
        )
    width = noted_options(path, notes, "options").get("width")
    if type(width) is not int or not 1 <= width <= MOST_WIDTH:
        raise WeightsError(f"{path} must state a width from 1 to {MOST_WIDTH}; got {shortened(width)}.")
    return build_strictly(lambda: build_baseline(name, width), read_weights(path), str(path))
