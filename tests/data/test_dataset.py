from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from qrsc.backend.progress import Progress
from qrsc.data.acc import (
    THRESHOLD,
    Acceleration,
    choose_acc,
    keep_listed,
    measure_accelerations,
    read_list,
    write_list,
)
from qrsc.data.check import check_data, check_sequence, report_lines
from qrsc.data.dataset import Dataset, TruthInstant, index_data, load_frame, split_at_gaps
from qrsc.data.layouts import LAYOUTS, Kind, LayoutName, get_layout, index_sequences
from qrsc.flow import FlowPair
from qrsc.media.errors import MediaError
from qrsc.media.image_folder import StoredFrame, read_frame, write_frame
from qrsc.simulate.output.writers import sequence_folder, write_sequence
from qrsc.simulate.render.clip import ClipFrame
from qrsc.timing import Readout

SIZE = (12, 16)


def picture(seed: int, size: tuple[int, int] = SIZE) -> Tensor:
    levels = torch.randint(0, 256, (3, *size), generator=torch.Generator().manual_seed(seed))
    return levels / 255


def pictures(number: int, layout: LayoutName) -> dict[Kind, Tensor]:
    """A different picture of every kind that a layout has."""
    found: dict[Kind, Tensor] = {}
    for place, kind in enumerate(get_layout(layout).names):
        value = picture(10 * number + place)
        found[kind] = value[:1] > 0.5 if kind.endswith("_mask") else value
    return found


def write_clip(root: Path, layout: LayoutName, numbers: list[int]) -> list[ClipFrame]:
    frames = [ClipFrame(number, pictures(number, layout)) for number in numbers]
    readout = get_layout(layout).readout or Readout(0.7, "left-right")
    write_sequence(root / sequence_folder(layout, 0, 1), layout, frames, readout)
    return frames


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_simulator_writes_the_loader_reads(tmp_path: Path, layout: LayoutName) -> None:
    frames = write_clip(tmp_path, layout, [0, 1, 2])
    instants: list[TruthInstant] = [at for at in ("first", "middle") if at in get_layout(layout).names]
    for at in instants:
        data = Dataset(index_data(tmp_path, layout), frames=3, at=at)
        assert len(data) == 1
        [sample] = data
        assert torch.equal(sample.frames, torch.stack([frame.pictures["rolling"] for frame in frames]))
        assert torch.equal(sample.truth, frames[1].pictures[at])
        mask: Kind = "first_mask" if at == "first" else "middle_mask"
        expected = frames[1].pictures.get(mask, torch.ones(1, *SIZE, dtype=torch.bool))
        assert torch.equal(sample.mask, expected)
        assert sample.readout == (get_layout(layout).readout or Readout(0.7, "left-right"))
        assert sample.tau == sample.readout.instant(at)
        assert sample.name.endswith("/00001")


def test_no_window_reaches_over_a_missing_frame(tmp_path: Path) -> None:
    write_clip(tmp_path, "fastec", [0, 1, 2, 4, 5, 6, 7])
    [sequence] = index_data(tmp_path, "fastec")
    assert [[files.number for files in clip.frames] for clip in split_at_gaps(sequence)] == [[0, 1, 2], [4, 5, 6, 7]]
    names = [sample.name[-1] for sample in Dataset([sequence], frames=3)]
    assert names == ["1", "5", "6"]
    assert [sample.name[-1] for sample in Dataset([sequence], frames=4)] == ["6"]
    assert len(Dataset([sequence], frames=1)) == 7


def test_a_frame_without_truth_is_a_neighbour_only(tmp_path: Path) -> None:
    write_clip(tmp_path, "fastec", [0, 1, 2, 3])
    [sequence] = index_data(tmp_path, "fastec")
    sequence.frames[1].files["middle"].unlink()
    [sample] = Dataset(index_data(tmp_path, "fastec"), frames=3)
    assert sample.name.endswith("00002")
    assert torch.equal(sample.frames[0], pictures(1, "fastec")["rolling"])


