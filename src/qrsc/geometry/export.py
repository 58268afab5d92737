"""What a clip's correction and motion give to other programs: `qrsc export`."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.backend.device import choose_device
from qrsc.backend.progress import CancelToken, ProgressCallback, Stage
from qrsc.calibrate.grey_frames import open_clip
from qrsc.geometry.camera_motion import CameraMotion
from qrsc.geometry.find_motion import find_camera_motion
from qrsc.geometry.formats import gsplat_views, gyroflow_log, kalibr_chain, odm_settings, require_fps
from qrsc.geometry.row_poses import read_poses, row_poses
from qrsc.image.resize import in_pixels_of, resized_field
from qrsc.media.atomic import atomic_file, atomic_folder
from qrsc.media.outputs import require_writable
from qrsc.media.probe import ClipInfo, clip_info
from qrsc.names import ExportFormat, Instant, PresetName
from qrsc.pipeline import Corrector, Seconds, TimedFrame
from qrsc.pipeline.corrected import Corrected
from qrsc.timing import Readout
from qrsc.video.readout import ReadoutOptions, choose_readout
from qrsc.video.source import SourceFrame, clip_size, open_source
from qrsc.warp import invert_field


@dataclass(frozen=True)
class _Clip:
    """A clip with its readout, ready to be exported."""

    source: Path
    info: ClipInfo | None
    readout: Readout
    size: tuple[int, int]
    fps: float | None
    progress: ProgressCallback | None
    cancel: CancelToken | None


def export_clip(
    source: Path,
    output: Path,
    format: ExportFormat,
    options: ReadoutOptions | None = None,
    *,
    at: Instant = "middle",
    focal: float | None = None,
    poses: Path | None = None,
    preset: PresetName = "default",
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write what a clip gives to another program.

    Args:
        source: a video or a folder of images.
        output: the file to write; a folder for `stmap`.
        format: `gyroflow`, `stmap`, `kalibr`, `odm`, `gsplat` or `npz`.
        options: the readout; found in the clip if none is given.
        at: the instant that fields lead to: first, middle or last row; also the instant of `poses`.
        focal: focal length in pixels, for `gyroflow`, `kalibr` and `npz`.
        poses: for `gsplat`: folder of a COLMAP model that was mapped with corrected keypoints or frames.
        preset: of the correction, for `stmap` and `npz`.
        overwrite: replace files that exist.
        progress, cancel: of the whole work.
        on_note: hears what was assumed or found.
    """
    require_writable({"OUTPUT": output}, inputs=[source], overwrite=overwrite)
    if (poses is None) == (format == "gsplat"):
        raise ValueError(
            "--poses is the folder of a COLMAP model (cameras, images, points3D), mapped with corrected keypoints; it "
            "goes with --as gsplat, and gsplat needs it."
        )
    given = options or ReadoutOptions()
    info = clip_info(source)
    chosen = choose_readout(source, info, given, say=on_note, progress=progress, cancel=cancel)
    fps = given.fps if given.fps is not None or info is None else info.fps
    clip = _Clip(source, info, chosen.readout, clip_size(source, info), fps, progress, cancel)
    if format == "stmap":
        with atomic_folder(output, overwrite=overwrite) as folder:
            _write_maps(folder, clip, at, preset)
        return output
    with atomic_file(output, overwrite=overwrite) as work:
        if format == "npz":
            _write_arrays(work, clip, at, preset, focal)
        else:
            work.write_text(_text(clip, format, at, focal, poses, on_note), encoding="utf-8")
    return output


def motion_of_clip(
    source: Path,
    options: ReadoutOptions | None = None,
    *,
    focal: float | None = None,
    progress: ProgressCallback | None = None,
    cancel: CancelToken | None = None,
    on_note: Callable[[str], None] = lambda _: None,
) -> CameraMotion:
    """The camera's motion through a clip on disk: what `qrsc motion` does. Arguments as for `export_clip`."""
    given = options or ReadoutOptions()
    info = clip_info(source)
    chosen = choose_readout(source, info, given, say=on_note, progress=progress, cancel=cancel)
    fps = given.fps if given.fps is not None or info is None else info.fps
    return _motion(_Clip(source, info, chosen.readout, clip_size(source, info), fps, progress, cancel), focal)


def _text(
    clip: _Clip,
    format: ExportFormat,
    at: Instant,
    focal: float | None,
    poses: Path | None,
    say: Callable[[str], None],
) -> str:
    if format == "gyroflow":
        require_fps(clip.fps)
        motion = _motion(clip, focal)
        if focal is None:
            say(
                f"focal length {motion.focal_origin}: {motion.focal:.0f} px. Angles are in proportion to it: give "
                "--focal if it is known"
            )
        if motion.weak:
            say(
                f"hardly anything can be followed from {len(motion.weak)} of the frames ({motion.weak_ranges}): the "
                f"rotation is uncertain there, by up to {_largest_error(motion):.2g}° about its mean"
            )
        return gyroflow_log(motion, clip.source.name)
    if format == "kalibr":
        return kalibr_chain(clip.readout, require_fps(clip.fps), clip.size, focal)
    if format == "odm":
        return odm_settings(clip.readout, require_fps(clip.fps))
    assert poses is not None  # checked, for gsplat
    found = read_poses(poses, clip.size)
    starts, ends = row_poses(found, clip.readout, at)
    return gsplat_views(found.names, starts, ends, clip.readout, found.intrinsics, clip.size)


