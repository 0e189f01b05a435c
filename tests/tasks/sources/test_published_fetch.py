"""Which source is taken, from where, and what is said of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.sources.download import Downloads, Network
from decabench.tasks.sources.published import SourceFiles, fetch, fetch_from_mirror
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.sources.build import no_reader, pinned, sha256, source
from tests.tasks.sources.server import Fault, FileServer

DATA = "data.json"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return tmp_path / "home" / "raw" / "task"


@pytest.fixture
def downloads(raw: Path, hasty: Network) -> Downloads:
    return Downloads(raw, hasty)


@pytest.fixture
def data(server: FileServer) -> RemoteFile:
    return pinned(server.folder / DATA, f"{server.url}/{DATA}")


def content(fetched: SourceFiles, name: str = DATA) -> bytes:
    return fetched.files.path(name).read_bytes()


def test_verified(downloads: Downloads, server: FileServer, data: RemoteFile) -> None:
    fetched = fetch("task", [source(data)], ["train"], downloads)
    assert content(fetched) == (server.folder / DATA).read_bytes()
    (record,) = fetched.records
    assert asdict(record) == {
        "name": DATA,
        "url": f"{server.url}/{DATA}",
        "sha256": data.sha256,
        "size": 307_200,
        "status": "verified",
    }
    assert (fetched.source.name, fetched.missing) == ("upstream", ())


def test_second_run_asks_nothing(downloads: Downloads, server: FileServer, data: RemoteFile) -> None:
    for file in (data, replace(data, sha256=None)):
        sources = [source(file)]
        first = fetch("task", sources, ["train"], downloads)
        server.seen.clear()
        assert fetch("task", sources, ["train"], downloads).records == first.records
        assert server.seen == []


def test_damaged_file_is_fetched_again(
    raw: Path, downloads: Downloads, server: FileServer, data: RemoteFile
) -> None:
    fetch("task", [source(data)], ["train"], downloads)
    (raw / DATA).write_bytes(b"damaged")
    assert content(fetch("task", [source(data)], ["train"], downloads)) != b"damaged"
    assert server.statuses() == [200, 200]


def test_force_fetches_again(downloads: Downloads, server: FileServer, data: RemoteFile) -> None:
    unpinned = [source(replace(data, sha256=None))]
    fetch("task", unpinned, ["train"], downloads)
    (server.folder / DATA).write_bytes(b"a new edition")
    assert content(fetch("task", unpinned, ["train"], downloads)) != b"a new edition"
    assert content(fetch("task", unpinned, ["train"], replace(downloads, force=True))) == b"a new edition"


def test_next_address_then_next_source(downloads: Downloads, server: FileServer, data: RemoteFile) -> None:
    gone = RemoteFile("gone.json", (f"{server.url}/a/gone.json", f"{server.url}/b/gone.json"))
    moved = replace(data, urls=(f"{server.url}/moved.json", *data.urls))
    sources = [source(gone, name="first"), source(moved, name="second")]
    fetched = fetch("task", sources, ["train"], downloads)
    assert fetched.source.name == "second"
    assert fetched.records[0].url == f"{server.url}/{DATA}"
    assert [(seen.path, seen.status) for seen in server.seen] == [
        ("a/gone.json", 404),
        ("b/gone.json", 404),
        ("moved.json", 404),
        (DATA, 200),
    ]


def test_nothing_works_is_one_sentence(downloads: Downloads, server: FileServer, data: RemoteFile) -> None:
    server.always[DATA] = Fault(wrong=True)
    sources = [
        source(RemoteFile("gone.json", (f"{server.url}/gone.json",)), name="first"),
        source(data, name="second"),
        source(RemoteFile("never.json"), name="third"),
        Source("fourth", {"test": (data,)}, no_reader),
    ]
    with pytest.raises(MissingDataError) as caught:
        fetch("squad", sources, ["train"], downloads)
    said = str(caught.value)
    assert "The files for squad could not be downloaded from any source: " in said
    assert f"'first': gone.json from {server.url}/gone.json (HTTP 404)" in said
    assert f"'second': {DATA} from {server.url}/{DATA} (the file is not the published one: sha256 " in said
    assert f"expected {data.sha256}" in said
    assert "'third': never.json is not published anywhere" in said
    assert "'fourth': it has no split train" in said
    assert said.endswith("use --mirror with a folder or URL that has them.")
    assert "\n" not in said
    assert caught.value.exit_code == 3


def test_files_that_are_not_published_are_the_users_own(downloads: Downloads) -> None:
    names = [f"wsj_{number:02}.mrg" for number in range(25)]
    sources = [
        Source("columns", {"train": (RemoteFile("all.conllu"),)}, no_reader),
        Source("brackets", {"train": tuple(map(RemoteFile, names))}, no_reader),
    ]
    with pytest.raises(MissingDataError) as caught:
        fetch("ptb", sources, ["train"], downloads)
    assert str(caught.value) == (
        "The files for ptb are not published: put your own (all.conllu; or wsj_00.mrg, wsj_01.mrg, …, wsj_24.mrg (25 "
        "files)) into the folder DIR/ptb and use --mirror DIR."
    )


def mirrored(server: FileServer, content: bytes | None = None) -> Path:
    """The served folder as a mirror that has the task; returns the task's folder."""
    folder = server.folder / "task"
    folder.mkdir()
    (folder / DATA).write_bytes(content or (server.folder / DATA).read_bytes())
    return folder


