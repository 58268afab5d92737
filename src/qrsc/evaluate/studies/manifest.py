"""Read and check the manifest of a study; everything that can be refused is refused before anything is computed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from qrsc.data.dataset import MASKS
from qrsc.data.layouts import LAYOUTS, SPLITS, get_layout
from qrsc.evaluate.methods.registry import METHODS
from qrsc.evaluate.metrics.metric_table import METRICS
from qrsc.evaluate.report.published import ABLATIONS
from qrsc.evaluate.studies.checked_tables import ManifestError, Table, read_table
from qrsc.evaluate.studies.entries import DataEntry, Manifest, Variant
from qrsc.fusion import FUSIONS
from qrsc.fusion.lite.network import LiteOptions
from qrsc.fusion.rsa2.network import Rsa2Options
from qrsc.learn.fusion.alignment import ALIGNMENT_MOTIONS
from qrsc.learn.fusion.fusion_training import WEIGHTS
from qrsc.names import FusionNetworkName as Kind
from qrsc.names import parse_size
from qrsc.pipeline import WINDOWS
from qrsc.simulate.output.sets import FIXED_SETS, SCENES
from qrsc.timing import Readout, parse_scan
from qrsc.weights import shipped_weights

SUFFIX = ".safetensors"
_OPTIONS: dict[Kind, type] = {"rsa2": Rsa2Options, "rsa2-lite": LiteOptions}
# Names become parts of file names and of methods' names.
_NAME = re.compile(r"[\w .+-]+")


def read_ablation(path: Path) -> Manifest:
    """The manifest of `qrsc ablate`: data sets and rows, charts of some of the rows, and how to train them."""
    table = read_table(path)
    manifest, own = _common(table, path), _own(table, path.parent)
    rows = {name: _row(name, entry, path.parent, own) for name, entry in _named(table, "rows").items()}
    variants = tuple(_resolved(name, row, rows, table) for name, row in rows.items())
    charts = {}
    for name, entry in _named(table, "charts").items():
        shown = entry.words("rows") or ()
        if not shown or set(shown) - set(rows):
            raise entry.error(f"rows must name some of {', '.join(rows)}; got {', '.join(shown) or 'none'}")
        charts[name] = shown
        entry.end()
    training = table.take("training", dict) or {}
    table.end()
    return replace(manifest, variants=variants, charts=charts, training=training)


def read_generalisation(path: Path) -> Manifest:
    """The manifest of `qrsc generalise`: data sets, and checkpoints that say which of the sets they were trained on."""
    table = read_table(path)
    manifest, own = _common(table, path), _own(table, path.parent)
    roots = {entry.name: entry.root for entry in manifest.sets}
    variants = []
    for name, entry in _named(table, "checkpoints").items():
        trained_on = entry.take("trained_on", str)
        if trained_on is not None and trained_on not in roots:
            raise entry.error(f"trained_on must be one of the sets {', '.join(roots)}; got {trained_on!r}")
        method, weights = entry.take("method", str), entry.take("weights", str)
        if method is not None and weights is not None:
            raise entry.error("give one of method and weights")
        variant = _with_weights(name, entry, path.parent, own, method, weights)
        if variant.trained_here and trained_on is not None and roots[trained_on] is not None:
            raise entry.error(
                "give its weights: only worlds like those of the simulator's fixed sets are rendered to train on "
                f"(`qrsc train fusion --data` trains on {trained_on})"
            )
        variants.append(replace(variant, trained_on=trained_on))
        entry.end()
    training = table.take("training", dict) or {}
    table.end()
    taken = [each.trained_on for each in variants if each.trained_on is not None]
    for name in taken:
        if taken.count(name) > 1:
            raise table.error(f"two checkpoints were trained on {name}: which one counts for it is not clear")
    return replace(manifest, variants=tuple(variants), training=training)


def parse_metrics(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The metrics, if all of them are known."""
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise ManifestError(f"{where}: unknown metrics {', '.join(unknown) or '(none)'}; known: {', '.join(METRICS)}.")
    return names


