"""Fixed, versioned test sets: the same clips for everybody, rendered on demand and kept in a cache folder.

Each has 20 scenes of 7 frames, 640 x 480, with gamma from 0.3 to 1, in the `sim` layout with ground truth. Scenes use
painted textures only, so that anyone can render them. Every scene has its own seeds, from a range reserved for these
sets, and does not depend on the others: the first few can be rendered and used without the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch

from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.simulate.output.render_device import render_device
from qrsc.simulate.output.sheet import SHEET_FRAME, SHEET_SCENES, sheet_row, write_sheet
from qrsc.simulate.output.writers import require_outputs, write_sequence
from qrsc.simulate.paint.library import TextureLibrary, texture_library
from qrsc.simulate.render.clip import TruthGroup, render_clip
from qrsc.simulate.render.surfaces import Scene
from qrsc.simulate.render.truth import gs_kinematics, rs_flow
from qrsc.simulate.scene.worlds import World, sample_scenes
from qrsc.timing import Readout

# Increase with any change that alters the clips: in this file, in the worlds or in the textures.
VERSION = 1
SCENES = 20
FRAMES = 7
SIZE = (480, 640)
GAMMAS = (0.3, 1.0)
TRUTH: tuple[TruthGroup, ...] = ("flows", "fields", "camera")

# Seeds from here on are reserved for the fixed sets. Training and user-chosen seeds stay below.
FIRST_RESERVED_SEED = 2**31
_SEEDS_PER_SET = 2**20
_SEEDS_PER_SCENE = 2**10

# A thumbnail is enough to measure occlusion and acceleration.
_THUMBNAIL = (45, 60)
# Scene i has the (7 i + 10)th of 20 gammas and the (13 i + 9)th of 20 speeds, in ascending order: each occurs once, and
# the first few scenes already cover the range.
_GAMMA_ORDER, _SPEED_ORDER = (7, 10), (13, 9)


@dataclass(frozen=True)
class FixedSet:
    """What the scenes of a set have in common.

    Attributes:
        styles: of camera motion, taken in turn.
        speeds: range of the typical image speed, in per cent of the width per frame interval.
        occlusion: least fraction of the pixels that are hidden in the next frame.
        acceleration: least sustained acceleration relative to the speed, per frame interval.
    """

    styles: tuple[str, ...]
    speeds: tuple[float, float]
    occlusion: float = 0.0
    acceleration: float = 0.0


FIXED_SETS: dict[str, FixedSet] = {
    # Slow, smooth motion.
    "sim-easy": FixedSet(("panning", "walking", "roll", "zoom"), (0.3, 1.5)),
    # A hand-held camera, 2 to 30 Hz.
    "sim-shake": FixedSet(("hand shake",), (1.0, 6.0)),
    # A camera on a car.
    "sim-drive": FixedSet(("driving",), (1.0, 8.0)),
    # Near objects that hide others.
    "sim-occlusion": FixedSet(("driving", "walking"), (2.0, 8.0), occlusion=0.03),
    # Motion that speeds up, slows down and turns.
    "sim-nonlinear": FixedSet(("walking", "roll", "panning", "zoom"), (3.0, 10.0), acceleration=0.35),
}


def require_free_seed(seed: int) -> int:
    """Return the seed if it is not reserved for the fixed test sets."""
    if not 0 <= seed < FIRST_RESERVED_SEED:
        raise ValueError(
            f"a seed is from 0 to {FIRST_RESERVED_SEED - 1}, got {seed}; seeds above belong to the fixed test sets."
        )
    return seed


def scene_seed(seed: int, scene: int) -> int:
    """The seed of one of many scenes derived from a user's seed; never a reserved one."""
    return (require_free_seed(seed) * 1_000_003 + 7 * scene + 1) % FIRST_RESERVED_SEED


def reserved_seed(name: str, scene: int, attempt: int = 0) -> int:
    """The seed of a scene of a fixed set; each attempt to meet the requirements of the set has its own."""
    number = list(FIXED_SETS).index(_known(name))
    return FIRST_RESERVED_SEED + number * _SEEDS_PER_SET + (scene + 1) * _SEEDS_PER_SCENE + attempt


