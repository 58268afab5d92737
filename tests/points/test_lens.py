from __future__ import annotations

import numpy as np
import pytest
import torch

from qrsc.points import LENS_MODELS, Lens

PARAMETERS = {
    "SIMPLE_PINHOLE": (500.0, 320.0, 240.0),
    "PINHOLE": (500.0, 510.0, 320.0, 240.0),
    "SIMPLE_RADIAL": (500.0, 320.0, 240.0, -0.08),
    "RADIAL": (500.0, 320.0, 240.0, -0.1, 0.02),
    "OPENCV": (500.0, 510.0, 320.0, 240.0, -0.1, 0.03, 0.001, -0.002),
    "FULL_OPENCV": (500.0, 510.0, 320.0, 240.0, -0.1, 0.03, 0.001, -0.002, 0.01, 0.02, 0.0, 0.001),
    "SIMPLE_RADIAL_FISHEYE": (400.0, 320.0, 240.0, 0.02),
    "RADIAL_FISHEYE": (400.0, 320.0, 240.0, 0.02, -0.01),
    "OPENCV_FISHEYE": (400.0, 410.0, 320.0, 240.0, 0.02, -0.01, 0.003, 0.0),
}


def grid() -> torch.Tensor:
    x, y = torch.meshgrid(torch.linspace(0, 639, 9), torch.linspace(0, 479, 7), indexing="xy")
    return torch.stack([x, y], -1).reshape(-1, 2).double()


@pytest.mark.parametrize("model", LENS_MODELS)
def test_there_and_back(model: str) -> None:
    lens = Lens.from_colmap(model, PARAMETERS[model])
    torch.testing.assert_close(lens.distorted(lens.undistorted(grid())), grid(), atol=1e-8, rtol=0.0)


@pytest.mark.parametrize("model", LENS_MODELS)
def test_the_same_as_colmap(model: str) -> None:
    pycolmap = pytest.importorskip("pycolmap", reason="pycolmap, of the extra sfm, is not installed")
    camera = pycolmap.Camera(model=model, width=640, height=480, params=PARAMETERS[model])
    rays = np.asarray(camera.cam_from_img(grid().numpy() + 0.5))
    lens = Lens.from_colmap(model, PARAMETERS[model])
    focal = np.array([camera.focal_length_x, camera.focal_length_y])
    expected = rays * focal + np.array([camera.principal_point_x, camera.principal_point_y]) - 0.5
    np.testing.assert_allclose(lens.undistorted(grid()).numpy(), expected, atol=1e-4)


def test_unknown_models_and_wrong_parameters() -> None:
    with pytest.raises(ValueError, match=r"unknown camera model 'FOV'; choose one of SIMPLE_PINHOLE.*undistort"):
        Lens("FOV", (500.0, 500.0, 320.0, 240.0, 0.1))
    with pytest.raises(ValueError, match="OPENCV has 8 parameters, got 4"):
        Lens("OPENCV", (500.0, 500.0, 320.0, 240.0))
    with pytest.raises(ValueError, match="focal lengths must be positive"):
        Lens("SIMPLE_PINHOLE", (0.0, 320.0, 240.0))
