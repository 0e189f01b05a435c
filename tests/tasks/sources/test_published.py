from __future__ import annotations

import io
import tarfile
import tracemalloc
import zipfile
import zlib
from dataclasses import asdict, replace
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.sources.download import Downloads, Network
from decabench.tasks.sources.published import SourceFiles, fetch, read_folder
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.fixtures import tar_bytes
from tests.tasks.sources.server import Fault, FileServer, no_reader, pinned, sha256, source

# Files that are read where they lie: paths, members of archives and rows of parquet, whole and broken.

MEMBERS = {"data/train.txt": b"train " * 5000, "data/dev.txt": b"dev", "data/other.txt": b"other"}


def zip_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def local(tmp_path: Path, name: str, content: bytes, members: tuple[str, ...] = ()) -> SourceFiles:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return SourceFiles(Source("local", {}, no_reader, members), {name: path}, tmp_path / "scratch")


ARCHIVES = {
    "data.zip": zip_bytes(MEMBERS),
    "data.tgz": tar_bytes(MEMBERS),
    "data.tar.gz": tar_bytes(MEMBERS),
    "data.tar.bz2": tar_bytes(MEMBERS, "w:bz2"),
    "data.tar.xz": tar_bytes(MEMBERS, "w:xz"),
    "data.tar": tar_bytes(MEMBERS, "w"),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_members_declared_come_in_one_pass(tmp_path: Path, name: str) -> None:
    declared = ("data/train.txt", "data/dev.txt", "in/another/archive.txt")
    with local(tmp_path, name, ARCHIVES[name], declared) as files:
        assert files.path("train.txt").read_bytes() == MEMBERS["data/train.txt"]
        (tmp_path / name).unlink()  # the other members don't need the archive anymore
        assert files.path("dev.txt").read_bytes() == b"dev"
        assert not list((tmp_path / "scratch").rglob("other.txt"))
    assert not any((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("outer", ["tgz", "zip"])
def test_archive_inside_an_archive(tmp_path: Path, outer: str) -> None:
    inner = {"2016-01/en-de.tgz": ARCHIVES["data.tgz"], "2016-01/README": b"read me"}
    name = f"2016-01.{outer}"
    declared = ("2016-01/en-de.tgz!data/train.txt", "2016-01/en-de.tgz!data/dev.txt", "2016-01/README")
    with local(tmp_path, name, tar_bytes(inner) if outer == "tgz" else zip_bytes(inner), declared) as files:
        for member in ("train.txt", "dev.txt"):
            path = files.path(member)
            assert path.read_bytes() == MEMBERS[f"data/{member}"]
        assert files.path("README").read_bytes() == b"read me"
        assert not [path for path in (tmp_path / "scratch").rglob("*.tgz") if path.is_file()]


@pytest.mark.parametrize("name", ["data.zip", "data.tgz", "data.tar.bz2", "data.tar.xz", "data.tar"])
@pytest.mark.parametrize("damage", ["truncated", "overwritten", "empty", "text"])
def test_damaged_archive(tmp_path: Path, name: str, damage: str) -> None:
    if (name, damage) == ("data.tar", "overwritten"):
        pytest.skip("a plain tar has no checksum of its contents")
    whole = ARCHIVES[name]
    third = len(whole) // 3
    content = {
        "truncated": whole[:third],
        "overwritten": whole[:third] + b"\xff" * (len(whole) - third),
        "empty": b"",
        "text": b"<html>not found</html>" * 100,
    }[damage]
    with local(tmp_path, name, content, tuple(MEMBERS)) as files:
        with pytest.raises(DataError, match=f"{name}"):
            for member in MEMBERS:
                assert files.path(Path(member).name).read_bytes() == MEMBERS[member]


@pytest.mark.parametrize(
    "member", ["../evil.txt", "/evil.txt", "data/../../evil.txt", "..\\evil.txt", "C:/evil.txt"]
)
@pytest.mark.parametrize("name", ["data.zip", "data.tgz"])
def test_member_that_leads_out_is_refused(tmp_path: Path, name: str, member: str) -> None:
    members = {member: b"evil", "data/dev.txt": b"dev"}
    content = zip_bytes(members) if name == "data.zip" else tar_bytes(members)
    with local(tmp_path / "deep" / "er", name, content, (member,)) as files:
        with pytest.raises(DataError, match="points outside the archive"):
            files.path(PurePosixPath(member).name)
        assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_in_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("data/train.txt")
        info.type, info.linkname = kind, "/etc/hostname"
        archive.addfile(info)
    with local(tmp_path, "data.tgz", buffer.getvalue(), ("data/train.txt",)) as files:
        with pytest.raises(DataError, match="because it is a link or a folder"):
            files.path("train.txt")


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("data/train.txt")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/hostname")
    with local(tmp_path, "data.zip", buffer.getvalue(), ("data/train.txt",)) as files:
        with pytest.raises(DataError, match="because it is a link or a folder"):
            files.path("train.txt")


def bomb(kind: str, member: bytes = b"data.json") -> bytes:
    """A small archive with a member of 400 MB of zeros."""
    size = 300_000_000
    if kind == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            with archive.open(member.decode(), "w", force_zip64=True) as file:
                for _ in range(300):
                    file.write(bytes(1_000_000))
        return buffer.getvalue()
    info = tarfile.TarInfo(member.decode())
    info.size = size
    if kind == "header":
        info.type, info.name = tarfile.XHDTYPE, "pax"
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packed.compress(info.tobuf(tarfile.USTAR_FORMAT))
    return head + b"".join(packed.compress(bytes(1_000_000)) for _ in range(300)) + packed.flush()


@pytest.mark.parametrize(
    ("kind", "asked"), [("zip", "data.json"), ("tar", "data.json"), ("tar", "other.json")]
)
def test_a_bomb_is_not_unpacked(tmp_path: Path, kind: str, asked: str) -> None:
    packed = bomb(kind)
    assert len(packed) < 1_000_000
    with local(tmp_path, "bomb.tgz", packed, (asked,)) as files:
        with pytest.raises(DataError, match=r"bomb\.tgz unpacks to more than the allowed 256 MiB"):
            files.path(asked)
        assert not [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_a_header_bomb_stays_out_of_memory(tmp_path: Path) -> None:
    packed = bomb("header")
    tracemalloc.start()
    with local(tmp_path, "bomb.tgz", packed, ("data.json",)) as files:
        with pytest.raises(
            DataError, match=r"bomb\.tgz is damaged \(a header of 300,000,000 bytes is too long\)"
        ):
            files.path("data.json")
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()


# Files that are read where they lie: paths, members of archives and rows of parquet, whole and broken.


def test_rows_stream_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    answers = [{"text": ["a"], "start": [index]} for index in range(3000)]
    pq.write_table(pa.table({"id": range(3000), "answers": answers, "other": ["x"] * 3000}), path)
    files = local(tmp_path, "rows.parquet", path.read_bytes())
    rows = list(files.rows("rows.parquet", ("answers", "id")))
    assert [row["id"] for row in rows] == list(range(3000))
    assert rows[7] == {"answers": {"text": ["a"], "start": [7]}, "id": 7}
    with pytest.raises(DataError, match=r"has no column none \(it has id, answers, other\)"):
        next(files.rows("rows.parquet", ("id", "none")))


@pytest.mark.parametrize("content", [b"PAR1", b"not parquet" * 100])
def test_rows_of_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    with local(tmp_path, "rows.parquet", content) as files:
        with pytest.raises(DataError, match="is not a complete parquet file"):
            next(files.rows("rows.parquet", ("id",)))


DATA = "data.json"


def read(tmp_path: Path, *sources: Source, splits: tuple[str, ...] = ("train",)) -> SourceFiles:
    return read_folder("task", sources, splits, tmp_path / "mirror" / "task", tmp_path / "raw", "mirror")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a task in a mirror."""
    folder = tmp_path / "mirror" / "task"
    folder.mkdir(parents=True)
    (folder / DATA).write_bytes(b"whole")
    return folder


@pytest.mark.parametrize(
    ("published", "held", "status"),
    [(b"whole", b"whole", "verified"), (b"whole", b"part", "mirror-differs"), (None, b"part", "unpinned")],
)
def test_how_a_file_compares(
    tmp_path: Path, folder: Path, published: bytes | None, held: bytes, status: str
) -> None:
    file = RemoteFile(DATA)
    if published is not None:
        (tmp_path / DATA).write_bytes(published)
        file = pinned(tmp_path / DATA)
    (folder / DATA).write_bytes(held)
    (record,) = read(tmp_path, source(file)).records
    assert (record.name, record.url, record.size) == (DATA, f"mirror:{DATA}", len(held))
    assert (record.status, record.sha256) == (status, sha256(folder / DATA))


def test_a_folder_that_lacks_files(tmp_path: Path, folder: Path) -> None:
    sources = [source(RemoteFile(DATA), RemoteFile("a.json"), name="first"), source(RemoteFile("b.json"))]
    with pytest.raises(MissingDataError) as caught:
        read(tmp_path, *sources)
    assert str(caught.value) == (
        f"{folder} does not contain the files for task: 'first': no a.json; 'upstream': no b.json. "
        "Add the files for one of these sources."
    )


def test_a_folder_is_held_to_its_checksums(tmp_path: Path) -> None:
    folder = tmp_path / "mirror" / "task"
    folder.mkdir(parents=True)
    (folder / "data.json").write_bytes(b"a subset")
    listed = folder.parent / "SHA256SUMS"
    listed.write_text(f"{sha256(folder / 'data.json')}  task/data.json\n")
    arguments = ("task", [source(RemoteFile("data.json"))], ["train"], folder, tmp_path / "raw")
    assert read_folder(*arguments, "mirror").records[0].status == "unpinned"
    (folder / "data.json").write_bytes(b"a sub")
    with pytest.raises(DataError, match=r"data\.json is damaged: the sha256 is .*, but SHA256SUMS has "):
        read_folder(*arguments, "mirror")
    assert read_folder(*arguments, "local").records


# The chosen source, its location, and the note about it.

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
    return fetched.path(name).read_bytes()


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
    assert "The files for squad can't be downloaded from any source: " in said
    assert f"'first': gone.json from {server.url}/gone.json (HTTP 404)" in said
    assert (
        f"'second': {DATA} from {server.url}/{DATA} (the downloaded file has the wrong content: sha256 "
        in said
    )
    assert f"expected {data.sha256}" in said
    assert "'third': never.json is not published anywhere" in said
    assert "'fourth': no split train" in said
    assert said.endswith("use --mirror with a folder or URL that has the files.")
    assert "\n" not in said
    assert caught.value.exit_code == 3


def mirrored(server: FileServer, content: bytes | None = None) -> Path:
    """Make the served folder a mirror with the task, and return the task's folder."""
    folder = server.folder / "task"
    folder.mkdir()
    (folder / DATA).write_bytes(content or (server.folder / DATA).read_bytes())
    return folder


def test_mirror_resumes_and_is_fetched_once(downloads: Downloads, server: FileServer) -> None:
    mirrored(server)
    server.faults[f"task/{DATA}"] = [Fault(503), Fault(cut=1000)]
    for _ in range(2):
        fetch("task", [source(RemoteFile(DATA))], ["train"], downloads, server.url)
    assert server.statuses(f"task/{DATA}") == [503, 200, 206]


def list_checksums(server: FileServer, **digests: str) -> None:
    """Return the output of `sha256sum */*` in the mirror."""
    listed = {f"task/{DATA}": sha256(server.folder / "task" / DATA)} | digests
    (server.folder / "SHA256SUMS").write_text("".join(f"{value}  {name}\n" for name, value in listed.items()))


def test_mirror_whose_file_is_not_as_listed(downloads: Downloads, server: FileServer) -> None:
    mirrored(server, b"18 of 32 rows")
    list_checksums(server, **{f"task/{DATA}": "0" * 64})
    with pytest.raises(
        MissingDataError,
        match=r"from the mirror http\S+: .* \(the downloaded file has the wrong content: sha256 ",
    ) as caught:
        fetch("task", [source(RemoteFile(DATA))], ["train"], downloads, server.url)
    assert "expected 0000" in str(caught.value)
    assert server.statuses(f"task/{DATA}") == [200, 200]


def test_files_of_the_hub(downloads: Downloads, server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"datasets/owner/name/resolve/{'0' * 40}/data.parquet"
    path = server.folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"PAR1 rows")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    file = RemoteFile("data.parquet", (f"https://huggingface.co/{name}",))
    server.always[name] = Fault(headers={"X-Linked-ETag": f'"{"0" * 64}"'})
    with pytest.raises(MissingDataError, match=f"but the server reports {'0' * 64}"):
        fetch("task", [source(file)], ["train"], downloads)
    server.always[name] = Fault(headers={"X-Linked-ETag": f'"{sha256(path)}"'})
    fetched = fetch("task", [source(file)], ["train"], downloads)
    assert [(record.url, record.status) for record in fetched.records] == [
        (f"{server.url}/{name}", "unpinned")
    ]
