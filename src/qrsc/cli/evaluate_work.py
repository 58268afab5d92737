"""What `qrsc evaluate` does between its options and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from qrsc.cli.progress import progress_bar
from qrsc.data.dataset import TruthInstant, index_data
from qrsc.data.layouts import LayoutName, Split, get_layout
from qrsc.evaluate.methods.registry import FrameFolder, parse_folder
from qrsc.evaluate.report.tables import TableFormat, format_rows, frame_rows
from qrsc.evaluate.report.worst_frames import write_charts, write_worst
from qrsc.evaluate.run.plan import Plan, evaluate
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.timing import Readout

PUBLIC: tuple[LayoutName, ...] = ("carla", "fastec", "bsrsc")


@dataclass(frozen=True)
class Options:
    """The options of `qrsc evaluate` that are not about the output's form."""

    layout: str
    split: Split | None
    list_file: Path | None
    methods: str
    folders: Sequence[str]
    at: Literal["first", "middle", "both"]
    window: int
    readout: Readout | None
    flow: str
    metrics: str
    device: torch.device
    batch: int | None
    resume: Path | None
    flow_folder: Path | None
    save_frames: Path | None


def choose_format(*, as_json: bool, as_markdown: bool, as_csv: bool) -> TableFormat:
    """The one form that is asked for; text if none is."""
    forms: dict[TableFormat, bool] = {"json": as_json, "markdown": as_markdown, "csv": as_csv}
    wanted = [form for form, asked in forms.items() if asked]
    if len(wanted) > 1:
        raise ValueError(f"give one of --{' and --'.join(wanted)}, not both: there is one table.")
    return wanted[0] if wanted else "text"


def evaluate_data(
    root: Path,
    options: Options,
    *,
    form: TableFormat,
    published: bool,
    per_frame: Path | None,
    plots: Path | None,
    quiet: bool,
) -> str:
    """Scores all that is asked for; returns the table."""
    plans = _plans(root, options)
    scores: list[FrameScore] = []
    with progress_bar(quiet) as progress:
        total = sum(len(sequence.frames) for plan in plans for sequence in plan.sequences)
        task = progress.add_task("scoring", total=total)
        for plan in plans:
            progress.update(task, description=plan.title)
            scores += evaluate(plan, advance=lambda frames: progress.advance(task, frames))
    rows = mean_rows(scores)
    if per_frame is not None:
        _write(per_frame, frame_rows(scores))
    if plots is not None:
        write_charts(plots, rows, scores, f"{options.flow} flow")
        _write(plots / "frames.csv", frame_rows(scores))
        for plan in plans if any("psnr" in score.figures for score in scores) else ():
            shown = [*plan.methods, *plan.folders][-1]
            write_worst(plots / f"worst_{plan.title}.jpg", plan, scores, shown)
    return format_rows(rows, form, others=published)


def _plans(root: Path, options: Options) -> list[Plan]:
    """One plan for each data set."""
    if options.layout != "all":
        return [_plan(root, options.layout, options, None)]
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}.")
    titles: dict[LayoutName, str] = {name: get_layout(name).title for name in PUBLIC}
    present = [name for name in PUBLIC if (root / titles[name]).is_dir()]
    if not present:
        there = ", ".join(sorted(path.name for path in root.iterdir())[:8]) or "nothing"
        raise FileNotFoundError(
            f"no data set in {root}: folders called {', '.join(titles.values())} were looked for; it holds {there}."
        )
    return [_plan(root / titles[name], name, options, titles[name]) for name in present]


def _plan(root: Path, layout: str, options: Options, part: str | None) -> Plan:
    sequences = index_data(root, layout, split=options.split, readout=options.readout, list_file=options.list_file)
    folders = dict(parse_folder(text) for text in options.folders)
    methods = [name for name in options.methods.split(",") if name]
    if part is not None:  # of several data sets, each has a folder of its own in those of frames
        folders = {name: FrameFolder(folder.folder / part) for name, folder in folders.items()}
    save_frames = {}
    if options.save_frames is not None:
        places = {name: options.save_frames / name.replace(":", "_") for name in methods}
        save_frames = {name: place if part is None else place / part for name, place in places.items()}
    instants: tuple[TruthInstant, ...] = ("first", "middle") if options.at == "both" else (options.at,)
    instants = tuple(at for at in instants if _has_truth(layout, at)) or instants
    return Plan(
        title=_title(root, layout),
        sequences=sequences,
        methods=methods,
        folders=folders,
        instants=instants,
        window=options.window,
        metrics=[name for name in options.metrics.split(",") if name],
        flow=options.flow,
        device=options.device,
        batch=options.batch,
        flow_folder=options.flow_folder,
        save_frames=save_frames,
        resume=options.resume,
    )


def _has_truth(layout: str, at: TruthInstant) -> bool:
    return at in get_layout("bsrsc" if layout == "acc" else layout).names


def _title(root: Path, layout: str) -> str:
    """The name of a public data set, or that of the folder."""
    if layout == "acc":
        return "ACC"
    return root.resolve().name if layout in ("plain", "sim") else get_layout(layout).title


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
