"""Take the screenshots for the README and the docs: python tools/make_pictures.py HOME

HOME contains the prepared data of `submissions/` (decabench prepare --mirror MIRROR --home HOME). Run `make demo`
first. Needs Playwright and Chromium or Chrome.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import io
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SOURCES = IMAGES / "sources.json"
"""The scores that the board's picture shows, and a digest of the files that the pictures are made from."""
SHOWN = (
    "submissions/*/submission.toml",
    "submissions/*/predictions/*",
    "examples/demo-model/answers/submission.toml",
    "examples/demo-model/answers/predictions/*",
    "examples/run.toml",
)
"""The files that the pictures are made from."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@dataclass(frozen=True)
class Picture:
    """A screenshot."""

    name: str
    """The file name in docs/images."""
    page: str
    """The path of the page, including query and fragment."""
    height: int
    """The height in CSS pixels. The width is 1,280."""
    dark: bool = False
    """Whether to use the dark theme."""
    choices: Mapping[str, str] | None = None
    """Form fields to set before taking the screenshot, by CSS selector."""


PICTURES = (
    Picture("board.png", "board/index.html", 640),
    Picture("compare.png", "board/compare.html", 860, dark=True),
    Picture("show.png", "show/index.html", 760, choices={"select[name=kind]": "wrong"}),
)


def digest_sources() -> str:
    """Return the SHA-256 digest of the files that the pictures are made from, with their paths."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in SHOWN for path in ROOT.glob(pattern)):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(ROOT).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def write_sources(board: Path) -> None:
    """Write `SOURCES` from the board's table."""
    with board.open(encoding="utf-8", newline="") as file:
        scores = {row["name"]: row["total"] for row in csv.DictReader(file) if row["rank"]}
    SOURCES.write_text(
        json.dumps({"scores": scores, "digest": digest_sources()}, indent=2) + "\n", encoding="utf-8"
    )


def decabench(*arguments: str | Path) -> None:
    """Run a decabench command from this checkout."""
    subprocess.run([sys.executable, "-m", "decabench", *map(str, arguments)], cwd=ROOT, check=True)


def terminal_page(folder: Path) -> Path:
    """Return a page with the output of `decabench run examples/run.toml` in an 80-column terminal."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "decabench", "run", "examples/run.toml"]
    environment = {**os.environ, "DECABENCH_HOME": ".demo/home", "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=inside, stderr=subprocess.DEVNULL
    ) as process:
        os.close(inside)
        printed = b""
        while True:
            try:
                block = os.read(terminal, 1 << 16)
            except OSError:  # on Linux, reading fails once the program has exited
                break
            if not block:
                break
            printed += block
    os.close(terminal)
    if process.returncode:
        sys.exit(f"{' '.join(command)} exited with {process.returncode}")
    console = Console(record=True, width=80, file=io.StringIO())
    console.print("$ decabench run examples/run.toml", highlight=False)
    shown = printed.decode().replace("\r\n", "\n").replace(ROOT.as_uri(), "file:///home/you/decabench")
    console.print(Text.from_ansi(shown.rstrip()))
    picture = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="80 columns"), flags=re.DOTALL)
    page = folder / "terminal.html"
    page.write_text(f'<body style="margin:0">{picture}</body>', encoding="utf-8")
    return page


def main(home: Path) -> None:
    demo = ROOT / ".demo" / "submissions" / "demo-model"
    if not demo.exists():
        sys.exit(f"There is no {demo}: run make demo first.")
    browser = os.environ.get("DECABENCH_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder)
        decabench(
            *("leaderboard", "--submissions", ROOT / "submissions", "--output", pages / "board"),
            *("--suite", "decathlon", "--home", home),
        )
        decabench(
            *("show", demo, "--task", "squad", "--wrong", "--output", pages / "show"),
            *("--home", ROOT / ".demo" / "home"),
        )
        terminal = terminal_page(pages)
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(
                executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
            )
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
            take_terminal(chromium, terminal)
            chromium.close()
        write_sources(pages / "board" / "board.csv")
    print(f"Pictures: {', '.join(sorted(path.name for path in IMAGES.glob('*.png')))}")


def take_terminal(chromium: Browser, page: Path) -> None:
    """Save a full-size picture of the terminal page."""
    tab = chromium.new_page(viewport={"width": 1100, "height": 900})
    tab.goto(f"file://{page}")
    box = tab.locator("svg").first.bounding_box()
    assert box is not None
    tab.screenshot(path=IMAGES / "run.png", clip=box, full_page=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
