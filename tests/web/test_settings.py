from __future__ import annotations

import inspect
import shlex
from typing import Any

import pytest
import typer

from qrsc.cli.app import app
from qrsc.video.correct import correct_video
from qrsc.video.slowmo import slowmo_video
from qrsc.web.settings import Settings
from qrsc.web.worker import in_words_of_the_page

CHOICES: list[dict[str, Any]] = [
    {},
    {"readout": "camera", "camera": "GoPro HERO8 Black", "scan": "left-right"},
    {"readout": "milliseconds", "milliseconds": 16.67, "preset": "best", "denoise": True},
    {"readout": "gamma", "gamma": 0.5, "preset": "fast", "strength": 0.5, "border": "crop", "beside": False},
    {"slow": 4, "readout": "gamma", "gamma": 0.25, "strength": 0.5, "border": "crop"},
]


@pytest.mark.parametrize("given", CHOICES)
@pytest.mark.parametrize("name", ["clip.mp4", "my clip's.avi", "-rf.mov", "other.mpg"])
def test_the_command_has_the_arguments_of_the_call(given: dict[str, Any], name: str) -> None:
    settings = Settings.of(given)
    call = slowmo_video if settings.slows else correct_video
    bound = inspect.signature(call).bind("in", "out", **settings.arguments())
    words = shlex.split(settings.command(name))
    command: Any = typer.main.get_command(app)
    parsed = command.commands[words[1]].make_context("qrsc", words[2:]).params
    for argument, value in bound.arguments.items():
        if argument == "preset":
            assert parsed[value]
        elif argument not in ("source", "output"):
            assert parsed[argument.removesuffix("_ms")] == value
    assert parsed["source"].name == name
    assert (parsed.get("compare") is not None) == (settings.beside and not settings.slows)
    assert parsed["output"].suffix == (".mp4" if name == "other.mpg" else parsed["source"].suffix)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "settings are a JSON object; got list"),
        ({"colour": 1}, "there is no setting 'colour'; there are readout, camera"),
        ({"preset": "slow"}, "preset is one of fast, default, best; got 'slow'"),
        ({"gamma": 1.5}, "gamma is from 0 to 1; got 1.5"),
        ({"gamma": True}, "gamma is a number"),
        ({"strength": float("nan")}, "strength is a number"),
        ({"slow": 9}, "slow is from 1 to 8"),
        ({"scan": "sideways"}, "scan is one of top-down"),
        ({"denoise": "yes"}, "denoise is true or false"),
        ({"camera": "x" * 81}, "camera is a text of at most 80"),
        ({"readout": "camera"}, "choose a camera from the list"),
    ],
)
def test_other_settings_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Settings.of(given)


def test_messages_use_the_words_of_the_page() -> None:
    said = in_words_of_the_page(
        "/tmp/x/source.mp4 is odd;\n give --readout, --gamma or --camera if --scan and --progressive fail",
        {"/tmp/x/source.mp4": "clip.mp4"},
    )
    assert said == (
        "clip.mp4 is odd; give milliseconds, γ or a camera if the direction of the scan and --progressive (an option "
        "of `qrsc correct` in a terminal) fail"
    )
