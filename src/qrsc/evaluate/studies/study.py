"""Run a study from its manifest: check everything, render and train what is missing, score, write the results."""

from __future__ import annotations

import datetime
import os
import platform
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from qrsc import __version__
from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import load_method
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.report.tables import TableFormat, frame_rows, write_table
from qrsc.evaluate.run.scores import FrameScore, load_measures
from qrsc.evaluate.studies.ablation import ablation_rows, chart_names, format_ablation, write_ablation_charts
from qrsc.evaluate.studies.entries import Manifest, Variant
from qrsc.evaluate.studies.generalisation import (
    COMPARED,
    format_generalisation,
    generalisation_rows,
    heat_map_name,
    write_heat_maps,
)
from qrsc.evaluate.studies.manifest import parse_metrics, read_ablation, read_generalisation
from qrsc.evaluate.studies.scoring import Settings, score_variants
from qrsc.evaluate.studies.sequences import sequences_of, to_render
from qrsc.evaluate.studies.study_training import (
    require_trainable,
    require_trained_alike,
    to_train,
    train_variants,
    trained_for,
    training_plan,
)
from qrsc.evaluate.studies.variants import require_own_weights, weights_sha256
from qrsc.flow import default_flow
from qrsc.media.outputs import require_writable

FORMS: dict[TableFormat, str] = {"markdown": ".md", "csv": ".csv", "json": ".json"}
_Watched = tuple[ProgressCallback | None, CancelToken | None]
FRAMES = "frames.csv"  # the figures of every frame


@dataclass(frozen=True)
class StudyOptions:
    """How a study is run; the names are those of the commands.

    Attributes:
        metrics, flow: in place of the manifest's; if neither says, the device decides on the flow.
        device: where frames are rendered, corrected and measured.
        out: folder for the tables, and for the figures of finished sequences, which are used again.
        plots: folder for the charts.
        cache_flow: folder that keeps flows from run to run.
        force: replace tables and charts of the same names.
    """

    metrics: tuple[str, ...] | None = None
    flow: str | None = None
    device: torch.device | str = "cpu"
    out: Path | None = None
    plots: Path | None = None
    cache_flow: Path | None = None
    force: bool = False


@dataclass(frozen=True)
class Training:
    """That the networks without weights are trained first, and for how long each.

    Attributes:
        steps, minutes: in place of the manifest's.
        say: called with a line about each network that is trained.
    """

    steps: int | None = None
    minutes: float | None = None
    say: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class StudyResult:
    """What a study found.

    Attributes:
        rows: of the table, with all digits.
        scores: of every frame by every variant.
        made: a line on what the figures were made with.
        table: the table in a form.
    """

    rows: Sequence[Mapping[str, Any]]
    scores: Sequence[FrameScore]
    made: str
    table: Callable[[TableFormat], str]


