from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from qrsc.cli.app import app


def test_demo_writes_its_files_and_prints_a_gain(tmp_path: Path) -> None:
    arguments = ["demo", "--output", str(tmp_path / "demo"), "--size", "160x128", "--frames", "4"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    before, after = (float(part) for part in lines[0].removeprefix("PSNR").removesuffix("dB").split("->"))
    assert after > before + 3.0
    before, after = (float(part) for part in lines[1].removeprefix("SSIM").split("->"))
    assert after > before
    written = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert sorted(Path(line.removeprefix("wrote ")).name for line in lines[2:]) == written
    assert {Path(name).suffix for name in written} == {".html", ".mp4", ".png"}
