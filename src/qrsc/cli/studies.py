"""What `qrsc ablate` and `qrsc generalise` have in common between their options and their tables."""

from __future__ import annotations

import datetime
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import torch
import typer

from qrsc import __version__
from qrsc.cli.progress import progress_bar
from qrsc.data.layouts import SequenceFiles
from qrsc.evaluate.methods.registry import load_method
from qrsc.evaluate.methods.shared_flow import shared_flow
from qrsc.evaluate.report.tables import TableFormat, frame_rows
from qrsc.evaluate.run.scores import FrameScore, load_measures
from qrsc.evaluate.studies.entries import Manifest, Variant
from qrsc.evaluate.studies.manifest import parse_metrics
from qrsc.evaluate.studies.scoring import Settings, score_variants
from qrsc.evaluate.studies.sequences import sequences_of, to_render
from qrsc.evaluate.studies.study_training import (
    TrainingPlan,
    require_trainable,
    require_trained_alike,
    to_train,
    train_variants,
    trained_for,
    training_plan,
)
from qrsc.evaluate.studies.variants import require_own_weights, weights_sha256
from qrsc.flow import default_flow

FORMS: dict[TableFormat, str] = {"markdown": ".md", "csv": ".csv", "json": ".json"}
FRAMES = "frames.csv"  # the figures of every frame


@dataclass(frozen=True)
class StudyOptions:
    """The options that both commands take, by their names."""

    form: TableFormat
    metrics: str | None
    flow: str | None
    device: torch.device
    out: Path | None
    plots: Path | None
    cache_flow: Path | None
    force: bool
    quiet: bool


@dataclass(frozen=True)
class Training:
    """Whether and how long to train what has no weights yet."""

    wanted: bool
    steps: int | None
    minutes: float | None


def scored(
    manifest: Manifest, training: Training, options: StudyOptions, name: str, pictures: Iterable[str]
) -> tuple[list[FrameScore], str]:
    """The figures of all frames, after what is missing was trained if asked to, and a line on how they were made.

    Args:
        name: of the study's table.
        pictures: files that will be drawn into the folder for plots.
    """
    plan = _planned(manifest, training)
    drawn = [] if options.plots is None else [options.plots / picture for picture in pictures]
    _require_free(_table_files(options.out, name) + drawn, options.force)
    settings = _settle(manifest, options)
    sets = _study_sequences(manifest, options.device, quiet=options.quiet)
    if training.wanted:
        _train_missing(manifest, plan, options)
    return _study_scores(manifest, sets, settings, quiet=options.quiet), made_with(settings, sets)


def _planned(manifest: Manifest, training: Training) -> TrainingPlan:
    """How to train; mistakes of the manifest's settings are told whether they are used or not."""
    if not training.wanted and (training.steps is not None or training.minutes is not None):
        raise ValueError("--steps and --minutes say how long to --train; give that, too, or leave them out.")
    # Without --train one step will do.
    plan = training_plan(manifest, steps=training.steps if training.wanted else 1, minutes=training.minutes)
    if training.wanted:
        require_trainable(plan)
    require_trained_alike(manifest.variants)
    return plan


def _train_missing(manifest: Manifest, plan: TrainingPlan, options: StudyOptions) -> None:
    """Trains the networks of a study whose own weights are missing."""
    if not to_train(manifest.variants):
        return
    shown = not options.quiet and sys.stderr.isatty()
    told: Callable[[str], None] = (lambda line: None) if options.quiet else (lambda line: typer.echo(line, err=True))
    with redirect_stdout(sys.stderr):  # where Lightning draws its bar: stdout is the table's
        train_variants(manifest.variants, plan, progress_bar=shown, told=told)
    for variant in manifest.variants:
        require_own_weights(variant)


def _settle(manifest: Manifest, options: StudyOptions) -> Settings:
    """How variants are scored; all that can be told to fail without computing anything fails here."""
    metrics = manifest.metrics
    if options.metrics is not None:
        metrics = parse_metrics(tuple(name for name in options.metrics.split(",") if name), "--metrics")
    flow = options.flow or manifest.flow or default_flow(options.device)
    shared = shared_flow(flow)
    load_measures(metrics)
    for variant in manifest.variants:
        require_own_weights(variant)
        if variant.method is not None:
            load_method(variant.method, shared)
    return Settings(flow, manifest.at, metrics, options.device, options.cache_flow, options.out)