def test_rgba_and_jpg_copies_are_read(tmp_path: Path) -> None:
    write_clip(tmp_path / "jpg", "carla", [0, 1, 2])
    for path in (tmp_path / "jpg").rglob("*.png"):
        write_frame(path.with_suffix(".jpg"), read_frame(path).frame)
        path.unlink()
    [sample] = Dataset(index_data(tmp_path / "jpg", "carla"), frames=3, at="first")
    assert sample.frames.shape == (3, 3, *SIZE)
    frames = write_clip(tmp_path / "rgba", "carla", [0, 1, 2])
    for path in (tmp_path / "rgba").rglob("*_rs.png"):
        stored = read_frame(path)
        write_frame(path, stored.frame, StoredFrame(path, stored.frame, 8, 4, torch.rand(1, *SIZE)))
        assert read_frame(path).channels == 4
    [sample] = Dataset(index_data(tmp_path / "rgba", "carla"), frames=3, at="first")
    assert torch.equal(sample.frames[1], frames[1].pictures["rolling"])


def test_wrong_folders_and_sizes_are_told(tmp_path: Path) -> None:
    write_clip(tmp_path, "fastec", [0, 1])
    with pytest.raises(FileNotFoundError, match=r"no Carla-RS sequence.*0000_rs\.png.*holds test/|train/"):
        index_data(tmp_path, "carla")
    with pytest.raises(ValueError, match="each needs the other"):
        index_data(tmp_path, "acc")
    [sequence] = index_data(tmp_path, "fastec")
    write_frame(sequence.frames[1].files["middle"], picture(0, (12, 17)))
    with pytest.raises(MediaError, match=r"001_global_middle\.png is 17x12, but its rolling-shutter frame is 16x12"):
        load_frame(sequence.frames[1], ("middle",))
    with pytest.raises(ValueError, match="first and middle, not at 'last'"):
        Dataset([sequence], at="last")  # type: ignore[arg-type]  # wrong on purpose


def test_check_reports_gaps_sizes_and_damage(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1, 4])
    [report] = [check_sequence(sequence) for sequence in index_data(tmp_path, "bsrsc")]
    assert (report.frames, report.kinds, report.gaps, report.sizes) == (3, {"middle": 3}, (range(2, 4),), ("16x12",))
    assert report.problems == ()
    assert report_lines([report])[-1] == "1 sequence, 3 frames, 2 missing, 16x12; no problems"
    [sequence] = index_data(tmp_path, "bsrsc")
    write_frame(sequence.frames[0].files["middle"], picture(0, (12, 17)))
    damaged = sequence.frames[1].files["rolling"]
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert check_sequence(sequence).problems == ("more than one size: 5 of 16x12, 1 of 17x12",), "the head is whole"
    assert any(str(damaged) in line for line in check_sequence(sequence, thorough=True).problems)
    assert "1 sequence with problems" in report_lines([check_sequence(sequence)])[-1]


# --- ACC ---


def uniform_flow(accelerations: dict[int, float]) -> object:
    """Flows of a picture that moves as a whole; the frame with brightness k has acceleration `accelerations[k]`."""

    def flow(first: Tensor, second: Tensor, /) -> FlowPair:
        number = round(float(second[0, 0, 0, 0]) * 255)
        shape = (1, 2, *first.shape[-2:])
        # Between k - 1 and k the velocity is the sum of the accelerations before.
        velocity = sum(accelerations.get(k, 0.0) for k in range(number))
        forward = torch.zeros(shape)
        forward[:, 0] = velocity
        return FlowPair(forward, -forward)

    return flow


