"""Train the networks of a study: the same recipe, losses and length for all."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from qrsc.backend.progress import ProgressCallback
from qrsc.evaluate.studies.checked_tables import Table
from qrsc.evaluate.studies.entries import Manifest, Variant
from qrsc.evaluate.studies.manifest import table_size
from qrsc.files.documents import read_json
from qrsc.flow import FlowEstimator, load_flow
from qrsc.fusion.blocks import MULTIPLE
from qrsc.learn.fusion.fusion_options import FusionTrainingOptions
from qrsc.learn.fusion.fusion_training import fit_fusion
from qrsc.learn.fusion.losses import TERMS
from qrsc.learn.fusion.samples import FusionSamples
from qrsc.learn.fusion.world_samples import INNER_SHARES, WorldSamples
from qrsc.learn.pool.world_settings import training_textures
from qrsc.learn.trainer.run import own_device
from qrsc.learn.trainer.state import LIST
from qrsc.simulate.output.sets import FIXED_SETS, GAMMAS, require_free_seed
from qrsc.simulate.paint.library import TextureLibrary

FINISHED = "trained.json"  # written beside the weights when a training is finished
# By the length of a network's window: the frames of a rendered sample that it is shown; see `qrsc.pipeline.Corrector`.
_SHOWN = {3: slice(1, 2), 4: slice(0, 2)}


@dataclass(frozen=True)
class TrainingPlan:
    """How all rows are trained; the names are those of `qrsc train fusion`.

    Attributes:
        options: what all have in common.
        size: `(height, width)` of the rendered frames.
        flow: that they are corrected with; `true` for true flows with simulated errors.
        textures: folder of photographs, besides painted textures.
        scenes: worlds rendered at a time.
        samples: number of samples, rendered once for all networks that take the same input; None renders while each is
            trained, as fast as the machine can, so that the number of different samples varies.
        camera: share of the worlds whose frames go through lens, sensor and compression; None is the default share.
    """

    options: FusionTrainingOptions
    size: tuple[int, int] = (320, 384)
    flow: str = "raft-rs"
    textures: Path | None = None
    scenes: int = 16
    samples: int | None = None
    camera: float | None = None


def training_plan(manifest: Manifest, *, steps: int | None = None, minutes: float | None = None) -> TrainingPlan:
    """The plan in the manifest's table `training`; `steps` and `minutes` of each row replace those in the table."""
    table = Table(manifest.training, f"{manifest.path}, training")
    options = _options(table, steps, minutes)
    size, flow, textures = (table.take(key, str) for key in ("size", "flow", "textures"))
    scenes, samples = table.take("scenes", int), table.take("samples", int)
    camera = table.take("camera", float)
    table.end()
    if camera is not None and not 0.0 <= camera <= 1.0:
        raise table.error(f"camera is a share, 0 to 1, got {camera:g}")
    for key, number in (("scenes", scenes), ("samples", samples)):
        if number is not None and number <= 0:
            raise table.error(f"{key} must be over 0, got {number}")
    plan = TrainingPlan(options, samples=samples, camera=camera)
    plan = replace(
        plan,
        size=plan.size if size is None else table_size(size, table),
        flow=flow or plan.flow,
        textures=None if textures is None else manifest.path.parent / textures,
        scenes=plan.scenes if scenes is None else scenes,
    )
    crop = plan.options.crop
    if crop is not None and (
        crop[0] % MULTIPLE or crop[1] % MULTIPLE or crop[0] > plan.size[0] or crop[1] > plan.size[1]
    ):
        raise table.error(
            f"both sides of crop must be multiples of {MULTIPLE} and fit into size; got {crop[1]}x{crop[0]} of "
            f"{plan.size[1]}x{plan.size[0]}"
        )
    if plan.textures is not None and not plan.textures.is_dir():
        raise table.error(f"there is no folder {plan.textures} of textures")
    return plan


def require_trainable(plan: TrainingPlan) -> None:
    """Raise if training cannot start."""
    if find_spec("pytorch_lightning") is None:
        raise ValueError("training needs Lightning; install it with: pip install 'qrsc[train]'")
    _load_flow(plan)


