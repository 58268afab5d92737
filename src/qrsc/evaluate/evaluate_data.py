"""Score methods on a data set, or on several in one folder: from a path to figures, tables and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback
from qrsc.data.dataset import TruthInstant, index_data
from qrsc.data.layouts import LayoutName, Split, get_layout
from qrsc.evaluate.methods.registry import METHODS, FrameFolder, MethodTable
from qrsc.evaluate.metrics.metric_table import DEFAULT_METRICS
from qrsc.evaluate.report.tables import TableFormat, format_rows, frame_rows, write_table
from qrsc.evaluate.report.worst_frames import write_charts, write_worst
from qrsc.evaluate.run.cost import Cost, method_costs
from qrsc.evaluate.run.plan import DEFAULT_METHODS, Plan, evaluate, not_scored
from qrsc.evaluate.run.scores import FrameScore, mean_rows
from qrsc.flow import default_flow
from qrsc.media.outputs import require_writable
from qrsc.timing import Readout

PUBLIC: tuple[LayoutName, ...] = ("carla", "fastec", "bsrsc")
ALL_PUBLIC = "all"  # in place of a layout: a folder that holds the public data sets, any of them
FRAMES = "frames.csv"  # among the charts: the figures of every frame


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation found.

    Attributes:
        plans: one for each data set.
        scores: of every frame by every method.
        costs: of each method by data set, where they were asked for.
    """

    plans: Sequence[Plan]
    scores: Sequence[FrameScore]
    costs: Mapping[str, Mapping[str, Cost]] = field(default_factory=dict)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The means over frames: one row for each data set, instant and method."""
        rows = mean_rows(self.scores)
        for row in rows:
            known = self.costs.get(row["set"], {}).get(row["method"])
            row.update({} if known is None else asdict(known))
        return rows

    def table(self, form: TableFormat = "text", *, published: bool = False) -> str:
        """The rows as a table; `published` adds those that other authors have published.

        For people it is followed by the methods that do not give every instant.
        """
        text = format_rows(self.rows, form, others=published)
        told = sorted({line for plan in self.plans for line in not_scored(plan)})
        return f"{text}\n{'; '.join(told)}." if told and form in ("text", "markdown") else text


def evaluate_data(
    root: Path,
    layout: str,
    *,
    methods: Sequence[str] = DEFAULT_METHODS,
    folders: Mapping[str, FrameFolder] | None = None,
    at: Literal["first", "middle", "both"] = "middle",
    window: int = 1,
    readout: Readout | None = None,
    flow: str | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    split: Split | None = None,
    list_file: Path | None = None,
    device: torch.device | str = "cpu",
    batch: int | None = None,
    resume: Path | None = None,
    cache_flow: Path | None = None,
    save_frames: Path | None = None,
    per_frame: Path | None = None,
    plots: Path | None = None,
    table: MethodTable = METHODS,
    cost: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> Evaluation:
    """Score methods on a data set; what `qrsc evaluate` does.

    Args:
        root: the data set, one of its splits, or one sequence.
        layout: one of `qrsc.data.layouts.LAYOUTS`, `acc`, or `all` for a folder with the public data sets.
        methods, folders, window, metrics, batch, table: as for `Plan`.
        at: the instant of the truth.
        readout: in place of the data set's own.
        flow: by name; None chooses by the device.
        split: only this one.
        list_file: the frames of the layout `acc`.
        device: where frames are corrected and measured.
        resume: folder that keeps the figures of finished sequences, by the weights and settings they were made with.
        cache_flow: folder that keeps flows from run to run, by the weights of their network.
        save_frames: folder for the corrected frames, as `METHOD/[SET/]INSTANT/SEQUENCE/FILE`.
        per_frame: CSV file for the figures of every frame.
        plots: folder for charts, the figures of every frame, and a contact sheet of the worst frames of the last
            method. Files of the same names are replaced here and above, but never one of the data set.
        cost: also measure parameters, operations and time of each method, on a few frames of each data set.
        progress: called with a `Progress` for every frame; each data set is a stage.
        cancel: asked for every frame; once it is set the call raises `Cancelled`. `resume` and `cache_flow` keep what
            was finished.

    Raises:
        ValueError: an output would replace an input or another output, a name is unknown, or nothing can be scored.
        FileNotFoundError: there is no such data set.
        Cancelled: `cancel` was set.
    """
    folders = folders or {}
    inputs = [root, *(folder.folder for folder in folders.values()), *([list_file] if list_file is not None else [])]
    require_writable(
        {
            "--per-frame": per_frame,
            "--plots": None if plots is None else plots / FRAMES,
            "--save-frames": save_frames,
        },
        inputs=inputs,
        overwrite=True,
    )

    def plan(part: Path, name: str, place: str | None) -> Plan:
        """The plan of one data set; `place` is its folder among frames of several sets."""
        return Plan(
            title=_title(part, name),
            sequences=index_data(part, name, split=split, readout=readout, list_file=list_file),
            methods=methods,
            folders=folders if place is None else {k: FrameFolder(v.folder / place) for k, v in folders.items()},
            instants=_instants(name, at),
            window=window,
            metrics=metrics,
            flow=flow or default_flow(torch.device(device)),
            device=device,
            batch=batch,
            flow_folder=cache_flow,
            save_frames={} if save_frames is None else _frame_folders(save_frames, methods, place),
            resume=resume,
            table=table,
        )

    parts = _public_parts(root) if layout == ALL_PUBLIC else [(root, layout, None)]
    plans = [plan(*part) for part in parts]
    scores = [score for each in plans for score in evaluate(each, progress=progress, cancel=cancel)]
    evaluation = Evaluation(plans, scores, {each.title: method_costs(each) for each in plans} if cost else {})
    if per_frame is not None:
        write_table(per_frame, frame_rows(evaluation.scores))
    if plots is not None:
        _write_plots(plots, evaluation)
    return evaluation


def _write_plots(folder: Path, evaluation: Evaluation) -> None:
    write_charts(folder, evaluation.rows, evaluation.scores, f"{evaluation.plans[0].flow} flow")
    write_table(folder / FRAMES, frame_rows(evaluation.scores))
    if any("psnr" in score.figures for score in evaluation.scores):
        for plan in evaluation.plans:
            shown = [*plan.methods, *plan.folders][-1]
            write_worst(folder / f"worst_{plan.title}.jpg", plan, evaluation.scores, shown)


def _public_parts(root: Path) -> list[tuple[Path, str, str | None]]:
    """Folder, layout and title of each public data set in a folder."""
    if not root.is_dir():
        raise FileNotFoundError(f"there is no folder {root}.")
    titles: dict[LayoutName, str] = {name: get_layout(name).title for name in PUBLIC}
    present = [name for name in PUBLIC if (root / titles[name]).is_dir()]
    if not present:
        there = ", ".join(sorted(path.name for path in root.iterdir())[:8]) or "nothing"
        raise FileNotFoundError(
            f"no data set in {root}: folders called {', '.join(titles.values())} were looked for; it holds {there}."
        )
    return [(root / titles[name], name, titles[name]) for name in present]


def _instants(layout: str, at: Literal["first", "middle", "both"]) -> tuple[TruthInstant, ...]:
    """The instants that are asked for and that the layout has a truth at; all that are asked for if it has none."""
    asked: tuple[TruthInstant, ...] = ("first", "middle") if at == "both" else (at,)
    names = get_layout("bsrsc" if layout == "acc" else layout).names
    return tuple(each for each in asked if each in names) or asked


def _frame_folders(folder: Path, methods: Sequence[str], place: str | None) -> dict[str, Path]:
    """Where the corrected frames of each method go."""
    own = {name: folder / name.replace(":", "_") for name in methods}
    return own if place is None else {name: path / place for name, path in own.items()}


def _title(root: Path, layout: str) -> str:
    """The name of a public data set, or that of the folder."""
    if layout == "acc":
        return "ACC"
    return root.resolve().name if layout in ("plain", "sim") else get_layout(layout).title
