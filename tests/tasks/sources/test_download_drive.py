"""Google Drive's confirmation page, played by a server on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from decabench.tasks.sources.download import Downloads
from decabench.tasks.sources.network import Network, TransferError
from tests.tasks.sources.build import pinned
from tests.tasks.sources.server import Fault, FileServer

FORM = """<!DOCTYPE html><html><body><form id="other"><input type="hidden" name="x" value="y"></form>
<form id="download-form" action="https://elsewhere.invalid/download" method="get">
<input type="submit" value="Download anyway"/><input type="hidden" name="id" value="abc">
<input type="hidden" name="confirm" value="t"><input type="hidden" name="uuid" value="u-1">
</form></body></html>"""
QUOTA = "<!DOCTYPE html><html><body>Too many users have viewed or downloaded this file</body></html>"


def play_drive(server: FileServer, page: str, needed: dict[str, str]) -> list[dict[str, str]]:
    """Lets the server answer as Drive does; returns the list of confirmed queries."""
    queries: list[dict[str, str]] = []

    def download(query: dict[str, str]) -> str | Path:
        queries.append(query)
        return server.folder / "data.json" if needed.items() <= query.items() else QUOTA

    server.pages |= {"uc": lambda query: page, "download": download}
    return queries


def test_form_is_answered(tmp_path: Path, server: FileServer, hasty: Network) -> None:
    queries = play_drive(server, FORM, {"id": "abc", "confirm": "t", "uuid": "u-1"})
    server.faults["download"] = [Fault(cut=1000)]
    file = pinned(server.folder / "data.json")
    downloads = Downloads(tmp_path / "raw", hasty)
    downloads.fetch(file, f"{server.url}/uc?export=download&id=abc")
    assert downloads.path(file).read_bytes() == (server.folder / "data.json").read_bytes()
    assert queries[0] == {"export": "download", "id": "abc", "confirm": "t", "uuid": "u-1"}
    assert [(seen.path, seen.range, seen.status) for seen in server.seen] == [
        ("uc", None, 200),
        ("download", None, 200),
        ("uc", "bytes=1000-", 200),
        ("download", "bytes=1000-", 206),
    ]


def test_page_without_a_form_is_confirmed_all_the_same(
    tmp_path: Path, server: FileServer, hasty: Network
) -> None:
    play_drive(server, "<html>something new</html>", {"id": "abc", "confirm": "t"})
    file = pinned(server.folder / "data.json")
    Downloads(tmp_path / "raw", hasty).fetch(file, f"{server.url}/uc?export=download&id=abc")
    assert server.statuses() == [200, 200]


def test_quota_page_is_told(tmp_path: Path, server: FileServer, hasty: Network) -> None:
    play_drive(server, FORM, {"id": "another"})
    file = pinned(server.folder / "data.json")
    with pytest.raises(TransferError, match="a web page was sent instead of the file"):
        Downloads(tmp_path / "raw", hasty).fetch(file, f"{server.url}/uc?export=download&id=abc")


def test_file_that_comes_at_once_needs_no_confirmation(
    tmp_path: Path, server: FileServer, hasty: Network
) -> None:
    server.pages["uc"] = lambda query: server.folder / "data.json"
    file = pinned(server.folder / "data.json")
    Downloads(tmp_path / "raw", hasty).fetch(file, f"{server.url}/uc?export=download&id=abc")
    assert server.statuses() == [200]