def ablate(
    path: Path,
    options: StudyOptions,
    *,
    training: Training | None = None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> StudyResult:
    """Score a manifest's variants of the method, parts of it removed, beside the paper's ablation study.

    Args:
        path: of the manifest.
        training: train the networks whose own weights are missing first; None warns and leaves them out.
        progress: called with a `Progress` for every scene rendered, step of a training, and frame scored.
        cancel: asked for each of them; once it is set the call raises `Cancelled`.
    """
    manifest = read_ablation(path)
    scores, made = _scored(manifest, options, training, (progress, cancel), "ablation", chart_names(manifest))
    rows = ablation_rows(manifest, scores)
    result = StudyResult(rows, scores, made, partial(format_ablation, manifest, rows))
    weights = "\n".join(weights_lines(manifest.variants))
    end = f"\nWeights:\n\n{weights}" if weights else ""
    _write(result, options, "ablation", lambda table: f"# Ablation study\n\n{made}\n\n{table}\n{end}")
    if options.plots is not None:
        write_ablation_charts(options.plots, manifest, rows, made)
    return result


def generalise(
    path: Path,
    options: StudyOptions,
    *,
    training: Training | None = None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> StudyResult:
    """Score each of a manifest's checkpoints on each of its data sets, with the paper's relative decline.

    Args:
        path, options, training, progress, cancel: as for `ablate`.
    """
    manifest = read_generalisation(path)
    charts = map(heat_map_name, COMPARED)
    scores, made = _scored(manifest, options, training, (progress, cancel), "generalisation", charts)
    rows = generalisation_rows(manifest, scores)
    result = StudyResult(rows, scores, made, partial(format_generalisation, manifest, rows))
    weights = "\n".join(weights_lines(manifest.variants))
    title = "# From one data set to another"
    _write(result, options, "generalisation", lambda table: f"{title}\n\n{made}\n\n{table}\n\nWeights:\n\n{weights}")
    if options.plots is not None:
        write_heat_maps(options.plots, manifest, rows, made)
    return result


def _scored(
    manifest: Manifest,
    options: StudyOptions,
    training: Training | None,
    watched: _Watched,
    name: str,
    charts: Iterable[str],
) -> tuple[list[FrameScore], str]:
    """The figures of all frames, after training where that is asked for, and a line on how they were made.

    Whatever can fail without computing anything fails first.

    Args:
        name: of the study's tables.
        charts: names of the files that may be drawn.
    """
    wanted = training or Training(steps=1)  # mistakes in the manifest's training are reported even if it is not used
    plan = training_plan(manifest, steps=wanted.steps, minutes=wanted.minutes)
    if training is not None:
        require_trainable(plan)
    require_trained_alike(manifest.variants)
    _require_outputs(manifest, options, name, charts)
    settings = _settings(manifest, options)
    sets = _sequences(manifest, torch.device(options.device), watched)
    if training is not None and to_train(manifest.variants):
        train_variants(manifest.variants, plan, progress=watched[0], say=training.say)
        for variant in manifest.variants:
            require_own_weights(variant)
    missing = [f"{each.name} ({each.missing})" for each in manifest.variants if each.missing is not None]
    if missing:
        warnings.warn(f"not scored, there are no weights: {'; '.join(missing)}.", stacklevel=3)
    progress, cancel = watched
    scores = score_variants(sets, manifest.variants, settings, progress=progress, cancel=cancel)
    return scores, made_with(settings, sets)


def _require_outputs(manifest: Manifest, options: StudyOptions, name: str, charts: Iterable[str]) -> None:
    """Raise if an output is an input, or exists and may not be replaced: before hours of work, not after."""
    outputs: dict[str, Path | None] = {}
    if options.out is not None:
        for file in (*(f"{name}{suffix}" for suffix in FORMS.values()), FRAMES):
            outputs[f"--out's {file}"] = options.out / file
    if options.plots is not None:
        outputs |= {f"--plots' {file}": options.plots / file for file in charts}
    inputs = [manifest.path, *(variant.weights for variant in manifest.variants if isinstance(variant.weights, Path))]
    inputs += [path for entry in manifest.sets for path in (entry.root, entry.list_file) if path is not None]
    require_writable(outputs, inputs=inputs, overwrite=options.force, how="--force")


def _settings(manifest: Manifest, options: StudyOptions) -> Settings:
    """How variants are scored, after loading everything that they need once."""
    metrics = manifest.metrics if options.metrics is None else parse_metrics(options.metrics, "--metrics")
    flow = options.flow or manifest.flow or default_flow(torch.device(options.device))
    shared = shared_flow(flow)
    load_measures(metrics)
    for variant in manifest.variants:
        require_own_weights(variant)
        if variant.method is not None:
            load_method(variant.method, shared)
    return Settings(flow, manifest.at, metrics, options.device, options.cache_flow, options.out)


def _sequences(manifest: Manifest, device: torch.device, watched: _Watched) -> dict[str, list[SequenceFiles]]:
    """The sequences of all data sets, by name in the manifest's order."""
    rendering = torch.device("cpu") if device.type == "mps" else device  # MPS has no double precision
    stage = Stage("rendering", sum(to_render(entry) for entry in manifest.sets), *watched)
    # Sets on disk first: what is wrong with them is reported before minutes of rendering.
    found = {
        entry.name: sequences_of(entry, rendering, lambda step: stage.advance())
        for entry in sorted(manifest.sets, key=to_render)
    }
    return {entry.name: found[entry.name] for entry in manifest.sets}


def _write(result: StudyResult, options: StudyOptions, name: str, page: Callable[[str], str]) -> None:
    """Write the tables; the Markdown one as a page."""
    if options.out is None:
        return
    for form, suffix in FORMS.items():
        table = result.table(form)
        write_table(options.out / f"{name}{suffix}", page(table) if form == "markdown" else table)
    write_table(options.out / FRAMES, frame_rows(result.scores))


def made_with(settings: Settings, sets: Mapping[str, Sequence[SequenceFiles]]) -> str:
    """A line for a table: version, hardware, date, flow and amount of data."""
    device = torch.device(settings.device)
    cores = f"{os.cpu_count()} CPU cores, {platform.machine()}"
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else cores
    counts = {name: len(sequences) for name, sequences in sets.items()}
    amounts = f"sequences: {', '.join(f'{name} {count}' for name, count in counts.items())}"
    if len(counts) > 2 and len(set(counts.values())) == 1:  # a long list would not fit into charts
        amounts = f"{next(iter(counts.values()))} sequences of each set"
    return (
        f"qrsc {__version__}; {hardware}, torch {torch.__version__.partition('+')[0]}; "
        f"{datetime.date.today().isoformat()}; {settings.flow} flow; {amounts}."
    )


def weights_lines(variants: Iterable[Variant]) -> list[str]:
    """The weights of each variant, and how long they were trained where that is known."""
    lines = []
    for variant in variants:
        if variant.weights is not None:
            digest = "none there" if variant.missing is not None else f"SHA-256 {weights_sha256(variant)[:16]}"
            trained = trained_for(variant)
            more = f"; {trained['steps']} steps in {trained['minutes']:.1f} minutes" if trained else ""
            lines.append(f"- {variant.name}: {Path(variant.weights).name}, {digest}{more}")
    return lines
