"""Takes the pictures of the README and the docs from pages as they are now: python tools/make_pictures.py HOME

HOME holds the prepared data of `submissions/` (decabench prepare --mirror MIRROR --home HOME), so that its board is
verified. The page of `decabench show` is that of `make demo`, which must have run.
Needs Playwright and Chromium or Chrome.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclass(frozen=True)
class Picture:
    """One screenshot."""

    name: str
    """Its file in docs/images."""
    page: str
    """The page, in the folder of all pages, and what follows it in the address."""
    height: int
    """Pixels from the top, of 1,280 in width; twice as many are taken."""
    dark: bool = False
    """Whether it is taken in the dark theme."""
    choices: Mapping[str, str] | None = None
    """Fields to set first, by CSS selector."""


PICTURES = (
    Picture("board.png", "board/index.html", 640),
    Picture("compare.png", "board/compare.html", 860, dark=True),
    Picture("show.png", "show/index.html", 760, choices={"select[name=kind]": "wrong"}),
)


def decabench(*arguments: str | Path) -> None:
    """Run a command of this checkout."""
    subprocess.run([sys.executable, "-m", "decabench", *map(str, arguments)], cwd=ROOT, check=True)


def main(home: Path) -> None:
    demo = ROOT / ".demo" / "submissions" / "demo-model"
    if not demo.exists():
        sys.exit(f"There is no {demo}: run make demo first.")
    browser = os.environ.get("DECABENCH_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pages = Path(folder)
        decabench(
            *("leaderboard", "--submissions", ROOT / "submissions", "--output", pages / "board"),
            *("--suite", "decathlon", "--home", home),
        )
        decabench(
            *("show", demo, "--task", "squad", "--wrong", "--output", pages / "show"),
            *("--home", ROOT / ".demo" / "home"),
        )
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"])
        for picture in PICTURES:
            page = chromium.new_page(
                viewport={"width": 1280, "height": picture.height},
                device_scale_factor=2,
                color_scheme="dark" if picture.dark else "light",
            )
            page.goto(f"file://{pages / picture.page}")
            for selector, value in (picture.choices or {}).items():
                page.select_option(selector, value)
            page.wait_for_timeout(500)
            page.screenshot(path=IMAGES / picture.name)
            print(IMAGES / picture.name)
        chromium.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
