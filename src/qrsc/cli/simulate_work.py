"""What `qrsc simulate` does between its options and its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import typer

from qrsc.backend.device import choose_device
from qrsc.cli.progress import progress_bar
from qrsc.data.layouts import Kind, get_layout
from qrsc.media.image_folder import SUFFIXES
from qrsc.media.outputs import require_writable
from qrsc.simulate.camera.sensor import sample_sensor
from qrsc.simulate.output.from_video import Mixing, open_source, rolling_from_video
from qrsc.simulate.output.sets import (
    FIXED_SETS,
    SCENES,
    prepare_set,
    require_free_seed,
    scene_seed,
    set_textures,
    set_world,
)
from qrsc.simulate.output.sheet import sheet_row, write_sheet
from qrsc.simulate.output.writers import (
    OutputLayout,
    require_layout_readout,
    sequence_folder,
    write_sequence,
    write_videos,
)
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.paint.photographs import load_photographs, varied
from qrsc.simulate.render.clip import TRUTH_GROUPS, ClipFrame, TruthGroup, recorded, render_clip
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import Readout, Scan

DEFAULT_GAMMA = 0.8
PREVIEW_SCENES = 5  # rows of a contact sheet
PREVIEW_FRAME = 1
VIDEO_KINDS: tuple[Kind, ...] = ("rolling", "first", "middle")
PHOTOGRAPHS = 40  # textures made from a folder of photographs


@dataclass(frozen=True)
class Request:
    """The options that say which scenes are wanted."""

    size: tuple[int, int]
    frames: int
    style: str
    seed: int
    textures: Path | None
    exposure: float
    sensor: bool
    device: torch.device


def options_given(context: typer.Context) -> set[str]:
    """Names of the parameters that were given on the command line, whatever their value."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def require_one_task(given: set[str]) -> None:
    """Refuse options that do not go together, or that what is asked for would not heed.

    Args:
        given: names of the parameters of the command that were given on the command line.
    """
    footage = {"mixing", "step"}
    random = {"scenes", "size", "style", "seed", "exposure", "sensor", "textures", "truth", "preview"}
    if ("from_video" in given) != ("rate" in given):
        raise ValueError("--from-video and --rate (frames per second of the recording) go together.")
    if "fixed_set" in given:
        unheeded, task = given - {"fixed_set", "scenes", "preview", "force", "quiet", "device"}, "--set"
    elif "from_video" in given:
        unheeded, task = given & random, "--from-video"
    else:
        unheeded, task = given & footage, "a clip of simulated scenes"
    if unheeded:
        names = sorted("OUT" if name == "output" else "--" + name.replace("_", "-") for name in unheeded)
        raise ValueError(f"{' and '.join(names)} cannot go with {task}.")
    if "output" not in given and "fixed_set" not in given and "preview" not in given:
        raise ValueError("name a folder for the clips (OUT), a test set (--set), or a contact sheet (--preview).")


def choose_render_device(name: str) -> torch.device:
    """The device by name; `auto` is CUDA or the processor, for motion is worked out in double precision."""
    if name == "mps":
        raise ValueError("scenes move in double precision, which mps devices lack; use --device cpu.")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return choose_device(name)


def choose_readout(layout: OutputLayout, gamma: float | None, scan: Scan) -> Readout:
    """The readout from the options; a public data set's layout has its own."""
    if layout == "video":
        return Readout(DEFAULT_GAMMA if gamma is None else gamma, scan)
    own = get_layout(layout).readout
    if own is None:
        return Readout(DEFAULT_GAMMA if gamma is None else gamma, scan)
    readout = Readout(own.gamma if gamma is None else gamma, scan)
    require_layout_readout(layout, readout)
    return readout


def simulate_scenes(
    output: Path | None,
    request: Request,
    readout: Readout,
    *,
    layout: OutputLayout,
    scenes: int,
    truth: bool | None,
    fps: float,
    preview: Path | None,
    force: bool,
    quiet: bool,
) -> str:
    """Random scenes, written to a folder and shown on a contact sheet; returns lines that sum it up."""
    require_free_seed(request.seed)
    if output is not None:
        _require_free(output, force)
    _require_sheet(preview, force)
    groups: tuple[TruthGroup, ...] = TRUTH_GROUPS if _with_truth(layout, truth) else ()
    kinds = VIDEO_KINDS if layout == "video" else tuple(get_layout(layout).names)
    shown = min(scenes, PREVIEW_SCENES) if preview is not None else 0
    rows = []
    with progress_bar(quiet) as progress:
        total = (scenes * request.frames if output is not None else 0) + shown
        task = progress.add_task("painting textures", total=total)
        textures = _textures(request)
        for index in range(scenes if output is not None else shown):
            world = _world(request, textures, index)
            if index < shown:
                rows.append(sheet_row(world, readout, min(PREVIEW_FRAME, request.frames - 1)))
                progress.update(task, advance=1, description="drawing")
            if output is not None:
                frames = _clip(request, world, readout, index, kinds, groups)
                _write(
                    output / sequence_folder(layout, index, scenes),
                    layout,
                    _counted(frames, lambda: progress.update(task, advance=1, description="rendering")),
                    readout,
                    fps=fps,
                    notes=_notes(request, world, index),
                    force=force,
                )
    lines = []
    if output is not None:
        lines.append(f"{_amount(scenes, 'scene')} of {_amount(request.frames, 'frame')} in {output}")
    if preview is not None:
        write_sheet(preview, rows)
        lines.append(f"wrote {preview}")
    return "\n".join(lines)


