"""Tracks from matches between the images of a clip: chains from keypoint to keypoint, forward in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Matches = npt.NDArray[np.integer]
Numbers = npt.NDArray[np.int64]


def chain_matches(
    counts: Sequence[int], times: Sequence[float], matches: Mapping[tuple[int, int], Matches], reach: float
) -> list[Numbers]:
    """The track of each keypoint.

    A keypoint has at most one successor, in the nearest later image that it is matched with, and at most one
    predecessor. So a track has one keypoint in an image, even where matches contradict each other.

    Args:
        counts: how many keypoints each image has; images in the order of time.
        times: when each image starts, in frame intervals.
        matches: `[K, 2]`, numbers of keypoints, by numbers of the two images, the earlier one first.
        reach: frame intervals; matches over a longer time are left out.

    Returns:
        For each image `[count]`: the number of each keypoint's track.
    """
    predecessor = [np.full((count, 2), -1, dtype=np.int64) for count in counts]  # image and keypoint
    followed = [np.zeros(count, dtype=bool) for count in counts]
    near = [pair for pair in matches if 0.0 < times[pair[1]] - times[pair[0]] <= reach]
    for first, second in sorted(near, key=lambda pair: (times[pair[1]] - times[pair[0]], pair)):
        pairs = np.asarray(matches[first, second], dtype=np.int64)
        free = ~followed[first][pairs[:, 0]] & (predecessor[second][pairs[:, 1], 0] < 0)
        pairs = pairs[free]
        # A keypoint may be matched twice within one pair, too: the first one counts.
        for side in (0, 1):
            pairs = pairs[np.sort(np.unique(pairs[:, side], return_index=True)[1])]
        followed[first][pairs[:, 0]] = True
        predecessor[second][pairs[:, 1]] = np.stack([np.full(len(pairs), first), pairs[:, 0]], 1)
    tracks: list[Numbers] = []
    total = 0
    for count, before in zip(counts, predecessor, strict=True):
        own = np.full(count, -1, dtype=np.int64)
        for image in np.unique(before[:, 0]):
            if image >= 0:
                chosen = before[:, 0] == image
                own[chosen] = tracks[image][before[chosen, 1]]
        new = own < 0
        own[new] = total + np.arange(int(new.sum()))
        total += int(new.sum())
        tracks.append(own)
    return tracks
