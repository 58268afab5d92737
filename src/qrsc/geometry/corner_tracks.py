"""Corners of the picture followed through a clip: the observations of the bundle adjustment.

Convention
    Positions are (x, y) in pixels of the clip, pixel centres at integers. Observations of one track stand one after the
    other in the order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Grey = npt.NDArray[np.uint8]
Points = npt.NDArray[np.float32]

# Corners are found tile by tile: a few strong ones on a near object would otherwise push out the faint distant ones,
# which say most about rotation.
TILES = (6, 8)
CORNERS = 14  # that are followed in a tile
QUALITY = 0.03  # of a corner, relative to the best of its tile
APART = 9  # pixels from one corner to the next
EVERY = 4  # frames after which lost corners are replaced
LONGEST = 32  # frames of a track; after that a new one begins
SHORTEST = 4
WINDOW = (17, 17)  # pixels that are compared
LEVELS = 4  # of the image pyramid
BORDER = 6  # pixels; nearer to the border a match is partly outside the frame
# In pixels: how far the way there and back may end from where it began, and how far the comparison with the frame in
# which a corner was found may move it from where the way through all frames has led. The former finds mismatches, the
# latter keeps errors from adding up.
RETURN, REFINED = 0.5, 1.5


class CornerTracks(NamedTuple):
    """Observations of T tracks."""

    position: Array  # [O, 2]
    frame: Numbers  # [O], numbers of frames, from 0
    track: Numbers  # [O], 0 to T - 1, in ascending order

    @property
    def number(self) -> int:
        """T."""
        return int(self.track[-1]) + 1 if len(self.track) else 0

    def split(self, cuts: Numbers) -> CornerTracks:
        """Tracks that end before each of the frames numbered `cuts`, where others begin."""
        scene = np.searchsorted(cuts, self.frame, side="right")
        return _long_ones(self.position, self.frame, self.track * (len(cuts) + 1) + scene)

    def chosen(self, tracks: Flags) -> CornerTracks:
        """Some of the tracks, `[T]`."""
        kept = tracks[self.track]
        return _long_ones(self.position[kept], self.frame[kept], self.track[kept])


@dataclass
class _Corners:
    """Corners that were found in one frame, with where they are now."""

    found_in: int
    picture: Grey
    found: Points  # [N, 2]
    now: Points  # [N, 2]
    track: Numbers  # [N]


class CornerTracker:
    """Follows corners from frame to frame."""

    def __init__(self, size: tuple[int, int]) -> None:
        """`(height, width)` of the clip, in whose pixels positions are given; frames may be smaller."""
        self._size = size
        self._groups: list[_Corners] = []
        self._seen: list[tuple[Points, int, Numbers]] = []
        self._last: Grey | None = None
        self._frames = self._tracks = 0

    def take(self, frame: Grey) -> None:
        """Take the next frame, grey, `[h, w]`."""
        frame = np.ascontiguousarray(frame)
        if self._last is not None:
            for group in self._groups:
                _follow(group, self._last, frame)
        self._groups = [group for group in self._groups if self._frames - group.found_in < LONGEST and len(group.track)]
        if self._frames % EVERY == 0:
            self._find(frame)
        self._seen += [(group.now, self._frames, group.track) for group in self._groups]
        self._last = frame
        self._frames += 1

    def tracks(self) -> CornerTracks:
        """All tracks so far that are long enough to say something."""
        if self._last is None or not self._seen:
            return CornerTracks(np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0, np.int64))
        height, width = self._last.shape
        scale = np.array([self._size[1] / width, self._size[0] / height])
        # Scaling keeps the corners of the frame in place, not the centres of its pixels.
        position = (np.concatenate([points for points, _, _ in self._seen]).astype(np.float64) + 0.5) * scale - 0.5
        frame = np.concatenate([np.full(len(points), number) for points, number, _ in self._seen])
        return _long_ones(position, frame, np.concatenate([numbers for _, _, numbers in self._seen]))

    def _find(self, frame: Grey) -> None:
        """Find corners where none are followed."""
        import cv2

        height, width = frame.shape
        free = np.zeros(frame.shape, dtype=np.uint8)
        free[BORDER:-BORDER, BORDER:-BORDER] = 255
        followed = np.zeros(TILES, dtype=int)
        for group in self._groups:
            for x, y in group.now.tolist():
                cv2.circle(free, (round(x), round(y)), APART, 0, -1)
                followed[int(y * TILES[0] / height), int(x * TILES[1] / width)] += 1
        places = []
        for (row, column), count in np.ndenumerate(followed):
            top, bottom = (height * edge // TILES[0] for edge in (row, row + 1))
            left, right = (width * edge // TILES[1] for edge in (column, column + 1))
            if count < CORNERS and bottom - top > APART and right - left > APART:
                tile, mask = (np.ascontiguousarray(part[top:bottom, left:right]) for part in (frame, free))
                found = cv2.goodFeaturesToTrack(tile, CORNERS - int(count), QUALITY, APART, mask=mask, blockSize=5)
                if found is not None:
                    places.append(found.reshape(-1, 2) + np.array([left, top]))
        if places:
            points = np.concatenate(places).astype(np.float32)
            numbers = self._tracks + np.arange(len(points), dtype=np.int64)
            self._tracks += len(points)
            self._groups.append(_Corners(self._frames, frame, points, points, numbers))


def _follow(group: _Corners, before: Grey, after: Grey) -> None:
    """Follow the corners of a group to the next frame; those that are lost are dropped."""
    height, width = after.shape
    moved, seen = _matched(before, after, group.now)
    back, returned = _matched(after, before, moved, group.now)
    x, y = moved.T
    inside = (x > BORDER) & (x < width - 1 - BORDER) & (y > BORDER) & (y < height - 1 - BORDER)
    kept = seen & returned & inside & (np.abs(back - group.now).max(1, initial=0.0) < RETURN)
    group.found, group.track, moved = group.found[kept], group.track[kept], moved[kept]
    refined, seen = _matched(group.picture, after, group.found, moved, levels=1)
    near = seen & (np.abs(refined - moved).max(1, initial=0.0) < REFINED)
    group.now = np.where(near[:, None], refined, moved)


def _matched(
    before: Grey, after: Grey, points: Points, guess: Points | None = None, levels: int = LEVELS
) -> tuple[Points, Flags]:
    """Where points `[N, 2]` of one picture are in another, and whether they were found (Lucas-Kanade)."""
    import cv2

    if not len(points):
        return points, np.zeros(0, dtype=np.bool_)
    moved, status, _ = cv2.calcOpticalFlowPyrLK(
        before,
        after,
        points,
        points.copy() if guess is None else guess.copy(),
        winSize=WINDOW,
        maxLevel=levels,
        criteria=(cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 30, 0.003),
        flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
    )
    return np.asarray(moved, dtype=np.float32), np.asarray(status)[:, 0] > 0


def _long_ones(position: Array, frame: Numbers, track: Numbers) -> CornerTracks:
    """Tracks of some length, sorted and numbered without gaps."""
    _, number, lengths = np.unique(track, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(lengths[number] >= SHORTEST)
    order = kept[np.lexsort((frame[kept], number[kept]))]
    _, number = np.unique(number[order], return_inverse=True)
    return CornerTracks(position[order], frame[order], number.astype(np.int64))