@lru_cache(maxsize=1)
def set_textures() -> TextureLibrary:
    """The textures of all fixed sets, on the CPU."""
    return texture_library(torch.Generator().manual_seed(FIRST_RESERVED_SEED), variety=6)


def set_readout(scene: int) -> Readout:
    """The readout of a scene; gammas are spread evenly over the set."""
    return Readout(GAMMAS[0] + (GAMMAS[1] - GAMMAS[0]) * _rank(scene, _GAMMA_ORDER))


def set_world(
    name: str, scene: int, *, textures: TextureLibrary | None = None, size: tuple[int, int] = SIZE
) -> tuple[World, Readout]:
    """Create one scene of a fixed set, with its readout.

    Args:
        name: of the set.
        scene: its number, 0 to 19.
        textures: `set_textures()` on the device to use; on the CPU if None.
        size: `(H, W)` of the frames; another size shows the same world at another resolution.
    """
    fixed = FIXED_SETS[_known(name)]
    if not 0 <= scene < SCENES:
        raise ValueError(f"{name} has scenes 0 to {SCENES - 1}, got {scene}.")
    textures = set_textures() if textures is None else textures
    readout = set_readout(scene)
    low, high = fixed.speeds
    speed = 0.01 * size[1] * low * (high / low) ** _rank(scene, _SPEED_ORDER)
    style = fixed.styles[scene % len(fixed.styles)]
    for attempt in range(_SEEDS_PER_SCENE):
        generator = torch.Generator().manual_seed(reserved_seed(name, scene, attempt))
        world = sample_scenes(1, size, style, generator, textures=textures, frames=FRAMES, speed=speed)
        if _fits(fixed, world, readout):
            return world, readout
    raise RuntimeError(
        f"scene {scene} of {name} met the requirements of the set in none of {_SEEDS_PER_SCENE} attempts."
    )


def prepare_set(
    name: str,
    scenes: int = SCENES,
    *,
    size: tuple[int, int] = SIZE,
    cache: Path | None = None,
    device: torch.device | str = "cpu",
    advance: Callable[[str], None] = lambda step: None,
) -> Path:
    """Return the folder of a fixed set, after rendering those of its first scenes that are missing.

    Args:
        name: one of `FIXED_SETS`.
        scenes: number of scenes needed.
        size: `(H, W)` of its frames; sizes other than `SIZE` show the same worlds and have their own folders.
        cache: folder for all sets; `cache_folder()` if None.
        device: where to render.
        advance: called after each of the `scenes` steps with the name of the set.

    Returns:
        A folder in the `sim` layout, for `qrsc.data.layouts.index_sequences`; scene 3 is its sequence `0003`. It may
        contain more scenes than needed.
    """
    if not 1 <= scenes <= SCENES:
        raise ValueError(f"{name} has {SCENES} scenes; got {scenes}.")
    other = "" if size == SIZE else f"-{size[1]}x{size[0]}"
    root = (cache_folder() if cache is None else cache) / f"{_known(name)}-v{VERSION}{other}"
    missing = [scene for scene in range(scenes) if not (root / f"{scene:04d}").is_dir()]
    textures = set_textures().to(device) if missing else None
    for scene in range(scenes):
        if scene in missing:
            world, readout = set_world(name, scene, textures=textures, size=size)
            _render_scene(root / f"{scene:04d}", name, scene, world, readout)
        advance(name)
    return root


