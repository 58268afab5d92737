from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qrsc.calibrate.cell_motions import ClipMotions
from qrsc.calibrate.cells import GRID

HEIGHT, WIDTH = 480, 640
Shaken = Callable[..., ClipMotions]


@pytest.fixture(scope="session")
def shaken() -> Shaken:
    """Motions of a clip whose picture is shifted and rolled as a whole along sums of sinusoids, at a given gamma.

    The shift of each cell is found by fixed-point iteration, since the time of its second exposure depends on it.
    """

    def make(
        gamma: float, *, pairs: int = 40, amplitude: float = 6.0, drift: float = 0.0, noise: float = 0.05, seed: int = 0
    ) -> ClipMotions:
        random = np.random.default_rng(seed)
        rate = random.uniform(0.05, 0.35, (3, 5))
        phase = random.uniform(0.0, 2.0 * np.pi, (3, 5))
        size = amplitude * random.normal(size=(3, 5)) * np.array([[1.0], [1.0], [0.3]]) / np.sqrt(5)

        def path(times: np.ndarray) -> np.ndarray:
            waves = np.sin(2.0 * np.pi * rate * times[..., None, None] + phase)
            moved: np.ndarray = (size * waves).sum(-1)  # [..., 3]: x, y, roll
            moved[..., 0] += drift * times
            return moved

        rows, columns = GRID
        y, x = np.meshgrid(
            (np.arange(rows) + 0.5) * HEIGHT / rows, (np.arange(columns) + 0.5) * WIDTH / columns, indexing="ij"
        )
        position = np.stack([x.ravel(), y.ravel()], -1)[None].repeat(pairs, 0)
        start = np.arange(pairs)[:, None]
        shift = np.zeros_like(position)
        for _ in range(20):
            middle = (position + 0.5 * shift - np.array([WIDTH / 2, HEIGHT / 2])) / (WIDTH / 2)
            step = path(start + 1.0 + gamma * (position + shift)[..., 1] / HEIGHT) - path(
                start + gamma * position[..., 1] / HEIGHT
            )
            shift = step[..., :2] + step[..., 2:] * np.stack([-middle[..., 1], middle[..., 0]], -1)
        shift = shift + noise * random.normal(size=shift.shape)
        return ClipMotions(position, shift, np.ones((pairs, rows * columns)), (HEIGHT, WIDTH))

    return make
