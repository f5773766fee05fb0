"""Draw the pictures of the explorer: `make pictures`. Needs the development environment and Debian's chromium."""

import io
import shutil
import threading
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from sash.explore.server import Server

HERE = Path(__file__).parent
# Steps of the first story in the picture sequence of the README, and how long each is shown. The last one has a table.
SEQUENCE = {
    2: 1200,
    4: 1400,
    5: 1600,
    6: 2400,
    7: 2400,
    8: 2200,
    9: 2200,
    10: 3200,
    11: 3000,
    16: 2400,
    17: 2800,
    18: 4000,
}

# In the sequence only the caption, the window and its tree are shown, and the table.
WITHOUT_FRAME = """() => {
  const rest = "header, aside section:not(.first), #story-intro, #story-end, .zoom";
  for (const one of document.querySelectorAll(rest)) one.hidden = true;
  const table = document.querySelector("#distances-panel.first");
  if (!table) document.querySelector("main").style.gridTemplateColumns = "1fr";
  window.dispatchEvent(new Event("resize"));
}"""


def story_step(page: Any, url: str, story: str, step: int) -> None:
    """Show a step of a story."""
    page.goto(f"{url}?story={story}&step={step}")
    page.wait_for_selector(".stage .numbers")
    page.evaluate("explorer.state.busy")
    page.wait_for_timeout(150)


def late(page: Any, url: str) -> None:
    """Draw an entry that is late by four."""
    story_step(page, url, "first-steps", 10)
    page.locator("main").screenshot(path=str(HERE / "explorer-late.png"))


def race(page: Any, url: str) -> None:
    """Draw a race by hand, with what distance costs."""
    page.goto(f"{url}?structure=paper&rival=classic")
    page.wait_for_selector(".stage .numbers")
    page.select_option("#monoid", "sum")
    page.evaluate("explorer.state.busy")
    page.fill("#fill-count", "10000")
    for name in ("fill", "insert-late", "distances"):
        page.click(f"#{name}")
        page.evaluate("explorer.state.busy")
    page.mouse.move(2, 2)
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(150)
    page.screenshot(path=str(HERE / "explorer-race.png"), full_page=True)


def sequence(page: Any, url: str) -> None:
    """Draw the picture sequence of the README: the first story, with its captions."""
    frames = []
    for step in SEQUENCE:
        story_step(page, url, "first-steps", step)
        page.evaluate(WITHOUT_FRAME)
        page.wait_for_timeout(250)
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    size = (frames[0].width * 4 // 5, frames[0].height * 4 // 5)
    small = [frame.resize(size, Image.Resampling.LANCZOS).quantize(128, dither=Image.Dither.NONE) for frame in frames]
    small[0].save(
        HERE / "explorer.gif", save_all=True, append_images=small[1:], duration=list(SEQUENCE.values()), loop=0
    )


def main() -> None:
    """Draw all of them."""
    with Server() as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for draw, wide, high in ((late, 1240, 760), (race, 1400, 900), (sequence, 1080, 660)):
            page = chromium.new_page(viewport={"width": wide, "height": high}, reduced_motion="reduce")
            draw(page, server.url)
        chromium.close()
        server.shutdown()


if __name__ == "__main__":
    main()
