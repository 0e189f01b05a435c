"""Which source is taken, from where, and what is said of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import MissingDataError, StorageError
from decabench.tasks.sources import fetch
from decabench.tasks.sources.download import Network
from decabench.tasks.sources.fetch import Fetched
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.sources.build import no_reader, pinned, sha256, source, tar_bytes
from tests.tasks.sources.server import Fault, FileServer

DATA = "data.json"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    return tmp_path / "home" / "raw" / "task"


@pytest.fixture
def data(server: FileServer) -> RemoteFile:
    return pinned(server.folder / DATA, f"{server.url}/{DATA}")


def content(fetched: Fetched, name: str = DATA) -> bytes:
    return fetched.files.path(name).read_bytes()


def test_verified(raw: Path, server: FileServer, data: RemoteFile, hasty: Network) -> None:
    fetched = fetch("task", [source(data)], ["train"], raw, network=hasty)
    assert content(fetched) == (server.folder / DATA).read_bytes()
    (record,) = fetched.records
    assert record.to_dict() == {
        "name": DATA,
        "url": f"{server.url}/{DATA}",
        "sha256": data.sha256,
        "size": 307_200,
        "status": "verified",
    }
    assert (fetched.source.name, fetched.missing) == ("upstream", ())


def test_unpinned(raw: Path, server: FileServer, data: RemoteFile, hasty: Network) -> None:
    fetched = fetch("task", [source(replace(data, sha256=None))], ["train"], raw, network=hasty)
    assert [(record.status, record.sha256) for record in fetched.records] == [("unpinned", data.sha256)]


def test_second_run_asks_nothing(raw: Path, server: FileServer, data: RemoteFile, hasty: Network) -> None:
    for file in (data, replace(data, sha256=None)):
        sources = [source(file)]
        first = fetch("task", sources, ["train"], raw, network=hasty)
        server.seen.clear()
        assert fetch("task", sources, ["train"], raw, network=hasty).records == first.records
        assert server.seen == []


def test_touched_file_is_hashed_again_and_kept(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    os.utime(raw / DATA, (1, 1))
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    assert server.statuses() == [200]


def test_damaged_file_is_fetched_again(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    (raw / DATA).write_bytes(b"damaged")
    assert content(fetch("task", [source(data)], ["train"], raw, network=hasty)) != b"damaged"
    assert server.statuses() == [200, 200]


def test_damaged_note_is_no_obstacle(raw: Path, server: FileServer, data: RemoteFile, hasty: Network) -> None:
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    (raw / f"{DATA}.json").write_text(json.dumps(["not", "a", "note"]))
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    assert server.statuses() == [200, 200]


def test_force_fetches_again(raw: Path, server: FileServer, data: RemoteFile, hasty: Network) -> None:
    unpinned = [source(replace(data, sha256=None))]
    fetch("task", unpinned, ["train"], raw, network=hasty)
    (server.folder / DATA).write_bytes(b"a new edition")
    assert content(fetch("task", unpinned, ["train"], raw, network=hasty)) != b"a new edition"
    assert content(fetch("task", unpinned, ["train"], raw, force=True, network=hasty)) == b"a new edition"


def test_force_that_fails_keeps_what_was_there(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    fetch("task", [source(data)], ["train"], raw, network=hasty)
    server.always[DATA] = Fault(404)
    with pytest.raises(MissingDataError):
        fetch("task", [source(data)], ["train"], raw, force=True, network=hasty)
    assert content(fetch("task", [source(data)], ["train"], raw, network=hasty))


def test_next_address_then_next_source(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    gone = RemoteFile("gone.json", (f"{server.url}/a/gone.json", f"{server.url}/b/gone.json"))
    moved = replace(data, urls=(f"{server.url}/moved.json", *data.urls))
    sources = [source(gone, name="first"), source(moved, name="second")]
    fetched = fetch("task", sources, ["train"], raw, network=hasty)
    assert fetched.source.name == "second"
    assert fetched.records[0].url == f"{server.url}/{DATA}"
    assert [(seen.path, seen.status) for seen in server.seen] == [
        ("a/gone.json", 404),
        ("b/gone.json", 404),
        ("moved.json", 404),
        (DATA, 200),
    ]


def test_wrong_checksum_goes_to_the_next_address(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    (server.folder / "old.json").write_text("an old edition")
    older = replace(data, urls=(f"{server.url}/old.json", *data.urls))
    fetched = fetch("task", [source(older)], ["train"], raw, network=hasty)
    assert fetched.records[0].url == f"{server.url}/{DATA}"
    assert server.statuses("old.json") == [200, 200]


def test_nothing_works_is_one_sentence(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    server.always[DATA] = Fault(wrong=True)
    sources = [
        source(RemoteFile("gone.json", (f"{server.url}/gone.json",)), name="first"),
        source(data, name="second"),
        source(RemoteFile("never.json"), name="third"),
        Source("fourth", {"test": (data,)}, no_reader),
    ]
    with pytest.raises(MissingDataError) as caught:
        fetch("squad", sources, ["train"], raw, network=hasty)
    told = str(caught.value)
    assert "The files of squad could not be had from any source: " in told
    assert f"'first': gone.json from {server.url}/gone.json (HTTP 404)" in told
    assert f"'second': {DATA} from {server.url}/{DATA} (the file is not the published one: sha256 " in told
    assert f"expected {data.sha256}" in told
    assert "'third': only a mirror can hold never.json" in told
    assert "'fourth': it has no split train" in told
    assert told.endswith("with --mirror.")
    assert "\n" not in told
    assert caught.value.exit_code == 3


def test_full_disk_ends_the_search(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with pytest.raises(StorageError):
        fetch("task", [source(data), source(data)], ["train"], raw, network=hasty)
    assert server.statuses() == [200]


def test_splits_share_files_and_may_be_missing(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    both = Source("upstream", {"train": (data,), "validation": (data,)}, no_reader)
    fetched = fetch("task", [both], ["train", "validation", "test"], raw, network=hasty)
    assert (len(fetched.records), fetched.missing) == (1, ("test",))
    assert server.statuses() == [200]


def test_name_with_folders(raw: Path, server: FileServer, hasty: Network) -> None:
    path = server.folder / "3.0.0" / "test.parquet"
    path.parent.mkdir()
    path.write_bytes(b"rows")
    file = RemoteFile("3.0.0/test.parquet", (f"{server.url}/3.0.0/test.parquet",), sha256(path))
    assert content(fetch("task", [source(file)], ["train"], raw, network=hasty), file.name) == b"rows"


def test_no_output(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network, capfd: pytest.CaptureFixture[str]
) -> None:
    server.faults[DATA] = [Fault(500), Fault(cut=1000)]
    fetch("task", [source(data)], ["train"], raw, progress=True, network=hasty)
    assert capfd.readouterr() == ("", "")


def mirrored(server: FileServer, bytes_of_data: bytes | None = None) -> Path:
    """The served folder as a mirror that holds the task."""
    folder = server.folder / "task"
    folder.mkdir()
    (folder / DATA).write_bytes(bytes_of_data or (server.folder / DATA).read_bytes())
    return folder


@pytest.mark.parametrize("kind", ["folder", "http"])
@pytest.mark.parametrize(
    ("pinned_digest", "held", "status"),
    [(True, None, "verified"), (True, b"a subset", "mirror-differs"), (False, b"a subset", "unpinned")],
)
def test_mirror_status(
    raw: Path,
    server: FileServer,
    hasty: Network,
    kind: str,
    pinned_digest: bool,
    held: bytes | None,
    status: str,
) -> None:
    file = RemoteFile(DATA, (), sha256(server.folder / DATA) if pinned_digest else None)
    folder = mirrored(server, held)
    mirror = str(server.folder) if kind == "folder" else f"{server.url}/"
    fetched = fetch("task", [source(file)], ["train"], raw, mirror, network=hasty)
    assert content(fetched) == (folder / DATA).read_bytes()
    (record,) = fetched.records
    assert (record.status, record.url) == (status, f"mirror:{DATA}")
    assert record.sha256 == sha256(folder / DATA)


def test_folder_mirror_is_read_in_place(raw: Path, server: FileServer, hasty: Network) -> None:
    folder = mirrored(server)
    fetched = fetch("task", [source(RemoteFile(DATA))], ["train"], raw, str(server.folder), network=hasty)
    assert fetched.files.path(DATA) == folder / DATA
    assert list(raw.iterdir()) == []


def test_folder_mirror_that_lacks_files(raw: Path, server: FileServer, hasty: Network) -> None:
    mirrored(server)
    sources = [source(RemoteFile(DATA), RemoteFile("a.json"), name="first"), source(RemoteFile("b.json"))]
    with pytest.raises(
        MissingDataError, match=r"'first': no a.json; 'upstream': no b.json; they belong in"
    ) as caught:
        fetch("task", sources, ["train"], raw, str(server.folder), network=hasty)
    assert str(caught.value).startswith(f"The mirror {server.folder} has not the files of task: ")
    assert server.seen == []


@pytest.mark.parametrize("kind", ["folder", "http"])
def test_mirror_with_the_second_form(raw: Path, server: FileServer, hasty: Network, kind: str) -> None:
    mirrored(server)
    sources = [source(RemoteFile("other.json"), name="first"), source(RemoteFile(DATA), name="second")]
    mirror = str(server.folder) if kind == "folder" else server.url
    fetched = fetch("task", sources, ["train"], raw, mirror, network=hasty)
    assert fetched.source.name == "second"
    assert server.statuses() == ([] if kind == "folder" else [404, 200])


def test_http_mirror_resumes_and_is_fetched_once(raw: Path, server: FileServer, hasty: Network) -> None:
    mirrored(server)
    server.faults[f"task/{DATA}"] = [Fault(503), Fault(cut=1000)]
    for _ in range(2):
        fetch("task", [source(RemoteFile(DATA))], ["train"], raw, server.url, network=hasty)
    assert server.statuses() == [503, 200, 206]


def test_http_mirror_that_fails(raw: Path, server: FileServer, hasty: Network) -> None:
    server.always["task"] = Fault(500)
    mirror = f"http://me:secret@{server.host}"
    with pytest.raises(MissingDataError, match=r"'upstream': no data.json \(HTTP 500\)") as caught:
        fetch("task", [source(RemoteFile(DATA))], ["train"], raw, mirror, network=hasty)
    assert "secret" not in str(caught.value)
    assert server.statuses() == [500] * 4


def test_mirror_and_upstream_never_mix(
    raw: Path, server: FileServer, data: RemoteFile, hasty: Network
) -> None:
    mirrored(server, b"a subset")
    sources = [source(data)]
    assert content(fetch("task", sources, ["train"], raw, server.url, network=hasty)) == b"a subset"
    assert fetch("task", sources, ["train"], raw, network=hasty).records[0].status == "verified"
    assert content(fetch("task", sources, ["train"], raw, server.url, network=hasty)) == b"a subset"


def test_closing_removes_what_was_extracted(raw: Path, server: FileServer, hasty: Network) -> None:
    (server.folder / "task").mkdir()
    (server.folder / "task" / "data.tgz").write_bytes(tar_bytes({"in/a.txt": b"a"}))
    form = source(RemoteFile("data.tgz"), members=("in/a.txt",))
    with fetch("task", [form], ["train"], raw, str(server.folder), network=hasty) as fetched:
        assert fetched.files.member("data.tgz", "in/a.txt").read_bytes() == b"a"
        assert len(list(raw.iterdir())) == 1
    assert list(raw.iterdir()) == []


@pytest.mark.mirror
def test_real_file_over_http(raw: Path, real_mirror: Path, hasty: Network) -> None:
    name = "multinli_1.0.zip"
    file = pinned(real_mirror / "multinli.in.out" / name)
    with FileServer(real_mirror) as real:
        real.faults[f"multinli.in.out/{name}"] = [Fault(cut=500_000), Fault(cut=500_000)]
        fetched = fetch("multinli.in.out", [source(file)], ["train"], raw, real.url, network=hasty)
        assert fetched.records[0].status == "verified"
        assert real.statuses() == [200, 206, 206]