def simulate_set(
    name: str,
    *,
    scenes: int = SCENES,
    preview: Path | None = None,
    overwrite: bool = False,
    device: torch.device | str = "auto",
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
) -> Path:
    """Make the first scenes of a fixed set, and a contact sheet of them if `preview` names a file.

    Args:
        name, scenes: as for `prepare_set`.
        preview: picture file for the contact sheet.
        overwrite: replace a sheet of the same name.
        device: where to render; `auto` is CUDA or the CPU.
        progress: called for every scene, then for every row of the sheet.
        cancel: stops the work within one scene; scenes that are complete stay.

    Returns:
        The folder of the set, as from `prepare_set`.
    """
    _known(name)
    require_outputs(None, preview, overwrite=overwrite)
    chosen = render_device(device)
    shown = min(scenes, SHEET_SCENES) if preview is not None else 0
    rendering = Stage("rendering", scenes, progress, cancel)
    folder = prepare_set(name, scenes, device=chosen, advance=lambda step: rendering.advance())
    if preview is not None:
        textures = set_textures().to(chosen)
        drawing = Stage("drawing the sheet", shown, progress, cancel)
        rows = []
        for scene in range(shown):
            world, readout = set_world(name, scene, textures=textures)
            rows.append(sheet_row(world, readout, SHEET_FRAME))
            drawing.advance()
        write_sheet(preview, rows)
    return folder


def cache_folder() -> Path:
    """The folder for rendered sets: QRSC_CACHE, or qrsc in the user's cache folder."""
    named = os.environ.get("QRSC_CACHE")
    if named:
        return Path(named)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "qrsc"


def _render_scene(folder: Path, name: str, scene: int, world: World, readout: Readout) -> None:
    notes = {"set": name, "version": VERSION, "scene": scene, "style": world.styles[0], "frames": FRAMES}
    frames = render_clip(world.scene, readout, FRAMES, truth=TRUTH, camera=world.camera)
    try:
        write_sequence(folder, "sim", frames, readout, notes=notes, precision=torch.float16)
    except OSError:
        # Another process may have rendered it meanwhile; a sequence in its place is complete.
        if not folder.is_dir():
            raise


def _fits(fixed: FixedSet, world: World, readout: Readout) -> bool:
    """Whether a world meets the requirements of its set, measured on a thumbnail."""
    if fixed.occlusion == 0.0 and fixed.acceleration == 0.0:
        return True
    scene = thumbnail_scene(world.scene)
    middle = FRAMES // 2
    if fixed.occlusion > 0.0 and occluded_fraction(scene, readout, middle) < fixed.occlusion:
        return False
    return fixed.acceleration == 0.0 or sustained_acceleration(scene) >= fixed.acceleration


def thumbnail_scene(scene: Scene) -> Scene:
    """The same scene at thumbnail size, in double precision on the CPU, so that all machines agree."""
    height, width = scene.size
    scale = torch.diag(torch.tensor([_THUMBNAIL[1] / width, _THUMBNAIL[0] / height, 1.0], dtype=torch.float64))
    coefficients = scale @ scene.curve.coefficients.cpu()
    return replace(
        scene.to("cpu", torch.float64), size=_THUMBNAIL, curve=replace(scene.curve, coefficients=coefficients)
    )


def occluded_fraction(scene: Scene, readout: Readout, frame: int) -> float:
    """Fraction of the pixels of a frame that land inside the next frame but are hidden there."""
    flow, visible = rs_flow(scene, readout, frame, frame + 1)
    height, width = scene.size
    x = flow[:, 0] + torch.arange(width)
    y = flow[:, 1] + torch.arange(height)[:, None]
    inside = (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)
    return float((inside & ~visible[:, 0]).float().mean())


def sustained_acceleration(scene: Scene) -> float:
    """RMS of the acceleration averaged over the clip, relative to the RMS velocity, per frame interval.

    A shake whose acceleration reverses from frame to frame has hardly any.
    """
    motions = [gs_kinematics(scene, share * FRAMES) for share in (0.25, 0.5, 0.75)]
    acceleration = torch.stack([motion.acceleration for motion in motions]).mean(0)
    velocity = torch.stack([motion.velocity for motion in motions])
    return float((acceleration.square().mean() / velocity.square().mean().clamp_min(1e-12)).sqrt())


def _rank(scene: int, order: tuple[int, int]) -> float:
    """A value from 0 to 1, different for each of `SCENES` scenes."""
    return (order[0] * scene + order[1]) % SCENES / (SCENES - 1)


def _known(name: str) -> str:
    if name not in FIXED_SETS:
        raise ValueError(f"unknown test set {name!r}; choose one of {', '.join(FIXED_SETS)}.")
    return name
