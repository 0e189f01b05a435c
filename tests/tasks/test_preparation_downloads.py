"""From a server to splits: what was cut is refused or said, and what could not be read is downloaded again."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.preparation import SAMPLE_FOLDER, Request, describe_missing, prepare_task
from decabench.tasks.registry import TASKS
from decabench.tasks.store import SplitRecord, Store
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.sources.server import FileServer, RawServer

Requests = Callable[..., Request]
ROWS = (SAMPLE_FOLDER / "sst" / "dev_binary_sent.csv").read_bytes()
CUT = b"".join(ROWS.splitlines(keepends=True)[:19])


def serve(*bodies: bytes, length: bool) -> RawServer:
    """A mirror with one file and nothing else."""
    waiting = list(bodies)

    def script(connection: socket.socket) -> None:
        path = server.requests[-1].split()[1]
        if not path.endswith(b".csv"):
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        told = b"Content-Length: %d\r\n" % len(body) if length else b""
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + told + b"Connection: close\r\n\r\n" + body)

    server = RawServer([script])
    return server


def test_cut_where_no_length_tells(request_for: Requests) -> None:
    """18 of 32 rows were prepared, exit 0."""
    with serve(CUT, length=False) as server:
        with pytest.raises(MissingDataError, match=rf"the connection ended after {len(CUT):,} bytes"):
            prepare_task(TASKS["sst"], request_for(mirror=server.url, split="validation"))


def test_upstream_without_a_digest_is_counted(request_for: Requests, published_sst: FileServer) -> None:
    url = f"{published_sst.url}/dev_binary_sent.csv"
    file = RemoteFile("dev_binary_sent.csv", (url,))
    form = Source("csv", {"validation": (file,)}, TASKS["sst"].sources[0].read)
    request = request_for(split="validation")
    with pytest.raises(DataError) as caught:
        prepare_task(replace(TASKS["sst"], sources=(form,)), request)
    assert str(caught.value) == (
        "dev_binary_sent.csv: 32 of the 872 examples of sst, validation, are there, 840 are missing; "
        "fetch again with --force."
    )
    assert not Store(request.home).path("sst", "validation").exists()
    counted = replace(form, counts={"validation": 32})
    assert prepare_task(replace(TASKS["sst"], sources=(counted,)), request)["validation"].rows == 32


@pytest.fixture
def published_sst():  # type: ignore[no-untyped-def]
    with FileServer(SAMPLE_FOLDER / "sst") as server:
        yield server


def record(rows: int, origin: str = "mirror", status: str = "mirror-differs") -> SplitRecord:
    file = {"name": "dev.csv", "status": status}
    return SplitRecord(rows, "sha256:", origin, "upstream csv", False, (file,), 1)


def test_what_is_missing_is_said() -> None:
    sst = TASKS["sst"]
    assert describe_missing(sst, "validation", record(872)) == ""
    assert describe_missing(sst, "validation", record(32, "sample")) == ""
    assert describe_missing(sst, "validation", record(1)) == (
        "validation has 1 of the 872 published examples (dev.csv is not the published file)"
    )
    assert describe_missing(sst, "validation", record(873, status="verified")) == (
        "validation has 873 examples, 1 more than published (dev.csv)"
    )