def simulate_set(
    name: str, *, scenes: int | None, preview: Path | None, force: bool, quiet: bool, device: torch.device
) -> str:
    """A fixed test set in the cache folder; returns lines that sum it up."""
    if name not in FIXED_SETS:
        raise ValueError(f"unknown test set {name!r}; choose one of {', '.join(FIXED_SETS)}.")
    count = SCENES if scenes is None else scenes
    _require_sheet(preview, force)
    with progress_bar(quiet) as progress:
        shown = min(count, PREVIEW_SCENES) if preview is not None else 0
        task = progress.add_task("painting textures", total=count + shown)

        def advance(step: str) -> None:
            progress.update(task, advance=1, description=step)

        folder = prepare_set(name, count, device=device, advance=advance)
        if preview is not None:
            textures = set_textures().to(device)
            rows = []
            for scene in range(shown):
                world, readout = set_world(name, scene, textures=textures)
                rows.append(sheet_row(world, readout, PREVIEW_FRAME))
                advance("drawing")
            write_sheet(preview, rows)
    lines = [f"{name}: {_amount(count, 'scene')} in {folder}"]
    return "\n".join(lines + ([f"wrote {preview}"] if preview is not None else []))


def simulate_from_video(
    output: Path,
    source: Path,
    readout: Readout,
    *,
    layout: OutputLayout,
    rate: float,
    fps: float,
    frames: int | None,
    mixing: Mixing,
    largest_step: float,
    force: bool,
    quiet: bool,
) -> str:
    """Rolling-shutter frames from high-rate footage as one sequence; returns a line that sums it up."""
    _require_free(output, force)
    with progress_bar(quiet) as progress:
        task = progress.add_task("measuring motion", total=frames)
        made = rolling_from_video(
            open_source(source, rate), fps, readout, mixing=mixing, largest_step=largest_step, most=frames
        )
        count = _write(
            output / sequence_folder(layout, 0, 1),
            layout,
            _counted(made, lambda: progress.update(task, advance=1, description="reading")),
            readout,
            fps=fps,
            notes={"source": source.name, "rate": rate, "fps": fps, "mixing": mixing},
            force=force,
        )
    return f"{_amount(count, 'rolling-shutter frame')} from {source} in {output}"


def _textures(request: Request) -> TextureLibrary:
    """Painted textures, fine enough for the picture, and photographs if there are any."""
    generator = torch.Generator().manual_seed(request.seed)
    resolution = 32
    while resolution < min(512, request.size[0]):
        resolution *= 2
    photographs = []
    if request.textures is not None:
        photographs = varied(load_photographs(request.textures, longest=2 * resolution), PHOTOGRAPHS, generator)
    return texture_library(generator, photographs=photographs, resolution=resolution).to(request.device)


def _world(request: Request, textures: TextureLibrary, index: int) -> World:
    generator = torch.Generator().manual_seed(scene_seed(request.seed, index))
    return sample_scenes(1, request.size, request.style, generator, textures=textures, frames=request.frames)


def _clip(
    request: Request,
    world: World,
    readout: Readout,
    index: int,
    kinds: tuple[Kind, ...],
    groups: tuple[TruthGroup, ...],
) -> Iterator[ClipFrame]:
    frames = render_clip(
        world.scene,
        readout,
        request.frames,
        kinds=kinds,
        truth=groups,
        camera=world.camera,
        exposure=request.exposure,
    )
    if not request.sensor:
        return frames
    generator = torch.Generator().manual_seed(scene_seed(request.seed, index))
    return recorded(frames, sample_sensor(1, request.frames, generator), generator)


def _notes(request: Request, world: World, index: int) -> dict[str, object]:
    return {
        "style": world.styles[0],
        "seed": request.seed,
        "scene": index,
        "frames": request.frames,
        "size": {"width": request.size[1], "height": request.size[0]},
        "exposure": request.exposure,
        "sensor": request.sensor,
        "photographs": request.textures is not None,
    }


def _write(
    folder: Path,
    layout: OutputLayout,
    frames: Iterable[ClipFrame],
    readout: Readout,
    *,
    fps: float,
    notes: dict[str, object],
    force: bool,
) -> int:
    if layout == "video":
        return write_videos(folder, frames, readout, fps, notes=notes, force=force)
    own = notes if layout in ("plain", "sim") else None
    return write_sequence(folder, layout, frames, readout, notes=own, force=force)


def _counted(frames: Iterable[ClipFrame], advance: Callable[[], None]) -> Iterable[ClipFrame]:
    for frame in frames:
        yield frame
        advance()


def _with_truth(layout: OutputLayout, wanted: bool | None) -> bool:
    """Truth goes beside our own layouts unless it is refused, beside a public one only if it is asked for."""
    return layout in ("plain", "sim", "video") if wanted is None else wanted


def _require_free(output: Path, force: bool) -> None:
    """Said before anything is rendered, and not after minutes of it."""
    if output.is_file():
        raise FileExistsError(f"{output} is a file; a folder for the clips was expected.")
    if output.is_dir() and any(output.iterdir()) and not force:
        raise FileExistsError(
            f"the folder {output} is not empty. Choose another one, or give --force: sequences of the same names are "
            "then replaced."
        )


def _require_sheet(preview: Path | None, force: bool) -> None:
    if preview is None:
        return
    if preview.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{preview} is no name for a picture; let it end in one of {', '.join(SUFFIXES)}.")
    require_writable({"--preview": preview}, overwrite=force, how="--force")


def _amount(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"
