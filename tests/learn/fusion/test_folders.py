"""Fusion samples from data sets on disk, and mixed with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from qrsc.cli.app import app
from qrsc.data.dataset import Dataset, index_data
from qrsc.flow import FlowPair
from qrsc.learn.fusion import fusion_training
from qrsc.learn.fusion.folders import FolderSamples, MixedSamples
from qrsc.media.image_folder import write_frame
from qrsc.simulate.output.writers import write_sequence
from qrsc.simulate.render.clip import ClipFrame
from qrsc.timing import Readout
from qrsc.weights import read_notes

from .fusion_toys import ToySamples

STEP = 2  # pixels to the right per frame


def still_flow(first: torch.Tensor, second: torch.Tensor) -> FlowPair:
    """The flow of the panorama below."""
    flow = torch.zeros_like(first[:, :2])
    flow[:, 0] = STEP
    return FlowPair(flow, -flow)


@pytest.fixture
def panorama(tmp_path: Path) -> Path:
    """A data set in which a smooth picture moves by a few pixels a frame, read all at once: frames are their truth."""
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(1, 3, 16, 40, generator=generator)
    wide = torch.nn.functional.interpolate(small, size=(64, 160), mode="bicubic").clamp(0.0, 1.0)[0]
    frames = []
    for k in range(6):
        picture = wide[..., 40 - STEP * k : 136 - STEP * k]
        mask = torch.ones(1, 64, 96, dtype=torch.bool)
        mask[..., :8] = False
        frames.append(ClipFrame(k, {"rolling": picture, "middle": picture, "middle_mask": mask}))
    write_sequence(tmp_path / "data" / "train" / "scene", "plain", frames, Readout(0.0))
    return tmp_path / "data"


def windows(root: Path) -> Dataset:
    return Dataset(index_data(root, "plain"), frames=5)


def test_samples_of_a_data_set_are_aligned_cut_and_near_their_truth(panorama: Path) -> None:
    samples = FolderSamples(windows(panorama), (32, 48), still_flow, count=3)(torch.Generator().manual_seed(1))
    assert samples.frames.shape == (3, 3, 3, 32, 48)
    assert samples.truth.shape == (3, 3, 32, 48)
    assert samples.seen.dtype == torch.bool
    difference = torch.where(samples.valid, (samples.frames - samples.truth[:, None]).abs(), 0.0)
    assert float(difference.max()) < 0.01  # frames are stored in 8 bits
    assert float(samples.correction_fields[:, 0, 0].mean()) == pytest.approx(STEP)
    plain = FolderSamples(windows(panorama), (32, 48), still_flow, count=1, motion="none")
    left = plain(torch.Generator().manual_seed(1))
    assert not bool(left.correction_fields.any())
    assert float((left.frames[:, 0] - left.truth).abs().mean()) > 0.005


def test_where_the_truth_cannot_be_asked_for_it_is_the_mean(panorama: Path) -> None:
    for path in list((panorama / "train" / "scene" / "GS").iterdir()):
        write_frame(path, torch.zeros(3, 64, 96))
    samples = FolderSamples(windows(panorama), (64, 96), still_flow, count=1)(torch.Generator().manual_seed(1))
    assert float(samples.truth[..., 8:].max()) == 0.0
    assert float(samples.truth[..., :8].mean()) > 0.2


def test_what_cannot_be_used_is_refused(panorama: Path) -> None:
    with pytest.raises(ValueError, match="windows of 5 frames; got 3"):
        FolderSamples(Dataset(index_data(panorama, "plain"), frames=3), (32, 48), still_flow)
    too_large = FolderSamples(windows(panorama), (128, 48), still_flow)
    with pytest.raises(ValueError, match="96x64, smaller than the parts of 48x128"):
        too_large(torch.Generator().manual_seed(1))
    with pytest.raises(ValueError, match="share must be from 0 to 1"):
        MixedSamples(too_large, too_large, 1.5)


def test_two_sources_are_mixed_by_their_shares() -> None:
    counts = {3: 0, 4: 0}
    mixed = MixedSamples(ToySamples(3), ToySamples(4), 0.25)
    generator = torch.Generator().manual_seed(1)
    for _ in range(40):
        counts[len(mixed(generator))] += 1
    drawn = {size: size * count for size, count in counts.items()}
    assert drawn[3] / sum(drawn.values()) == pytest.approx(0.25, abs=0.03)


SMALL = ["--network", "rsa2-lite", "--batch", "1", "--size", "64x48", "--crop", "32x32", "--scenes", "1", "--pool", "3"]


@pytest.fixture
def _still(few_textures: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_training, "load_flow", lambda name: still_flow)


@pytest.mark.usefixtures("_still")
def test_a_network_is_trained_on_a_data_set_and_teaches_another(panorama: Path, tmp_path: Path) -> None:
    pytest.importorskip("pytorch_lightning", reason="training needs the extra 'train'")

    def train(folder: str, *options: Any) -> str:
        given = ["train", "fusion", str(tmp_path / folder), *SMALL, "--steps", "1", *map(str, options)]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, result.output
        return result.output

    data = ("--data", panorama, "--layout", "plain", "--share", 1)
    assert "| rsa2-lite |" in train("first", *data, "--motion", "linear")
    first = tmp_path / "first" / "fusion.safetensors"
    assert read_notes(first)["motion"] == "linear"
    train("second", *data, "--teacher", first)
    assert read_notes(tmp_path / "second" / "fusion.safetensors")["motion"] == "path"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--data {} --flow dis", "--data and --layout belong together"),
        ("--data {} --layout plain --flow true", "the true flow of a data set is not known"),
        ("--data {} --layout fastec", "no Fastec-RS sequence found"),
        ("--teacher rsa3", "rsa3"),
    ],
)
@pytest.mark.usefixtures("_still")
def test_bad_options(panorama: Path, tmp_path: Path, options: str, message: str) -> None:
    given = ["train", "fusion", str(tmp_path / "run"), *SMALL, *options.format(panorama).split()]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 2, result.output
    assert message in result.output.replace("\n", " ")
