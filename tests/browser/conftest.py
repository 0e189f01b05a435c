"""Tests in a real browser, Chromium or Chrome.

Without a browser, the tests are skipped with a message, or fail if CI is set. They all run in one process (their
`xdist_group`), so they share a browser and a site.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from decabench.leaderboard import write_leaderboard
from tests.leaderboard.small import results, write
from tests.leaderboard.synthetic import submissions

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# How long a page may take before a test gives up on it, in ms. It says nothing about the page: the machine may be busy.
PATIENCE = 60_000
SERVED = pytest.mark.parametrize("address", ["http"], indirect=True)
"""For tests that don't depend on whether pages come from the disk or from a server."""
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def executable() -> str:
    """Return the browser: $DECABENCH_BROWSER, else the first one on the path."""
    found = os.environ.get("DECABENCH_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        words = "no Chromium or Chrome on the path: run tools/install_browser.sh, or set DECABENCH_BROWSER"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"The browser tests must run in CI: {words}")
        pytest.skip(words)
    return str(found)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = executable()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("Playwright is not installed: pip install -e '.[dev]'")

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def site(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with eight systems, the oracle, a baseline, and two reported results, one for another split."""
    folder = tmp_path_factory.mktemp("browser")
    submissions(home, folder / "submissions", 8)
    usage = {"sst.validation": {"prompt_tokens": 11_000, "completion_tokens": 1_000}}
    stated = results("stated", 20.0, about={"predictor": {"name": "x", "usage": usage}})
    write(folder / "submissions", [stated, results("tested", 20.0, split="test")])
    write_leaderboard(folder / "submissions", folder / "site", home=home)
    return folder / "site"


@contextmanager
def serving(site: Path, kind: str) -> Iterator[str]:
    """Yield the address of a site, on disk (`file`) or on a server that runs during the block (`http`)."""
    if kind == "file":
        yield site.as_uri()
        return
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="session", params=["file", pytest.param("http", marks=pytest.mark.heavy)])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """The address of the site, on disk and on a server."""
    with serving(site, request.param) as found:
        yield found


class Watched:
    """Records the requests of a page and its faults: errors and dialogs."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.faults: list[str] = []
        self.requests: list[str] = []
        self._address = address
        context.on("request", lambda request: self._request(request.url))
        context.on("console", lambda message: self._console(message.type, message.text))
        context.on("weberror", lambda error: self.faults.append(str(error.error)))
        context.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))

    def _request(self, url: str) -> None:
        self.requests.append(url)
        if not url.startswith((self._address, "data:")):
            self.faults.append(f"request: {url}")

    def _console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """A fresh profile. Errors in the console and requests to other hosts fail the test."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    context.set_default_timeout(PATIENCE)
    context.watched = Watched(context, address)  # type: ignore[attr-defined]
    yield context
    faults = context.watched.faults  # type: ignore[attr-defined]
    context.close()
    assert faults == []


@pytest.fixture
def page(context: BrowserContext, address: str) -> Page:
    """The overview page."""
    page = context.new_page()
    page.goto(f"{address}/index.html")
    return page
