"""The page in a real browser, as people use it."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from qrsc.media.probe import count_frames, probe
from qrsc.video.correct import correct_video

from .clips import GAMMA, moving_clip
from .serving import Server, task_of

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytest.importorskip("playwright", reason="playwright drives the browser: pip install -e '.[dev]'")

from playwright.sync_api import expect

expect.set_options(timeout=60_000)  # the machine may be busy

DROP = """([name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name, { type: "video/mp4" }));
    const drop = document.getElementById("drop");
    for (const kind of ["dragenter", "dragover", "drop"]) {
        drop.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: transfer }));
    }
}"""
DIVIDE = """(split) => {
    for (const over of document.querySelectorAll(".handle, .label")) over.style.visibility = "hidden";
    const field = document.getElementById("split");
    field.value = split;
    field.dispatchEvent(new Event("input", { bubbles: true }));
}"""
LOADED = "() => ['before', 'after'].every((id) => document.getElementById(id).readyState >= 2)"
SHOWN = "() => { const still = document.getElementById('still'); return still.complete && still.naturalWidth > 0; }"
SOUGHT = "() => ['before', 'after'].every((id) => !document.getElementById(id).seeking)"
CLOCKS = "() => ['before', 'after'].map((id) => document.getElementById(id).currentTime)"


def drop(page: Page, path: Path) -> None:
    """Drop a file on the page, as from a file manager."""
    page.evaluate(DROP, [path.name, base64.b64encode(path.read_bytes()).decode()])


def status(page: Page, text: str) -> None:
    """Wait until the status says something."""
    expect(page.locator("#status-line")).to_contain_text(text)


def settle(page: Page) -> None:
    """Wait until both videos show the frame that was asked for."""
    page.wait_for_function(SOUGHT)
    page.wait_for_timeout(300)  # it is drawn after it was found


def by_hand(page: Page, preset: str = "fast") -> None:
    """Choose the readout of the test clips, and a preset."""
    page.check("[name=readout][value=hand]")
    page.fill("#gamma", str(GAMMA))
    page.check(f"[name=preset][value={preset}]")


def pixels(page: Page, split: int) -> npt.NDArray[np.uint8]:
    """The picture `[H, W, 3]` with the divider at a percentage, without what lies over it."""
    page.evaluate(DIVIDE, split)
    shot = page.locator("#screen").screenshot(animations="disabled")
    return np.asarray(cv2.imdecode(np.frombuffer(shot, np.uint8), cv2.IMREAD_COLOR), dtype=np.uint8)


def apart(first: npt.NDArray[np.uint8], second: npt.NDArray[np.uint8]) -> float:
    """Mean difference of two pictures, in grey levels."""
    return float(np.abs(first.astype(int) - second).mean())


def require_accessible(page: Page) -> None:
    """No rule of axe-core may be violated."""
    rules = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(rules)  # by the debugger: the page itself may run no foreign script
    found: Any = page.evaluate("() => axe.run(document, { resultTypes: ['violations'] })")
    told = [(each["id"], each["help"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
    assert not told, told


def require_fingers(page: Page) -> None:
    """A finger moves the divider, and the picture where that is enlarged."""
    box = page.locator("#screen").bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1})

    def swipe(*shares: float) -> None:
        """Put a finger on the picture, and move it to other shares of its width."""
        for number, share in enumerate(shares):
            place = {"x": box["x"] + share * box["width"], "y": box["y"] + 0.3 * box["height"]}
            kind = "touchMove" if number else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    swipe(0.4, 0.6, 0.8)
    assert float(page.input_value("#split")) == pytest.approx(80, abs=1)
    swipe(0.25)
    assert float(page.input_value("#split")) == pytest.approx(25, abs=1)
    page.locator("label:has([name=zoom][value='3'])").click()
    swipe(0.8, 0.7, 0.6)  # far from the divider
    assert float(page.input_value("#split")) == pytest.approx(25, abs=1)
    moved = page.evaluate("() => parseFloat(document.getElementById('screen').style.getPropertyValue('--x'))")
    assert moved == pytest.approx(-20, abs=1)
    page.locator("label:has([name=zoom][value='1'])").click()
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    touch.detach()


def test_a_clip_is_dropped_previewed_corrected_and_saved(page: Page, clip: Path, tmp_path: Path) -> None:
    expect(page.locator(".steps h1")).to_be_visible()
    require_accessible(page)
    drop(page, clip)
    status(page, "Ready")
    expect(page.locator("#clip-facts")).to_have_text("96 × 72 · 0.4 s · 30 fps · h264")
    page.wait_for_function(SHOWN)
    expect(page.locator("#time-best")).to_contain_text("about")

    page.click("#preview")
    status(page, "This is the preview")
    expect(page.locator("#found-from")).not_to_be_empty()
    expect(page.locator("#status-detail")).to_have_text("")  # its readout has been tested

    by_hand(page)
    page.wait_for_function("() => document.getElementById('still').src.includes('still-08')")
    page.click("#preview")
    status(page, "This is the preview")
    expect(page.locator("#found-readout")).to_contain_text("26.7 ms, γ 0.800, top to bottom")
    page.wait_for_function(LOADED)

    # The divider: before on the left, after on the right.
    page.locator("#play[aria-label=Pause]").click()
    page.fill("#seek", "300")
    page.click("#forward")
    settle(page)
    before, after, both = pixels(page, 100), pixels(page, 0), pixels(page, 50)
    middle = before.shape[1] // 2
    left, right = np.s_[12:-12, 12 : middle - 12], np.s_[12:-12, middle + 12 : -12]  # no rounded corners, no seam
    assert apart(both[left], before[left]) < 0.5 < 5 < apart(both[left], after[left])  # measured 0.0 and 9.9
    assert apart(both[right], after[right]) < 0.5 < 5 < apart(both[right], before[right])
    box = page.locator("#screen").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 60, steps=4)
    page.mouse.up()
    assert abs(float(page.input_value("#split")) - 25) <= 1
    page.keyboard.press("ArrowRight")
    assert abs(float(page.input_value("#split")) - 26) <= 1
    require_fingers(page)

    # One clock, also frame by frame.
    first = page.evaluate(CLOCKS)
    page.keyboard.press(".")
    settle(page)
    second = page.evaluate(CLOCKS)
    assert second == pytest.approx([time + 1 / 30 for time in first], abs=0.004)
    assert second[0] == pytest.approx(second[1], abs=0.002)

    # Other views show something else in the same place.
    pictures = [pixels(page, 50)]
    for name, value in (("view", "beside"), ("view", "difference"), ("zoom", "3")):
        page.locator(f"label:has([name={name}][value='{value}'])").click()
        pictures.append(pixels(page, 50))
    assert len({picture.shape for picture in pictures}) == 1
    assert len({picture.tobytes() for picture in pictures}) == 4
    require_accessible(page)

    page.click("#run")
    status(page, "Corrected. Save it below.")
    expect(page.locator("#save")).to_be_visible()
    with page.expect_download() as saving:
        page.click("#save-video")
    saving.value.save_as(tmp_path / "saved.mp4")
    assert saving.value.suggested_filename == "moving-corrected.mp4"
    correct_video(clip, tmp_path / "here.mp4", gamma=GAMMA, preset="fast")
    assert (tmp_path / "saved.mp4").read_bytes() == (tmp_path / "here.mp4").read_bytes()
    with page.expect_download() as saving:
        page.click("#save-compare")
    saving.value.save_as(tmp_path / "both.mp4")
    assert probe(tmp_path / "both.mp4").size == (72, 192)
    with page.expect_download() as saving:
        page.click("#save-json")
    told = json.loads(Path(saving.value.path()).read_text())
    assert (told["gamma"], told["frames"], told["source"]) == (GAMMA, 12, "moving.mp4")
    command = page.inner_text("#command")
    assert command == told["command"] == (
        "qrsc correct moving.mp4 -o moving-corrected.mp4 --gamma 0.8 --fast --compare moving-side-by-side.mp4"
    )  # fmt: skip
    require_accessible(page)


def test_a_run_goes_on_without_its_page_is_cancelled_and_run_again(page: Page, server: Server, tmp_path: Path) -> None:
    page.set_input_files("#choose", moving_clip(tmp_path / "long.mp4", 40))
    status(page, "Ready")
    by_hand(page, "best")
    page.click("#run")
    (key,) = (clip["key"] for clip in server.state()["clips"])

    def after(frames: int) -> int:
        """The frames that are done, as soon as they are more than so many."""
        state = server.wait(lambda state: task_of(state, key, "run").get("progress", {}).get("done", 0) > frames)
        done: int = task_of(state, key, "run")["progress"]["done"]
        return done

    done = after(0)
    with server.held():
        expect(page.locator("#thumbnail")).to_be_visible()
        page.goto("about:blank")  # the browser goes away
    after(done)
    with server.held():
        page.goto(server.address)
        status(page, "Correcting")
        expect(page.locator("#status-detail")).to_contain_text("of 40 frames")
        assert page.locator("[name=preset]:checked").input_value() == "best"  # the form is as it was
        with page.expect_response("**/run/cancel"):
            page.click("#cancel")
    status(page, "The clip was cancelled")
    assert not list(server.private.glob("*/run-*"))
    page.check("[name=preset][value=fast]")
    page.select_option("#slow", "2")
    page.click("#run")
    status(page, "Corrected")
    expect(page.locator("#save-compare")).to_be_hidden()
    with page.expect_download() as saving:
        page.click("#save-video")
    assert count_frames(Path(saving.value.path())) == 79
    assert page.inner_text("#command").startswith(
        "qrsc slowmo long.mp4 -o long-corrected.mp4 --gamma 0.8 --fast --factor 2"
    )


def test_several_clips_wait_for_each_other_and_a_bad_one_is_named(page: Page, clip: Path, tmp_path: Path) -> None:
    bad = tmp_path / "notes.mp4"
    bad.write_text("this is no video")
    drop(page, bad)
    status(page, "notes.mp4 cannot be read as a video")
    expect(page.locator("#status-detail")).to_have_text("Remove it and add another one.")
    expect(page.locator("#run")).to_be_disabled()
    page.click("[aria-label='Remove notes.mp4']")
    expect(page.locator(".steps h1")).to_be_visible()

    second = moving_clip(tmp_path / "second.mp4", 30, seed=1)
    page.set_input_files("#choose", [second, clip])
    expect(page.locator(".clip-state")).to_have_text(["Ready", "Ready"])
    for name in ("second.mp4", "moving.mp4"):
        page.locator(".clip-open", has_text=name).click()
        by_hand(page)
        page.click("#run")
    expect(page.locator(".clip-state")).to_have_text(["Corrected", "Corrected"])

    # A camera by name, searched while it is typed.
    page.check("[name=readout][value=camera]")
    page.click("#run")
    expect(page.locator(".message")).to_contain_text("Choose a camera")
    page.locator("#camera").press_sequentially("hero 8 bl")
    expect(page.locator("#cameras [role=option]")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.input_value("#camera") == "GoPro HERO8 Black"
    page.click("#run")
    status(page, "No readout time is known for 'GoPro HERO8 Black' recording 96x72")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone_and_a_large_screen(page: Page, clip: Path, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    drop(page, clip)
    status(page, "Ready")
    for width in (390, 1280, 2560):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        require_accessible(page)
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(18, 24, 26)"
    assert dark == (scheme == "dark")
