"""Rolling-shutter correction of video with quadratic motion.

The public names below are loaded on first use, so that `import qrsc` is silent and quick and a command that needs
no tensor (`qrsc --help`) does not wait for torch.
"""

from __future__ import annotations

# Not from `typing`, whose import takes longer than all else here: a signal that came meanwhile, before the command can
# install its handlers, would end in a traceback.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from qrsc.backend.progress import Cancelled
    from qrsc.farm.batch import batch
    from qrsc.flow import load_flow
    from qrsc.motion.trajectory import Trajectory, solve_trajectory
    from qrsc.pipeline import Corrected, Corrector, correct
    from qrsc.timing import Readout
    from qrsc.video.correct import correct_video
    from qrsc.video.slowmo import slowmo_video
    from qrsc.warp import backward_warp, invert_field, splat

__version__ = "0.1.0"

__all__ = [
    "Cancelled",
    "Corrected",
    "Corrector",
    "Readout",
    "Trajectory",
    "__version__",
    "backward_warp",
    "batch",
    "correct",
    "correct_video",
    "invert_field",
    "load_flow",
    "slowmo_video",
    "solve_trajectory",
    "splat",
]

_HOME = {
    "Cancelled": "qrsc.backend.progress",
    "Corrected": "qrsc.pipeline",
    "Corrector": "qrsc.pipeline",
    "Readout": "qrsc.timing",
    "Trajectory": "qrsc.motion.trajectory",
    "backward_warp": "qrsc.warp",
    "batch": "qrsc.farm.batch",
    "correct": "qrsc.pipeline",
    "correct_video": "qrsc.video.correct",
    "invert_field": "qrsc.warp",
    "load_flow": "qrsc.flow",
    "slowmo_video": "qrsc.video.slowmo",
    "solve_trajectory": "qrsc.motion.trajectory",
    "splat": "qrsc.warp",
}


if not TYPE_CHECKING:  # a type checker that saw it would take any misspelt name for one of ours

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module 'qrsc' has no attribute {name!r}; its public names are {', '.join(__all__)}.")
        from importlib import import_module

        value: object = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