def _table_files(out: Path | None, name: str) -> list[Path]:
    """The files that a study leaves in a folder, besides its record."""
    return [] if out is None else [*(out / f"{name}{suffix}" for suffix in FORMS.values()), out / FRAMES]


def _require_free(files: Iterable[Path], force: bool) -> None:
    """Said before anything is computed, and not after hours of it."""
    taken = [str(path) for path in files if path.exists()]
    if taken and not force:
        raise FileExistsError(
            f"{', '.join(taken)} would be replaced. Choose another folder, or give --force; figures of finished "
            "sequences are used again in any case."
        )


def _study_sequences(manifest: Manifest, device: torch.device, *, quiet: bool) -> dict[str, list[SequenceFiles]]:
    """The sequences of all data sets, by name in the manifest's order."""
    found: dict[str, list[SequenceFiles]] = {}
    rendering = torch.device("cpu") if device.type == "mps" else device  # motion is worked out in double precision
    with progress_bar(quiet) as progress:
        task = progress.add_task("making scenes", total=sum(to_render(entry) for entry in manifest.sets))
        # Those that lie on disk first: what is wrong with them shall not turn up after minutes of rendering.
        for entry in sorted(manifest.sets, key=to_render):
            found[entry.name] = sequences_of(
                entry, rendering, lambda step: progress.update(task, advance=1, description=step)
            )
    return {entry.name: found[entry.name] for entry in manifest.sets}


def _study_scores(
    manifest: Manifest, sets: Mapping[str, list[SequenceFiles]], settings: Settings, *, quiet: bool
) -> list[FrameScore]:
    """The figures of all frames, with a warning for variants without weights."""
    missing = [f"{each.name} ({each.missing})" for each in manifest.variants if each.missing is not None]
    if missing:
        warnings.warn(f"not scored, there are no weights: {'; '.join(missing)}.", stacklevel=2)
    with progress_bar(quiet) as progress:
        total = sum(len(sequence.frames) for sequences in sets.values() for sequence in sequences)
        task = progress.add_task("scoring", total=total)
        return score_variants(
            sets,
            manifest.variants,
            settings,
            lambda name, frames: progress.update(task, advance=frames, description=name),
        )


def made_with(settings: Settings, sets: Mapping[str, list[SequenceFiles]]) -> str:
    """A line for a table: program, hardware, date, flow and amount of data."""
    device = torch.device(settings.device)
    cores = f"{os.cpu_count()} CPU cores, {platform.machine()}"
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else cores
    counts = {name: len(sequences) for name, sequences in sets.items()}
    amounts = f"sequences: {', '.join(f'{name} {count}' for name, count in counts.items())}"
    if len(counts) > 2 and len(set(counts.values())) == 1:  # pictures have no room for a long list
        amounts = f"{next(iter(counts.values()))} sequences of each set"
    return (
        f"qrsc {__version__}; {hardware}, torch {torch.__version__.partition('+')[0]}; "
        f"{datetime.date.today().isoformat()}; {settings.flow} flow; {amounts}."
    )


def weights_lines(variants: Iterable[Variant]) -> list[str]:
    """Which weights stand behind the rows, and how long they were trained where that is known."""
    lines = []
    for variant in variants:
        if variant.weights is not None:
            digest = "none there" if variant.missing is not None else f"SHA-256 {weights_sha256(variant)[:16]}"
            trained = trained_for(variant)
            more = f"; {trained['steps']} steps in {trained['minutes']:.1f} minutes" if trained else ""
            lines.append(f"- {variant.name}: {Path(variant.weights).name}, {digest}{more}")
    return lines


def published(
    options: StudyOptions,
    name: str,
    table: Callable[[TableFormat], str],
    page: Callable[[str], str],
    scores: Sequence[FrameScore],
    draw: Callable[[Path], list[Path]],
) -> str:
    """The table in the form that was asked for; the `_table_files` and pictures are left where they were asked for.

    Args:
        table: the study's table in a form.
        page: what is written of it in Markdown.
        scores: of every frame.
        draw: leaves the study's pictures in a folder.
    """
    if options.out is not None:
        for form, suffix in FORMS.items():
            text = page(table(form)) if form == "markdown" else table(form)
            _write_text(options.out / f"{name}{suffix}", text)
        _write_text(options.out / FRAMES, frame_rows(scores))
    if options.plots is not None:
        draw(options.plots)
    return table(options.form)


def _write_text(path: Path, text: str) -> None:
    """A file of text in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