def _options(table: Table, steps: int | None, minutes: float | None) -> FusionTrainingOptions:
    """The options that all rows have in common."""
    numbers: dict[str, Any] = {key: table.take(key, int) for key in ("steps", "batch", "pool", "seed")}
    numbers |= {key: table.take(key, float) for key in ("minutes", "peak", "uses")}
    numbers |= {key: value for key, value in (("steps", steps), ("minutes", minutes)) if value is not None}
    given = {key: value for key, value in numbers.items() if value is not None}
    if "steps" not in given and "minutes" not in given:
        raise table.error("say how long to train each row: steps or minutes, here or as --steps or --minutes")
    for key, value in given.items():
        if value <= 0 and key != "seed":
            raise table.error(f"{key} must be over 0, got {value}")
    given["total_minutes"] = given.pop("minutes", math.inf)
    terms, crop, compiled = table.words("loss"), table.take("crop", str), table.take("compile", bool)
    if terms is not None:
        given["loss"] = tuple(term for name in terms for term in TERMS if term == name)
        if len(given["loss"]) != len(terms) or not terms:
            raise table.error(f"loss is one or more of {', '.join(TERMS)}; got {', '.join(terms) or 'none'}")
    if crop is not None:
        given["crop"] = table_size(crop, table)
    try:
        return FusionTrainingOptions(
            **given, interpolation="bilinear", compiled=torch.cuda.is_available() if compiled is None else compiled
        )
    except ValueError as error:
        raise table.error(str(error).removesuffix(".")) from error


def to_train(variants: Sequence[Variant]) -> list[Variant]:
    """The rows whose own weights are missing, or whose training is unfinished."""
    return [variant for variant in variants if variant.trained_here and not _finished(_folder(variant))]


