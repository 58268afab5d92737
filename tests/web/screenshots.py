"""Pictures of the page for the manual, from a simulated clip: `python -m tests.web.screenshots [CLIP] [FOLDER]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np

from .clips import street_clip
from .conftest import browsing
from .serving import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[2] / "docs" / "images"
PATIENCE = 600_000  # milliseconds


def take(page: Page, path: Path) -> None:
    """Write what a page shows as a JPEG."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)
    pixels = cv2.imdecode(np.frombuffer(page.screenshot(), np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    if pixels.shape[1] > 1600:
        pixels = cv2.resize(pixels, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    cv2.imwrite(str(path), pixels, [cv2.IMWRITE_JPEG_QUALITY, 80, cv2.IMWRITE_JPEG_OPTIMIZE, 1])


def stop_at(page: Page, seconds: float) -> None:
    """Show one instant of both videos."""
    page.wait_for_function("() => document.getElementById('after').readyState >= 2", timeout=PATIENCE)
    page.locator("#play[aria-label=Pause]").click()
    page.evaluate(
        """(share) => {
            const seek = document.getElementById("seek");
            seek.value = 1000 * share;
            seek.dispatchEvent(new Event("input", { bubbles: true }));
        }""",
        seconds / page.evaluate("() => document.getElementById('after').duration"),
    )


def walk(browser: Browser, address: str, clip: Path, folder: Path) -> None:
    """Add a clip, look at a preview, try gammas by hand, correct it, and take pictures on the way."""
    with browser.new_context(viewport={"width": 1280, "height": 860}) as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(address)
        take(page, folder / "web_start.jpg")
        page.set_input_files("#choose", clip)
        page.locator("#status-line", has_text="Ready").wait_for()
        page.click("#preview")
        page.locator("#status-line", has_text="This is the preview").wait_for()
        stop_at(page, 0.7)
        take(page, folder / "web_preview.jpg")
        page.check("[name=readout][value=hand]")
        page.fill("#gamma", "0.6")
        page.locator("#still-label", has_text="0.6").wait_for()
        take(page, folder / "web_by_hand.jpg")
        page.check("[name=readout][value=find]")
        page.check("[name=preset][value=fast]")
        page.click("#run")
        page.locator("#status-line", has_text="Corrected").wait_for()
        stop_at(page, 0.7)
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 1280, "height": 1720})
        take(page, folder / "web_result.jpg")
        page.emulate_media(color_scheme="light")
        for width, height in ((390, 844), (2560, 1300)):
            page.set_viewport_size({"width": width, "height": height})
            take(page, folder / f"web_{width}.jpg")


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as scratch, browsing() as browser:
        clip = Path(sys.argv[1]) if len(sys.argv) > 1 else street_clip(Path(scratch) / "street.mp4")
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
        with serving(Path(scratch) / "served") as server:
            walk(browser, server.address, clip, folder)


if __name__ == "__main__":
    main()