def test_acc_takes_the_frames_that_accelerate(tmp_path: Path) -> None:
    frames = [
        ClipFrame(k, {"rolling": torch.full((3, 40, 60), k / 255), "middle": picture(k, (40, 60))}) for k in range(6)
    ]
    write_sequence(tmp_path / "test" / "scene", "bsrsc", frames, get_layout("bsrsc").readout or Readout(0.0))
    sequences = index_sequences(tmp_path, "bsrsc")
    flow = uniform_flow({2: 1.5 * THRESHOLD, 3: 0.5 * THRESHOLD})
    measured = list(measure_accelerations(sequences, flow=flow))  # type: ignore[arg-type]  # a stand-in
    assert [(each.number, round(each.mean, 3)) for each in measured] == [(1, 0.0), (2, 6.0), (3, 2.0), (4, 0.0)]

    written = tmp_path / "list.txt"
    assert write_list(written, measured, 0.425) == 1
    assert "mean |acceleration| >= 4 px/frame^2" in written.read_text().splitlines()[0]
    assert read_list(written) == {("test/scene", 2)}
    [sequence] = index_data(tmp_path, "acc", list_file=written)
    assert [sample.name for sample in Dataset([sequence], frames=3)] == ["test/scene/00002"]
    assert len(sequence.frames) == 6, "all frames stay as neighbours"
    assert [s.name for s in index_data(tmp_path / "test", "acc", list_file=written)] == ["scene"]


def test_a_frame_at_an_end_or_beside_a_gap_has_no_acceleration(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1, 2, 4, 5])
    flow = uniform_flow({})
    measured = list(measure_accelerations(index_sequences(tmp_path, "bsrsc"), flow=flow))  # type: ignore[arg-type]  # a stand-in
    assert [each.number for each in measured] == [1]


def test_lists_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1, 2])
    with pytest.raises(FileNotFoundError, match="qrsc data acc"):
        read_list(tmp_path / "none.txt")
    (tmp_path / "bad.txt").write_text("# fine\nscene 12\n")
    with pytest.raises(ValueError, match=r"line 2 of .*'scene 12'"):
        read_list(tmp_path / "bad.txt")
    write_list(tmp_path / "other.txt", [Acceleration("elsewhere", 1, 9.0)], 0.4)
    with pytest.raises(ValueError, match="names no frame that is here"):
        keep_listed(index_sequences(tmp_path, "bsrsc"), read_list(tmp_path / "other.txt"), tmp_path / "other.txt")


def test_an_acc_list_never_replaces_a_frame(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1, 2])
    frame = index_sequences(tmp_path, "bsrsc")[0].frames[1].files["rolling"]
    before = frame.read_bytes()
    with pytest.raises(ValueError, match="the original is never touched"):
        choose_acc(tmp_path, frame, overwrite=True)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        choose_acc(tmp_path, tmp_path, overwrite=True)
    assert frame.read_bytes() == before


def test_progress_counts_frames(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1, 2])
    heard: list[tuple[str, int, int | None]] = []

    def hear(now: Progress) -> None:
        heard.append((now.stage, now.done, now.total))

    [report] = check_data(tmp_path, "bsrsc", progress=hear)
    found = choose_acc(tmp_path, tmp_path / "list.txt", progress=hear)
    assert heard == [(stage, done, 3) for stage in ("checking", "measuring") for done in (1, 2, 3)]
    assert report.problems == ()
    assert found.measured == 1
    assert found.largest.number == 1
    assert len(read_list(tmp_path / "list.txt")) == found.chosen


def test_real_samples_load_without_special_cases(real_data: Path) -> None:
    for layout, title in (("carla", "Carla-RS"), ("fastec", "Fastec-RS"), ("bsrsc", "BS-RSC")):
        if (real_data / title).is_dir():
            sequences = index_data(real_data / title, layout)
            assert not any(check_sequence(sequence).problems for sequence in sequences)
            sample = Dataset(sequences, frames=2)[0]
            assert sample.frames.shape[1:] == sample.truth.shape


def test_a_split_can_be_asked_for(tmp_path: Path) -> None:
    write_clip(tmp_path, "bsrsc", [0, 1])
    shutil.copytree(tmp_path / "train", tmp_path / "test")
    assert len(index_data(tmp_path, "bsrsc")) == 2
    assert [s.name for s in index_data(tmp_path, "bsrsc", split="test")] == ["test/0000"]


def test_hidden_folders_are_not_looked_into(tmp_path: Path) -> None:
    write_clip(tmp_path, "sim", [0, 1])
    [sequence] = index_data(tmp_path, "sim")
    unfinished = sequence.folder.with_name(".0001.partial")
    shutil.copytree(sequence.folder, unfinished)
    (unfinished / "clip.json").unlink()
    assert index_data(tmp_path, "sim") == [sequence]