def _largest_error(motion: CameraMotion) -> float:
    """The largest standard error of an angle, degrees."""
    return math.degrees(float(motion.standard_errors(motion.times)[:, :3].max()))


def _motion(clip: _Clip, focal: float | None) -> CameraMotion:
    source = open_clip(clip.source, clip.fps, clip.info)
    stage = Stage("following the camera", source.frame_count, clip.progress, clip.cancel)
    return find_camera_motion(source, clip.readout, focal=focal, advance=stage.advance)


# --- fields ---


@contextmanager
def _corrected(clip: _Clip, at: Instant, preset: PresetName) -> Iterator[Iterator[tuple[float, Corrected]]]:
    """Each frame's time and correction, each frame alone."""
    corrector = Corrector(
        clip.readout,
        preset=preset,
        tau=clip.readout.instant(at),
        fusion="none",
        find_cuts=True,
        find_repeats=True,
    )
    device = choose_device("auto")
    times: list[float] = []
    with ExitStack() as stack:
        source = stack.enter_context(open_source(clip.source, clip.info, device=device, seconds=Seconds()))
        stage = Stage("exporting", source.frames, clip.progress, clip.cancel)

        def frames() -> Iterator[TimedFrame]:
            for item in source.items():
                if isinstance(item, SourceFrame):
                    times.append(item.time)
                    yield TimedFrame(item.frame, item.time, item.restarts)

        def results() -> Iterator[tuple[float, Corrected]]:
            for number, corrected in enumerate(corrector.stream(frames())):
                stage.advance()
                yield times[number], corrected

        yield results()


def distortion_of(corrected: Corrected) -> Tensor:
    """The field GS -> RS `[2, H, W]` that a corrected frame was sampled with."""
    size = corrected.frame.shape[-2:]
    field = corrected.correction_field[None]
    grid = field.shape[-2:]
    return resized_field(invert_field(in_pixels_of(field, size, grid)).field, size)[0]


def st_map(distortion: Tensor) -> npt.NDArray[np.float32]:
    """An ST map `[H, W, 3]` from a field GS -> RS `[2, H, W]`.

    Convention
        Red is where to sample across, green where to sample up, both from 0 to 1 over the picture's outer edges, with
        green 0 at the bottom; blue is 0.
    """
    _, height, width = distortion.shape
    x = torch.arange(width, dtype=distortion.dtype, device=distortion.device) + distortion[0]
    y = torch.arange(height, dtype=distortion.dtype, device=distortion.device)[:, None] + distortion[1]
    red, green = (x + 0.5) / width, 1.0 - (y + 0.5) / height
    return torch.stack([red, green, torch.zeros_like(red)], -1).float().cpu().numpy()


def _write_maps(folder: Path, clip: _Clip, at: Instant, preset: PresetName) -> None:
    openexr = _import_openexr()
    with _corrected(clip, at, preset) as results:
        for number, (_, corrected) in enumerate(results):
            pixels = st_map(distortion_of(corrected))
            header = {"compression": openexr.ZIP_COMPRESSION, "type": openexr.scanlineimage}
            openexr.File(header, {"RGB": pixels}).write(str(folder / f"stmap.{number:06d}.exr"))


def _import_openexr() -> Any:
    try:
        import OpenEXR
    except ImportError as error:
        raise ValueError(f"ST maps are OpenEXR files ({error}): pip install 'qrsc[export]'.") from error
    return OpenEXR


def _write_arrays(path: Path, clip: _Clip, at: Instant, preset: PresetName, focal: float | None) -> None:
    """A file for `numpy.load`: one field per frame, so that a long clip need not fit into memory."""
    motion = _motion(clip, focal)
    height, width = clip.size
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, array: npt.NDArray[Any]) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)

        times = []
        with _corrected(clip, at, preset) as results:
            for number, (time, corrected) in enumerate(results):
                times.append(time)
                put(f"correction_field_{number:06d}", corrected.correction_field.float().cpu().numpy())
        put("frame_times", np.array(times))
        put("row_times", clip.readout.row_times(height, width, dtype=torch.float64).flatten().numpy())
        instants = np.array(times) - times[0] + clip.readout.instant(at)
        put("rotation", motion.rotations(instants))
        put("position", motion.positions(instants))
        put("zoom", motion.zoom(instants))
        put("standard_error", motion.standard_errors(instants))
        put("zoom_standard_error", motion.zoom_standard_errors(instants))
        put("weak_frames", np.array(motion.weak, dtype=np.int64))
        about = {
            "gamma": clip.readout.gamma,
            "scan": clip.readout.scan,
            "tau": clip.readout.instant(at),
            "fps": clip.fps,
            "size": {"height": height, "width": width},
            "focal": motion.focal,
            "focal_given": motion.focal_given,
            "focal_assumed": motion.focal_assumed,
        }
        put("about", np.array(json.dumps(about)))
