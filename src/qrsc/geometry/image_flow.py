"""Keypoints without a track, corrected by optical flow between the images of a clip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from qrsc.backend.progress import CancelToken, require_not_cancelled
from qrsc.flow import find_flows, load_flow
from qrsc.media.image_folder import read_frame
from qrsc.motion.consistency import consistency_confidence
from qrsc.points import Lens, correct_keypoints
from qrsc.timing import Instant, Readout

Points = npt.NDArray[np.float64]
BY_FLOW = 2
LEAST_CONFIDENCE = 0.1  # of the better one of a keypoint's flows
FURTHEST = 2.0  # frame intervals between neighbouring images; the flow over a longer time says little of one instant


@torch.no_grad()
def correct_with_images(
    paths: list[Path],
    images: list[tuple[float, Lens, Points]],
    corrected: list[Points],
    how: list[npt.NDArray[np.int64]],
    readout: Readout,
    *,
    at: Instant | float,
    flow: str,
    cancel: CancelToken | None,
) -> None:
    """Correct the keypoints that have not been, in place.

    Args:
        paths: the images of a clip, in the order of time.
        images: when each starts, its lens, and its keypoints `[K, 2]` as they were found.
        corrected: keypoints `[K, 2]` of each image, to be changed.
        how: `[K]`, 0 where a keypoint has not been corrected; set to `BY_FLOW` where it is now.
        readout, at, flow: as `correct_database`.
        cancel: asked whether to stop.
    """
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(
            f"there is no image {missing[0]}; --images is the folder that the names in the database start from."
        )
    estimator = load_flow(flow)
    backward: tuple[float, Tensor, Tensor] | None = None  # step, flow and confidence to the previous image
    frame = read_frame(paths[0]).frame[None]
    for index, (time, lens, points) in enumerate(images):
        require_not_cancelled(cancel)
        found = {} if backward is None else {backward[0]: backward[1:]}
        backward = None
        if index + 1 < len(images):
            following = read_frame(paths[index + 1]).frame[None]
            step = images[index + 1][0] - time
            if step <= FURTHEST:
                flows = find_flows(estimator, frame, following).flows
                found[step] = (flows.forward[0], consistency_confidence(*flows)[0])
                backward = (-step, flows.backward[0], consistency_confidence(flows.backward, flows.forward)[0])
            frame = following
        open_ones = np.flatnonzero(how[index] == 0)
        if not found or not len(open_ones):
            continue
        result = correct_keypoints(
            points[open_ones],
            {step: values[0] for step, values in found.items()},
            readout,
            at=at,
            confidences={step: values[1] for step, values in found.items()},
            lens=lens,
            regularisation=0.05,
        )
        sure = np.asarray(result.confidence) > LEAST_CONFIDENCE
        corrected[index][open_ones[sure]] = np.asarray(result.position)[sure]
        how[index][open_ones[sure]] = BY_FLOW