def train_variants(
    variants: Sequence[Variant],
    plan: TrainingPlan,
    *,
    progress: ProgressCallback | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Train what `to_train` names, one after the other; an interrupted training is resumed.

    Args:
        progress: called after each step of a training.
        say: called with a line about each row that is trained.
    """
    wanted = to_train(variants)
    if not wanted:
        return
    textures = training_textures(plan.textures, own_device())
    flow = _load_flow(plan)
    kept: dict[_Prepared, list[FusionSamples]] = {}
    for number, variant in enumerate(sorted(wanted, key=lambda each: _order(each, wanted)), 1):
        folder = _folder(variant)
        resumed = (folder / LIST).is_file()
        render: Callable[[torch.Generator], FusionSamples] = worlds_of(variant, plan, textures, flow)
        if plan.samples is not None:
            if _prepared(variant) not in kept:
                say(f"rendering {plan.samples} samples for {variant.name}")
                kept = {_prepared(variant): rendered_once(render, plan.samples, plan.options.seed)}
            render = KeptSamples(kept[_prepared(variant)])
        say(f"training {variant.name} ({number} of {len(wanted)}){', resumed' * resumed}")
        shown = _SHOWN.get(variant.frames)
        options = replace(
            plan.options,
            network=variant.kind or "rsa2",
            architecture=variant.network,
            motion=variant.motion,
            fewer=plan.options.fewer and shown is None,
            resume=resumed,
        )
        fit_fusion(folder, render if shown is None else FewerFrames(render, shown), options, progress=progress)
        state = read_json(folder / LIST)
        content = {
            "frames": variant.frames,
            "worlds": variant.trained_on,
            "asked": {"steps": plan.options.steps, "minutes": _finite(plan.options.all_minutes)},
            "steps": state["step"],
            "minutes": round(state["minutes"], 3),
        }
        (folder / FINISHED).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


_Prepared = tuple[str, str | None]  # motion, and the set whose worlds are shown


def _prepared(variant: Variant) -> _Prepared:
    """Networks for which this is equal can be trained on the same samples."""
    return variant.motion, variant.trained_on


def _order(variant: Variant, variants: Sequence[Variant]) -> int:
    """Sort key: networks that share samples one after the other, otherwise in the manifest's order."""
    return [_prepared(each) for each in variants].index(_prepared(variant))


def rendered_once(render: Callable[[torch.Generator], FusionSamples], samples: int, seed: int) -> list[FusionSamples]:
    """At least this many samples, in the batches that they were rendered in."""
    generator = torch.Generator().manual_seed(require_free_seed(2 * seed))
    parts: list[FusionSamples] = []
    while sum(map(len, parts)) < samples:
        parts.append(render(generator))
    return parts


def worlds_of(
    variant: Variant, plan: TrainingPlan, textures: TextureLibrary, flow: FlowEstimator | None
) -> WorldSamples:
    """What a network is trained on: random worlds, or worlds like those of the fixed set that it is trained on.

    The latter have the set's camera motion, speeds and readouts, and seeds that no fixed set uses. Unlike the set's
    scenes they are not selected for occlusion or acceleration, and they have other textures.
    """
    worlds = WorldSamples(
        textures,
        plan.size,
        flow,
        scenes=plan.scenes,
        motion=variant.motion,
        interpolation=plan.options.interpolation,
    )
    if plan.camera is not None:
        worlds = replace(worlds, camera=plan.camera)
    if not plan.options.fewer or variant.frames in _SHOWN:
        worlds = replace(worlds, clips=INNER_SHARES)
    if variant.trained_on is None:
        return worlds
    fixed = FIXED_SETS[variant.trained_on]
    shares = {style: 1.0 / len(fixed.styles) for style in fixed.styles}
    return replace(worlds, styles=shares, speeds=fixed.speeds, gammas=GAMMAS)


def trained_for(variant: Variant) -> Mapping[str, Any]:
    """Steps and minutes of the training of a row's weights; empty if unknown."""
    path = _folder(variant) / FINISHED if isinstance(variant.weights, Path) else None
    if path is None or not path.is_file():
        return {}
    found = read_json(path)
    asked = found.get("asked") if isinstance(found, dict) else None
    numbers = isinstance(asked, dict) and all(isinstance(each, (int, float, type(None))) for each in asked.values())
    if not numbers or "frames" not in found:
        raise ValueError(f"{path} is damaged: it does not say how the weights were trained. Remove {path.parent}.")
    trained: dict[str, Any] = found
    return trained


def require_trained_alike(variants: Sequence[Variant]) -> None:
    """Raise if a network was trained for another window or other worlds; warn if not all were trained equally long."""
    lengths: dict[str, list[str]] = {}
    for variant in variants:
        trained = trained_for(variant) if variant.trained_here else {}
        if trained and trained["frames"] != variant.frames:
            raise ValueError(
                f"the weights of {variant.name} were trained for {trained['frames']} frames, not {variant.frames}: "
                f"rename the row, or remove {_folder(variant)}."
            )
        if trained and trained.get("worlds") != variant.trained_on:
            raise ValueError(
                f"the weights of {variant.name} were trained on {trained.get('worlds') or 'random worlds'}, not on "
                f"{variant.trained_on or 'random worlds'}: rename it, or remove {_folder(variant)}."
            )
        if trained:
            asked = (f"{value:g} {unit}" for unit, value in trained["asked"].items() if value is not None)
            lengths.setdefault(" or ".join(asked), []).append(variant.name)
    if len(lengths) > 1:
        told = "; ".join(f"{', '.join(names)}: {length}" for length, names in lengths.items())
        warnings.warn(f"the rows were not trained equally long ({told}).", stacklevel=2)


@dataclass
class KeptSamples:
    """Samples that were rendered before, batch after batch in a cycle; call it with a generator.

    Attributes:
        parts: the batches.
        turns: how many batches were asked for.
    """

    parts: Sequence[FusionSamples]
    turns: int = 0

    def __call__(self, generator: torch.Generator) -> FusionSamples:
        """The next batch."""
        self.turns += 1
        return self.parts[(self.turns - 1) % len(self.parts)]


@dataclass
class FewerFrames:
    """Samples with only some of their frames; call it with a generator.

    Attributes:
        render: makes samples of three frames.
        shown: which of the three. The middle one is the frame that the truth belongs to; it ends up at T // 2.
    """

    render: Callable[[torch.Generator], FusionSamples]
    shown: slice

    def __call__(self, generator: torch.Generator) -> FusionSamples:
        """New samples."""
        samples = self.render(generator)
        return replace(
            samples,
            frames=samples.frames[:, self.shown],
            correction_fields=samples.correction_fields[:, self.shown],
            valid=samples.valid[:, self.shown],
            time_distance=samples.time_distance[:, self.shown],
        )


def _load_flow(plan: TrainingPlan) -> FlowEstimator | None:
    return None if plan.flow == "true" else load_flow(plan.flow)


def _folder(variant: Variant) -> Path:
    if not isinstance(variant.weights, Path):
        raise ValueError(f"{variant.name} has no weights of its own to train.")
    return variant.weights.parent


def _finished(folder: Path) -> bool:
    """Whether the weights in a folder are final.

    A training writes weights every few minutes, and a note at its end. Weights from elsewhere have no training state.
    """
    if (folder / FINISHED).is_file():
        return True
    return any(folder.glob("*.safetensors")) and not (folder / LIST).is_file()


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
