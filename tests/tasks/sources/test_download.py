"""Every way in which a server can fail, with the number and kind of requests that it takes."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, StorageError
from decabench.tasks.sources.download import Downloads, Network, TransferError
from decabench.tasks.task import RemoteFile
from tests.tasks.sources.build import git_blob, pinned, sha256
from tests.tasks.sources.server import Fault, FileServer

DATA = "data.json"
CUT = 100_000


@pytest.fixture
def downloads(tmp_path: Path, hasty: Network) -> Downloads:
    return Downloads(tmp_path / "raw", hasty)


def fetch(downloads: Downloads, server: FileServer, file: RemoteFile | None = None) -> bytes:
    file = file or pinned(server.folder / DATA)
    downloads.fetch(file, f"{server.url}/{DATA}")
    return downloads.path(file).read_bytes()


def is_whole(content: bytes, server: FileServer) -> bool:
    return content == (server.folder / DATA).read_bytes()


def part(downloads: Downloads) -> Path:
    return downloads.folder / ".incoming" / f"{DATA}.part"


def test_whole_file_takes_one_request(downloads: Downloads, server: FileServer) -> None:
    assert is_whole(fetch(downloads, server), server)
    assert [(seen.method, seen.range, seen.status) for seen in server.seen] == [("GET", None, 200)]
    assert server.seen[0].encoding == "identity"
    assert sorted(path.name for path in downloads.folder.iterdir()) == [".incoming", DATA, f"{DATA}.json"]
    assert list((downloads.folder / ".incoming").iterdir()) == []


def test_cut_transfer_goes_on_where_it_broke_off(downloads: Downloads, server: FileServer) -> None:
    server.faults[DATA] = [Fault(cut=CUT), Fault(cut=CUT)]
    assert is_whole(fetch(downloads, server), server)
    first, second, third = server.seen
    assert (first.range, second.range, third.range) == (None, f"bytes={CUT}-", f"bytes={2 * CUT}-")
    assert server.statuses() == [200, 206, 206]
    assert second.if_range == third.if_range == f'"{sha256(server.folder / DATA)}"'


def test_always_cut_gives_up_after_the_resumes(downloads: Downloads, server: FileServer) -> None:
    server.ranges = False
    server.always[DATA] = Fault(cut=CUT)
    with pytest.raises(TransferError, match="the connection was lost, 4 times"):
        fetch(downloads, server)
    assert server.statuses() == [200] * 4
    assert part(downloads).stat().st_size == CUT
    assert not (downloads.folder / DATA).exists()


def test_file_that_changed_meanwhile_starts_over(downloads: Downloads, server: FileServer) -> None:
    server.always[DATA] = Fault(cut=10_000)
    with pytest.raises(TransferError):
        fetch(downloads, server)
    server.always.clear()
    server.seen.clear()
    (server.folder / DATA).write_bytes(b"new" * 50_000)
    assert fetch(downloads, server, RemoteFile(DATA)) == b"new" * 50_000
    assert [(seen.range, seen.status) for seen in server.seen] == [("bytes=40000-", 200)]


def test_damaged_part_is_dropped_and_fetched_once_more(downloads: Downloads, server: FileServer) -> None:
    leave_part(downloads, server, b"x" * CUT)
    assert is_whole(fetch(downloads, server), server)
    assert [(seen.range, seen.status) for seen in server.seen] == [(f"bytes={CUT}-", 206), (None, 200)]


def leave_part(downloads: Downloads, server: FileServer, content: bytes) -> None:
    """What a killed run leaves."""
    server.faults[DATA] = [Fault(cut=10)] * 4
    with pytest.raises(TransferError):
        fetch(downloads, server)
    part(downloads).write_bytes(content)
    server.seen.clear()


def test_too_little_space_is_reported_before_the_transfer(
    downloads: Downloads, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(StorageError, match=r"307,200 bytes are needed, 1,000 are free"):
        fetch(downloads, server)


@pytest.mark.parametrize(("status", "requests"), [(500, 4), (502, 4), (504, 4), (429, 4), (403, 1), (404, 1)])
def test_lasting_refusal(downloads: Downloads, server: FileServer, status: int, requests: int) -> None:
    server.always[DATA] = Fault(status)
    with pytest.raises(TransferError, match=f"HTTP {status}"):
        fetch(downloads, server)
    assert server.statuses() == [status] * requests


def test_wrong_bytes_are_fetched_twice_and_refused(downloads: Downloads, server: FileServer) -> None:
    server.always[DATA] = Fault(wrong=True)
    expected = sha256(server.folder / DATA)
    with pytest.raises(DataError, match=f"sha256 [0-9a-f]{{64}}, expected {expected}"):
        fetch(downloads, server)
    assert [(seen.range, seen.status) for seen in server.seen] == [(None, 200), (None, 200)]
    assert [path for path in downloads.folder.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("kind", ["sha256", "md5", "git_blob"])
def test_every_pin_is_checked(downloads: Downloads, server: FileServer, kind: str) -> None:
    content = (server.folder / DATA).read_bytes()
    good = {"sha256": sha256(server.folder / DATA), "git_blob": git_blob(content)}
    pins: dict[str, Any] = good | {kind: "0" * (32 if kind == "md5" else len(good[kind]))}
    with pytest.raises(DataError, match=f"{kind} [0-9a-f]+, expected 0"):
        fetch(downloads, server, RemoteFile(DATA, **pins))


def test_encoding_that_is_the_file_itself_is_kept(downloads: Downloads, server: FileServer) -> None:
    archive = server.folder / "archive.tgz"
    archive.write_bytes(gzip.compress(b"members"))
    server.faults["archive.tgz"] = [Fault(headers={"Content-Encoding": "x-gzip"})]
    file = pinned(archive)
    downloads.fetch(file, f"{server.url}/archive.tgz")
    assert downloads.path(file).read_bytes() == archive.read_bytes()


def test_no_such_host(downloads: Downloads) -> None:
    with pytest.raises(TransferError, match="name"):
        downloads.fetch(RemoteFile(DATA), "http://nowhere.invalid/data.json")


def test_no_secret_in_notes(downloads: Downloads, server: FileServer) -> None:
    server.faults[DATA] = [Fault(cut=CUT)]
    downloads.fetch(pinned(server.folder / DATA), f"http://me:secret@{server.host}/{DATA}")
    assert server.seen[0].authorization is not None
    assert server.statuses() == [200, 206]
    assert "secret" not in (downloads.folder / f"{DATA}.json").read_text()
