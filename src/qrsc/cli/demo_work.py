"""What `qrsc demo` does between its options and its figures."""

from __future__ import annotations

from pathlib import Path

from qrsc.cli.progress import progress_bar
from qrsc.evaluate.demo import run_demo
from qrsc.names import parse_size

STEPS_PER_FRAME = 3  # rendering, correcting, encoding


def show_demo(output: Path, *, size: str, frames: int, seed: int, quiet: bool) -> str:
    """Runs the demonstration under a progress bar and returns the lines that sum it up."""
    with progress_bar(quiet) as progress:
        task = progress.add_task("starting", total=STEPS_PER_FRAME * frames)
        result = run_demo(
            output,
            size=parse_size(size),
            frames=frames,
            seed=seed,
            advance=lambda step: progress.update(task, advance=1, description=step),
        )
    return "\n".join(
        [
            f"PSNR  {result.psnr_before:.2f} -> {result.psnr_after:.2f} dB",
            f"SSIM  {result.ssim_before:.4f} -> {result.ssim_after:.4f}",
            *(f"wrote {path}" for path in result.files),
        ]
    )