def table_size(text: str, table: Table) -> tuple[int, int]:
    """`(height, width)` from `WIDTHxHEIGHT`; an error names the table."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise table.error(str(error).removesuffix(".")) from error


def _common(table: Table, path: Path) -> Manifest:
    """What both kinds of manifest have in common."""
    at = table.choose("at", tuple(MASKS)) or "middle"
    sets = tuple(_set(name, entry, path.parent, at) for name, entry in _named(table, "sets").items())
    manifest = Manifest(path, sets, (), flow=table.take("flow", str), at=at)
    metrics = table.words("metrics")
    return manifest if metrics is None else replace(manifest, metrics=parse_metrics(metrics, str(path)))


def _named(table: Table, key: str) -> dict[str, Table]:
    found = table.tables(key)
    for name in found:
        if not _NAME.fullmatch(name):
            raise table.error(f"{key}.{name}: a name is made of letters, digits, blanks and . + - _")
    if not found and key != "charts":
        raise table.error(f"there are no {key}: name at least one as [{key}.NAME]")
    return found


def _set(name: str, table: Table, folder: Path, at: str) -> DataEntry:
    root, layout = table.take("root", str), table.choose("layout", (*LAYOUTS, "acc"))
    scenes, size = table.take("scenes", int), table.take("size", str)
    split, listed = table.choose("split", SPLITS), table.take("list", str)
    gamma, scan = table.take("gamma", float), table.take("scan", str)
    table.end()
    if scenes is not None and scenes < 1:
        raise table.error(f"scenes must be 1 or more, got {scenes}")
    if root is None:
        if name not in FIXED_SETS:
            raise table.error(f"unknown set {name!r}: give its root and layout, or name one of {', '.join(FIXED_SETS)}")
        if any(given is not None for given in (layout, split, listed, gamma, scan)) or (scenes or 1) > SCENES:
            raise table.error(f"a fixed set takes scenes (up to {SCENES}) and size alone")
        return DataEntry(name, scenes=scenes, size=None if size is None else table_size(size, table))
    place = folder / root
    if layout is None or size is not None:
        raise table.error("a set with a root needs its layout, and has a size of its own")
    if not place.is_dir():
        raise table.error(f"there is no folder {place}")
    if at not in get_layout("bsrsc" if layout == "acc" else layout).names:
        raise table.error(f"the layout {layout} has no truth at the {at} row")
    if (layout == "acc") != (listed is not None):
        raise table.error("the layout acc and a list (from: qrsc data acc) need each other")
    if listed is not None and not (folder / listed).is_file():
        raise table.error(f"there is no list {folder / listed}")
    if gamma is None and scan is not None:
        raise table.error("scan replaces the data set's own only together with gamma; give both or none")
    try:
        readout = None if gamma is None else Readout(gamma, parse_scan(scan or "top-down"))
    except ValueError as error:
        raise table.error(str(error).removesuffix(".")) from error
    return DataEntry(name, place, layout, split, None if listed is None else folder / listed, readout, scenes)


_Own = tuple[Path, Mapping[str, Any]]  # folder of the weights that a study trains, and options of all their networks
_Row = tuple[Variant, str | None]  # with the name of the row whose weights it uses


def _own(table: Table, folder: Path) -> _Own:
    return (folder / (table.take("weights", str) or "weights")).resolve(), table.take("network", dict) or {}


def _row(name: str, table: Table, folder: Path, own: _Own) -> _Row:
    method, weights, of = (table.take(key, str) for key in ("method", "weights", "weights_of"))
    if sum(each is not None for each in (method, weights, of)) > 1:
        raise table.error("give one of method, weights and weights_of")
    paper = table.choose("paper", tuple(dict.fromkeys(line.method for line in ABLATIONS)))
    if of is None:
        variant = _with_weights(name, table, folder, own, method, weights)
    else:
        variant = _variant(name, table, None, None, folder)
    table.end()
    if of is not None and (variant.network or variant.kind is not None or variant.motion != "quadratic"):
        raise table.error("with weights_of, the motion, kind and network are those of the other row: leave them out")
    return replace(variant, paper=paper), of


def _with_weights(name: str, table: Table, folder: Path, own: _Own, method: str | None, weights: str | None) -> Variant:
    """A method, a network with given weights, or, if it has neither, a network that the study trains."""
    if method is not None or weights is not None:
        return _variant(name, table, method, weights, folder)
    made, common = own
    variant = _variant(name, table, None, str(made / name / WEIGHTS), folder)
    kind = variant.kind or "rsa2"
    # No denoising before fusion unless it is asked for: the study is about the network.
    network = {"calm": False, **common, **variant.network}
    _check_network(kind, network, table)
    return replace(variant, kind=kind, network=network, trained_here=True)


def _resolved(name: str, row: _Row, rows: Mapping[str, _Row], table: Table) -> Variant:
    """A row with the weights of the row that it refers to."""
    variant, of = row
    if of is None:
        return variant
    if of not in rows or rows[of][0].weights is None:
        own = ", ".join(other for other, (each, _) in rows.items() if each.weights is not None)
        raise table.error(f"rows.{name}: weights_of must be a row with weights of its own ({own}); got {of!r}")
    return replace(rows[of][0], name=name, frames=variant.frames, paper=variant.paper, trained_here=False)


def _variant(name: str, table: Table, method: str | None, weights: str | None, folder: Path) -> Variant:
    motion, frames = table.choose("motion", ALIGNMENT_MOTIONS), table.take("frames", int)
    kind, network = table.choose("kind", tuple(_OPTIONS)), table.take("network", dict) or {}
    if method is not None:
        if method not in METHODS and ":" not in method:
            raise table.error(f"unknown method {method!r}; choose from {', '.join(METHODS)}, or name module:function")
        if method in _OPTIONS and method not in FUSIONS:
            raise table.error(f"the weights of {method} do not come with this version of the package; name a file")
        if network or any(given is not None for given in (motion, frames, kind)):
            raise table.error("motion, frames, kind and network are for networks, not for a method")
        return Variant(name, method)
    if frames is not None and frames not in WINDOWS:
        raise table.error(f"frames must be one of {', '.join(map(str, WINDOWS))}; got {frames}")
    _check_network(kind or "rsa2", network, table)
    place = None if weights is None else _weights(weights, folder, table)
    return Variant(name, None, place, motion or "quadratic", frames or 5, kind, network)


def _weights(text: str, folder: Path, table: Table) -> Path | str:
    if text.endswith(SUFFIX):
        return folder / text
    shipped = [name for name in shipped_weights() if name in _OPTIONS]
    if text not in shipped:
        raise table.error(f"weights are a {SUFFIX} file, or of the package: {', '.join(shipped)}; got {text!r}")
    return text


def _check_network(kind: Kind, options: Mapping[str, Any], table: Table) -> None:
    known = [each.name for each in fields(_OPTIONS[kind])]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise table.error(f"the network {kind} has no option {', '.join(unknown)}; it has {', '.join(known)}")
    try:
        _OPTIONS[kind](**{key: tuple(value) if isinstance(value, list) else value for key, value in options.items()})
    except (TypeError, ValueError) as error:
        raise table.error(f"network: {str(error).rstrip('.')}") from error
