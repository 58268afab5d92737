"""A readout as the options give it, where there is no clip to find it in."""

from __future__ import annotations

from qrsc.timing import Readout, Scan


def given_readout(
    *,
    readout_ms: float | None = None,
    gamma: float | None = None,
    percent: float | None = None,
    fps: float | None = None,
    scan: Scan = "top-down",
) -> Readout:
    """The readout from the one of the first three that is given."""
    given = [value for value in (readout_ms, gamma, percent) if value is not None]
    if len(given) != 1:
        raise ValueError(
            "give the readout once: --readout (milliseconds, with --fps), --gamma (frame intervals) or --percent; "
            "qrsc calibrate finds it in a clip."
        )
    if gamma is not None:
        return Readout.from_ratio(gamma, scan)
    if percent is not None:
        return Readout.from_percent(percent, scan)
    if readout_ms is None or fps is None:
        raise ValueError("--readout is in milliseconds and needs the frame rate of the camera: add --fps.")
    return Readout.from_milliseconds(readout_ms, fps, scan)
