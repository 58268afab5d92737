"""Clips of random scenes on disk, and a contact sheet of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.data.layouts import Kind, get_layout
from qrsc.simulate.camera.sensor import sample_sensor
from qrsc.simulate.camera.styles import MIXED
from qrsc.simulate.output.render_device import render_device
from qrsc.simulate.output.sets import require_free_seed, scene_seed
from qrsc.simulate.output.sheet import SHEET_FRAME, SHEET_SCENES, sheet_row, write_sheet
from qrsc.simulate.output.writers import (
    OWN_LAYOUTS,
    OutputLayout,
    choose_layout_readout,
    require_outputs,
    sequence_folder,
    write_clip,
)
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.paint.photographs import load_photographs, varied
from qrsc.simulate.render.clip import TRUTH_GROUPS, ClipFrame, TruthGroup, recorded, render_clip
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import Readout, Scan

VIDEO_KINDS: tuple[Kind, ...] = ("rolling", "first", "middle")
PHOTOGRAPH_TEXTURES = 40  # textures made from a folder of photographs


@dataclass(frozen=True)
class SceneOptions:
    """Which random scenes to simulate.

    Attributes:
        size: `(height, width)` of the frames.
        frames: length of each clip.
        style: how the camera moves: one of `qrsc.simulate.camera.styles.STYLES`, or `mixed`.
        seed: decides everything that is random.
        textures: folder of photographs that cover surfaces besides painted textures, or None.
        exposure: exposure time of a row in frame intervals; over 0 gives motion blur.
        sensor: add the noise, lens blur, vignetting, colour cast and compression of a camera.
    """

    size: tuple[int, int] = (480, 640)
    frames: int = 7
    style: str = MIXED
    seed: int = 0
    textures: Path | None = None
    exposure: float = 0.0
    sensor: bool = False


def simulate_scenes(
    output: Path | None,
    options: SceneOptions | None = None,
    *,
    count: int = 4,
    layout: OutputLayout = "sim",
    gamma: float | None = None,
    scan: Scan = "top-down",
    truth: bool | None = None,
    fps: float = 30.0,
    preview: Path | None = None,
    overwrite: bool = False,
    device: torch.device | str = "auto",
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> list[Path]:
    """Render random scenes to a folder, show the first of them on a contact sheet, or both.

    Args:
        output: folder for the clips; None writes the contact sheet alone.
        options: which scenes; the defaults of `SceneOptions` if None.
        count: number of scenes.
        layout: how the clips are stored.
        gamma: readout ratio; that of the layout, or 0.8, if None.
        scan: order in which rows are read.
        truth: write flows, fields, depth and poses beside the frames; if None, for `plain`, `sim` and `video` only.
        fps: frame rate of videos.
        preview: picture file for the contact sheet.
        overwrite: replace sequences and sheets of the same names.
        device: where to render; `auto` is CUDA or the CPU.
        progress: called for every row of the sheet, then for every frame.
        cancel: stops the work within one frame; sequences that are complete stay.

    Returns:
        The folders of the sequences.
    """
    options = options or SceneOptions()
    require_free_seed(options.seed)
    if output is None and preview is None:
        raise ValueError("name a folder for the clips (OUT), a contact sheet (--preview), or both.")
    readout = choose_layout_readout(layout, gamma, scan)
    inputs = [options.textures] if options.textures is not None else []
    require_outputs(output, preview, inputs=inputs, overwrite=overwrite)
    chosen = render_device(device)
    groups = TRUTH_GROUPS if (layout in OWN_LAYOUTS if truth is None else truth) else ()
    shown = min(count, SHEET_SCENES) if preview is not None else 0
    textures = _textures(options).to(chosen)
    drawing = Stage("drawing the sheet", shown, progress, cancel)
    rows, folders = [], []
    for index in range(shown):
        rows.append(sheet_row(_world(options, textures, index), readout, min(SHEET_FRAME, options.frames - 1)))
        drawing.advance()
    if output is not None:
        rendering = Stage("rendering", count * options.frames, progress, cancel)
        for index in range(count):
            world = _world(options, textures, index)
            folders.append(output / sequence_folder(layout, index, count))
            frames = _render(options, world, readout, index, layout, groups)
            notes = _notes(options, world, index)
            write_clip(folders[-1], layout, frames, readout, fps=fps, notes=notes, force=overwrite, stage=rendering)
    if preview is not None:
        write_sheet(preview, rows)
    return folders


def _textures(options: SceneOptions) -> TextureLibrary:
    """Paint textures fine enough for the frames, and add photographs if there are any."""
    generator = torch.Generator().manual_seed(options.seed)
    resolution = 32
    while resolution < min(512, options.size[0]):
        resolution *= 2
    photographs = []
    if options.textures is not None:
        loaded = load_photographs(options.textures, longest=2 * resolution)
        photographs = varied(loaded, PHOTOGRAPH_TEXTURES, generator)
    return texture_library(generator, photographs=photographs, resolution=resolution)


def _world(options: SceneOptions, textures: TextureLibrary, index: int) -> World:
    generator = torch.Generator().manual_seed(scene_seed(options.seed, index))
    return sample_scenes(1, options.size, options.style, generator, textures=textures, frames=options.frames)


def _render(
    options: SceneOptions,
    world: World,
    readout: Readout,
    index: int,
    layout: OutputLayout,
    groups: tuple[TruthGroup, ...],
) -> Iterator[ClipFrame]:
    frames = render_clip(
        world.scene,
        readout,
        options.frames,
        kinds=VIDEO_KINDS if layout == "video" else tuple(get_layout(layout).names),
        truth=groups,
        camera=world.camera,
        exposure=options.exposure,
    )
    if not options.sensor:
        return frames
    generator = torch.Generator().manual_seed(scene_seed(options.seed, index))
    return recorded(frames, sample_sensor(1, options.frames, generator), generator)


def _notes(options: SceneOptions, world: World, index: int) -> dict[str, object]:
    """How a clip was made, for its `truth.json`."""
    return {
        "style": world.styles[0],
        "seed": options.seed,
        "scene": index,
        "frames": options.frames,
        "size": {"width": options.size[1], "height": options.size[0]},
        "exposure": options.exposure,
        "sensor": options.sensor,
        "photographs": options.textures is not None,
    }
