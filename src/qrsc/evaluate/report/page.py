"""A self-contained HTML page of a correction: a before/after slider, a clip, and the figures."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from qrsc.media.atomic import atomic_file
from qrsc.media.image_folder import encode_frame

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>qrsc: rolling shutter, before and after</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem;
         color: #1b1f24; background: #fff; }}
  .compare {{ position: relative; overflow: hidden; border-radius: 6px; touch-action: none; --split: 50%; }}
  .compare img {{ display: block; width: 100%; }}
  .compare .before {{ position: absolute; inset: 0; clip-path: inset(0 calc(100% - var(--split)) 0 0); }}
  .compare .bar {{ position: absolute; top: 0; bottom: 0; left: var(--split); width: 3px; margin-left: -1.5px;
                  background: #fff; box-shadow: 0 0 4px #0008; pointer-events: none; }}
  .compare input {{ position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0;
                   cursor: ew-resize; }}
  .compare span {{ position: absolute; top: .6rem; padding: .1rem .5rem; border-radius: 4px; background: #000a;
                  color: #fff; pointer-events: none; }}
  table {{ border-collapse: collapse; margin: 1rem 0; }}
  th, td {{ text-align: right; padding: .3rem .9rem; border-bottom: 1px solid #d0d7de; }}
  th:first-child, td:first-child {{ text-align: left; padding-left: 0; }}
  figure {{ margin: 1.5rem 0; }}
  figure img, figure video {{ width: 100%; }}
  figcaption, dd {{ color: #57606a; }}
  dt {{ font-weight: 600; }} dd {{ margin: 0 0 .4rem; }}
  @media (prefers-color-scheme: dark) {{ body {{ color: #e6edf3; background: #0d1117; }}
    th, td {{ border-color: #30363d; }} figcaption, dd {{ color: #9198a1; }} }}
</style>
</head>
<body>
<h1>Rolling shutter, before and after</h1>
<p>Drag across the picture: rolling shutter on the left, corrected on the right.</p>
<div class="compare" id="compare">
  <img src="{after}" alt="corrected frame">
  <img class="before" src="{before}" alt="rolling-shutter frame">
  <div class="bar"></div>
  <span style="left:.6rem">before</span><span style="right:.6rem">after</span>
  <input type="range" min="0" max="100" step="0.1" value="50" aria-label="how much of the frame before is shown">
</div>
<table>
<thead><tr><th></th><th>PSNR before</th><th>after</th><th>gain</th><th>SSIM before</th><th>after</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
<figure><video src="{clip}" controls loop muted autoplay playsinline></video>
<figcaption>The whole clip, before | after, slowed down.</figcaption></figure>
<figure><img src="{strip}" alt="before, after, truth and error">
<figcaption>Before | after | truth | error.</figcaption></figure>
<dl>
{facts}
</dl>
<script>
  const box = document.getElementById("compare");
  box.querySelector("input").addEventListener(
    "input", event => box.style.setProperty("--split", event.target.value + "%"));
</script>
</body>
</html>
"""


@dataclass(frozen=True)
class Figures:
    """What the page states.

    Attributes:
        rows: a name each, with PSNR before and after in dB and SSIM before and after.
        facts: what the clip is and what was done to it, by heading.
    """

    rows: Sequence[tuple[str, Sequence[float]]]
    facts: dict[str, str]


def write_report(path: Path, before: Tensor, after: Tensor, strip: Tensor, clip: Path, figures: Figures) -> None:
    """Write the page; pictures and clip are embedded, so that the one file can be passed on.

    Args:
        path: the HTML file.
        before, after: `[3, H, W]`, the frames under the slider.
        strip: `[3, h, w]`, the picture below.
        clip: an MP4 to embed.
        figures: the table and the facts.
    """
    rows = "\n".join(_row(name, values) for name, values in figures.rows)
    facts = "\n".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in figures.facts.items())
    video = "data:video/mp4;base64," + base64.b64encode(clip.read_bytes()).decode("ascii")
    page = _PAGE.format(
        before=_inline(before), after=_inline(after), strip=_inline(strip), clip=video, rows=rows, facts=facts
    )
    with atomic_file(path) as work:
        work.write_text(page, encoding="utf-8")


def _row(name: str, values: Sequence[float]) -> str:
    psnr_before, psnr_after, ssim_before, ssim_after = values
    cells = (
        html.escape(name),
        f"{psnr_before:.2f} dB",
        f"{psnr_after:.2f} dB",
        f"{psnr_after - psnr_before:+.2f} dB",
        f"{ssim_before:.4f}",
        f"{ssim_after:.4f}",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _inline(frame: Tensor) -> str:
    """A frame as a PNG in a data URL."""
    return "data:image/png;base64," + base64.b64encode(encode_frame("frame.png", frame)).decode("ascii")