@pytest.mark.parametrize(
    ("pinned_digest", "held", "status"),
    [(True, None, "verified"), (True, b"a subset", "mirror-differs"), (False, b"a subset", "unpinned")],
)
def test_mirror_status(
    downloads: Downloads, server: FileServer, pinned_digest: bool, held: bytes | None, status: str
) -> None:
    file = RemoteFile(DATA, (), sha256(server.folder / DATA) if pinned_digest else None)
    folder = mirrored(server, held)
    fetched = fetch_from_mirror("task", [source(file)], ["train"], downloads, f"{server.url}/")
    assert content(fetched) == (folder / DATA).read_bytes()
    (record,) = fetched.records
    assert (record.status, record.url) == (status, f"mirror:{DATA}")
    assert record.sha256 == sha256(folder / DATA)


def test_mirror_resumes_and_is_fetched_once(downloads: Downloads, server: FileServer) -> None:
    mirrored(server)
    server.faults[f"task/{DATA}"] = [Fault(503), Fault(cut=1000)]
    for _ in range(2):
        fetch_from_mirror("task", [source(RemoteFile(DATA))], ["train"], downloads, server.url)
    assert server.statuses(f"task/{DATA}") == [503, 200, 206]


def test_mirror_that_fails(downloads: Downloads, server: FileServer) -> None:
    server.always["task"] = Fault(500)
    mirror = f"http://me:secret@{server.host}"
    with pytest.raises(MissingDataError, match=r"'upstream': no data.json \(HTTP 500\)") as caught:
        fetch_from_mirror("task", [source(RemoteFile(DATA))], ["train"], downloads, mirror)
    said = str(caught.value)
    assert said.startswith(f"The mirror http://{server.host} does not contain the files for task: ")
    assert "secret" not in said
    assert server.statuses(f"task/{DATA}") == [500] * 4


def list_checksums(server: FileServer, **digests: str) -> None:
    """What `sha256sum */*` prints in the mirror."""
    listed = {f"task/{DATA}": sha256(server.folder / "task" / DATA)} | digests
    (server.folder / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in listed.items()))


def test_mirror_whose_file_is_not_as_listed(downloads: Downloads, server: FileServer) -> None:
    mirrored(server, b"18 of 32 rows")
    list_checksums(server, **{f"task/{DATA}": "0" * 64})
    with pytest.raises(
        DataError, match=r"data.json from the mirror http\S+ is damaged: the file is not the one in"
    ) as caught:
        fetch_from_mirror("task", [source(RemoteFile(DATA))], ["train"], downloads, server.url)
    assert "SHA256SUMS: sha256 " in str(caught.value) and "expected 0000" in str(caught.value)
    assert server.statuses(f"task/{DATA}") == [200, 200]


def test_files_of_the_hub(downloads: Downloads, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_ENDPOINT names a mirror of the hub, and the digest that the hub sends must be that of the bytes."""
    name = f"datasets/owner/name/resolve/{'0' * 40}/data.parquet"
    path = server.folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1 rows")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    file = RemoteFile("data.parquet", (f"https://huggingface.co/{name}",))
    server.always[name] = Fault(headers={"X-Linked-ETag": f'"{"0" * 64}"'})
    with pytest.raises(MissingDataError, match=f"but the server says {'0' * 64}"):
        fetch("task", [source(file)], ["train"], downloads)
    server.always[name] = Fault(headers={"X-Linked-ETag": f'"{sha256(path)}"'})
    fetched = fetch("task", [source(file)], ["train"], downloads)
    assert [(record.url, record.status) for record in fetched.records] == [
        (f"{server.url}/{name}", "unpinned")
    ]
