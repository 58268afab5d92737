"""Every metric, in one table: what it is called, what it measures, which way is better, how it is printed.

Nothing here imports torch, so that the help of the commands can name the metrics. A new metric is one entry of
`METRICS`; tables, charts and help follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from qrsc.evaluate.metrics.measures import Measure

Direction = Literal["higher", "lower", "nearest 1"]


@dataclass(frozen=True)
class Figure:
    """One column of the tables.

    Attributes:
        heading: of the column.
        about: what it measures, with its unit, for the line below a table.
        better: which values are better.
        places: decimal places in a table to be read.
        chart: title of the bar chart, with the unit; None draws none.
        compared: `qrsc generalise` compares checkpoints by it, as a ratio: higher or lower must be better.
    """

    heading: str
    about: str
    better: Direction
    places: int = 2
    chart: str | None = None
    compared: bool = False

    def __post_init__(self) -> None:
        if self.compared and self.better == "nearest 1":
            raise ValueError(f"{self.heading} is best at 1: a ratio of two values does not say which one is better.")


@dataclass(frozen=True)
class Metric:
    """What can be asked for by one name.

    Attributes:
        figures: that it gives, by the names that they have in CSV and JSON.
        load: makes the function that measures. It raises `ValueError` where a package or weights are missing.
        default: it is measured where nothing is asked for.
        in_order: it compares consecutive frames, and must see them in order.
        extra: the optional dependencies that it needs, as in `pip install 'qrsc[EXTRA]'`.
    """

    figures: dict[str, Figure]
    load: Callable[[], Measure]
    default: bool = False
    in_order: bool = False
    extra: str | None = None


def _measure(function: str) -> Callable[[], Measure]:
    """A function of `qrsc.evaluate.metrics.measures`, imported when it is needed."""

    def load() -> Measure:
        found: Measure = getattr(import_module("qrsc.evaluate.metrics.measures"), function)
        return found

    return load


def _of_pictures(figure: str, place: str, *, loader: bool = False) -> Callable[[], Measure]:
    """A figure of one picture against its truth, imported when it is needed.

    Args:
        figure: its name.
        place: `file:function` in `qrsc.evaluate.metrics`; the function takes a picture and its truth, `[3, H, W]` each,
            and returns the figure.
        loader: the function takes nothing, returns such a function, and raises where something is not installed.
    """

    def load() -> Measure:
        from qrsc.evaluate.metrics.measures import of_pictures

        file, _, name = place.partition(":")
        function = getattr(import_module(f"qrsc.evaluate.metrics.{file}"), name)
        return of_pictures(figure, function() if loader else function)

    return load


METRICS: dict[str, Metric] = {
    "psnr": Metric(
        {
            "psnr": Figure(
                "PSNR",
                "PSNR in dB on [0, 1] rounded to 8 bits, all pixels",
                "higher",
                chart="PSNR, dB",
                compared=True,
            )
        },
        _measure("measure_psnr"),
        default=True,
    ),
    "ssim": Metric(
        {
            "ssim": Figure(
                "SSIM",
                "SSIM with an 11x11 Gaussian window of sigma 1.5",
                "higher",
                places=4,
                chart="SSIM",
                compared=True,
            )
        },
        _measure("measure_ssim"),
        default=True,
    ),
    "masks": Metric(
        {
            "psnr_seen": Figure(
                "seen",
                "PSNR over the pixels that the rolling-shutter frame shows",
                "higher",
                chart="PSNR, dB, pixels that the frame shows",
            ),
            "psnr_unseen": Figure("unseen", "PSNR over those that it does not", "higher"),
        },
        _measure("measure_masks"),
        default=True,
    ),
    "fields": Metric(
        {
            "psnr_border": Figure("border", "PSNR over pixels that came from outside the frame", "higher"),
            "psnr_occlusion": Figure("occluded", "PSNR over pixels that were hidden behind something", "higher"),
            "epe": Figure(
                "EPE", "mean distance of the correction field from the true one, px", "lower", chart="EPE, px"
            ),
            "bend": Figure(
                "bend", "root mean square distance of straight lines from straight, px", "lower", chart="bend, px"
            ),
        },
        _measure("measure_fields"),
        default=True,
    ),
    "detail": Metric(
        {
            "detail": Figure(
                "detail",
                "variance of luma minus its Gaussian blur of sigma 1.5 px, over that of the truth; 1 is right",
                "nearest 1",
                chart="detail",
            )
        },
        _of_pictures("detail", "detail:detail"),
        default=True,
    ),
    "st-lpips": Metric(
        {
            "st_lpips": Figure(
                "ST-LPIPS", "ST-LPIPS (shift-tolerant) with AlexNet", "lower", places=4, chart="ST-LPIPS", compared=True
            )
        },
        _of_pictures("st_lpips", "st_lpips:load_st_lpips", loader=True),
        extra="perceptual",
    ),
    "lpips": Metric(
        {"lpips": Figure("LPIPS", "LPIPS with AlexNet", "lower", places=4, chart="LPIPS", compared=True)},
        _of_pictures("lpips", "lpips:load_lpips", loader=True),
        extra="lpips",
    ),
    "warping": Metric(
        {
            "warping": Figure(
                "warping",
                "root mean square difference of consecutive frames along the truth's motion, grey levels",
                "lower",
            )
        },
        _measure("measure_warping"),
        in_order=True,
    ),
    "flicker": Metric(
        {
            "flicker": Figure(
                "flicker",
                "root mean square change of luma that the truth does not have, on its steady tracks, grey levels",
                "lower",
                chart="flicker, grey levels",
            )
        },
        _measure("measure_flicker"),
        in_order=True,
    ),
}
DEFAULT_METRICS: tuple[str, ...] = tuple(name for name, metric in METRICS.items() if metric.default)
# Of methods, not of frames: measured if they are asked for, and no metrics.
COSTS: dict[str, Figure] = {
    "parameters": Figure("M weights", "millions of weights, those of the optical flow included", "lower"),
    "gflop": Figure("GFLOP", "1e9 operations of networks for a frame, optical flow included", "lower", places=1),
    "milliseconds": Figure("ms", "milliseconds for a frame, optical flow included, one method at a time", "lower", 1),
}
FIGURES: dict[str, Figure] = {
    **{name: figure for metric in METRICS.values() for name, figure in metric.figures.items()},
    **COSTS,
}


def require_metrics(names: Sequence[str]) -> None:
    """Raise `ValueError` unless there is at least one name, and all are known."""
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise ValueError(f"unknown metrics {', '.join(unknown) or '(none)'}; choose from {', '.join(METRICS)}.")
