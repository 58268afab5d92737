"""The report on a batch, from its manifest: `report.json` for programs, `report.html` for people."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from qrsc.farm.inputs import Clip
from qrsc.media.atomic import atomic_file
from qrsc.video.correction_options import CorrectionOptions

Line = dict[str, Any]
REPORTS = ("report.json", "report.html")
_NOT_STARTED = "not finished: the batch was ended before"

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>qrsc batch: {title}</title>
<style>
  body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; color: #1b1f24;
         background: #fff; }}
  table {{ border-collapse: collapse; width: 100%; }}
  th, td {{ text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; border-bottom: 1px solid #d0d7de; }}
  .number {{ text-align: right; white-space: nowrap; }}
  img {{ display: block; width: 320px; max-width: 40vw; border-radius: 4px; }}
  small {{ color: #57606a; }} .failed {{ color: #b42318; font-weight: 600; }}
  @media (prefers-color-scheme: dark) {{ body {{ color: #e6edf3; background: #0d1117; }}
    th, td {{ border-color: #30363d; }} small {{ color: #9198a1; }} .failed {{ color: #ff7b72; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}<br><small>{settings}</small></p>
<table>
<thead><tr><th>before | after</th><th>clip</th><th>readout</th>
<th class="number">frames</th><th class="number">time</th><th>unsure</th></tr></thead>
<tbody>
"""
_TAIL = "</tbody>\n</table>\n</body>\n</html>\n"


def write_reports(manifest: Path, clips: Sequence[Clip], folder: Path) -> None:
    """Write both reports on clips into a folder. However many there are, only a line of each is in memory."""
    places, run = _last_lines(manifest, {clip.key for clip in clips})
    failed = sum(kind == "failed" for kind, _ in places.values())
    done = sum(kind == "done" for kind, _ in places.values())
    counts = {"clips": len(clips), "done": done, "failed": failed, "unfinished": len(clips) - done - failed}
    settings = {"version": run["version"], "segment": run["segment"], "options": _chosen(run["options"])}
    with atomic_file(folder / REPORTS[0]) as work, work.open("w", encoding="utf-8") as file:
        file.write(json.dumps({**counts, **settings})[:-1] + ', "results": [')
        for number, line in enumerate(_lines(manifest, clips, places)):
            shown = {name: value for name, value in line.items() if name != "thumbnail"}
            file.write((",\n" if number else "\n") + json.dumps(shown))
        file.write("\n]}\n")
    summary = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "clips")
    with atomic_file(folder / REPORTS[1]) as work, work.open("w", encoding="utf-8") as file:
        file.write(
            _HEAD.format(
                title="Batch of rolling-shutter corrections",
                summary=html.escape(summary),
                settings=html.escape(_in_words(settings)),
            )
        )
        for line in _lines(manifest, clips, places):
            file.write(_row(line))
        file.write(_TAIL)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that are not the default ones."""
    usual = asdict(CorrectionOptions())
    return {name: value for name, value in options.items() if value != usual[name]}


def _in_words(settings: Mapping[str, Any]) -> str:
    chosen = ", ".join(f"{name} {value}" for name, value in settings["options"].items()) or "default options"
    segments = f"segments of {settings['segment']} frames" if settings["segment"] else "no segments"
    return f"qrsc {settings['version']}; {chosen}; {segments}"


def _last_lines(manifest: Path, keys: set[str]) -> tuple[dict[str, tuple[str, int]], Line]:
    """The kind and the place in the manifest of the last line about each clip, and the line of the last run."""
    run: Line = {}
    places: dict[str, tuple[str, int]] = {}
    with manifest.open("rb") as file:
        place = 0
        for text in file:
            if text.endswith(b"\n"):
                line = json.loads(text)
                if line["kind"] in ("done", "failed") and line["clip"] in keys:
                    places[line["clip"]] = (line["kind"], place)
                elif line["kind"] == "clip":
                    places.pop(line["clip"], None)  # begun anew
                elif line["kind"] == "run":
                    run = line
            place += len(text)
    return places, run


def _lines(manifest: Path, clips: Sequence[Clip], places: dict[str, tuple[str, int]]) -> Iterator[Line]:
    """What became of each clip, in order."""
    with manifest.open("rb") as file:
        for clip in clips:
            if clip.key not in places:
                yield {"state": "unfinished", "source": clip.source, "output": clip.output, "reason": _NOT_STARTED}
                continue
            kind, place = places[clip.key]
            file.seek(place)
            line = json.loads(file.readline())
            state = "failed" if kind == "failed" else "copied" if line["copied"] else "done"
            yield {"state": state, **{name: value for name, value in line.items() if name not in ("kind", "clip")}}


def _row(line: Line) -> str:
    source, thumbnail = html.escape(Path(line["source"]).name), line.get("thumbnail", "")
    picture = f'<img src="{html.escape(thumbnail)}" alt="before and after">' if thumbnail else ""
    name = f"{source}<br><small>{html.escape(line['output'])}</small>"
    if line["state"] in ("failed", "unfinished"):
        reason = html.escape(line["reason"])
        return (
            f'<tr><td></td><td>{name}</td><td colspan="4"><span class="failed">{line["state"]}</span>: {reason}'
            f"{_times(line.get('restarts', 0), 'worker ended')}</td></tr>\n"
        )
    return (
        f"<tr><td>{picture}</td><td>{name}{_notes(line)}</td>"
        f'<td>{_readout(line)}</td><td class="number">{line["frames"]}</td><td class="number">{_time(line)}</td>'
        f"<td>{_unsure(line)}</td></tr>\n"
    )


def _readout(line: Line) -> str:
    if line["copied"]:
        return f"nothing to correct<br><small>{html.escape(line['readout_from'])}</small>"
    ms = "" if line["readout_ms"] is None else f"{line['readout_ms']:.1f} ms, "
    weaker = f", {line['strength']:.0%} of it" if line["strength"] < 1.0 else ""
    return f"{ms}γ {line['gamma']:.3f}, {line['scan']}{weaker}<br><small>{html.escape(line['readout_from'])}</small>"


def _time(line: Line) -> str:
    parts = f"<br><small>{line['segments']} segments</small>" if line["segments"] else ""
    rate = line["frames"] / line["seconds"] if line["seconds"] else 0.0
    return f"{line['seconds']:.1f} s<br><small>{rate:.1f} frames/s</small>{parts}"


def _unsure(line: Line) -> str:
    parts = "".join(
        f"<br><small>{part['from']:.2f}-{part['to']:.2f} s: {part['unsure']:.0%}</small>"
        for part in line["unsure_parts"][:8]
    )
    more = len(line["unsure_parts"]) - 8
    return f"{line['unsure']:.1%}{parts}" + (f"<br><small>and {more} more</small>" if more > 0 else "")


def _notes(line: Line) -> str:
    told = [*line["fallbacks"], *(f"left out: {track}" for track in line["left_out"])]
    told += [f"in one piece: {line['undivided']}"] if line["undivided"] else []
    restarts = _times(line.get("restarts", 0), "worker ended")
    return "".join(f"<br><small>{html.escape(note)}</small>" for note in told) + restarts


def _times(count: int, what: str) -> str:
    return f"<br><small>{what} {count} time{'s' * (count != 1)}</small>" if count else ""
