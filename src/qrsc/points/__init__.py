"""Points instead of pictures: tracks and keypoints at one instant of each frame."""

from qrsc.points.keypoints import correct_keypoints
from qrsc.points.lens import LENS_MODELS, Lens
from qrsc.points.observations import Observations, joined, observe
from qrsc.points.tracks import CorrectedPoints, FitOptions, correct_observations, correct_tracks

__all__ = [
    "LENS_MODELS",
    "CorrectedPoints",
    "FitOptions",
    "Lens",
    "Observations",
    "correct_keypoints",
    "correct_observations",
    "correct_tracks",
    "joined",
    "observe",
]
