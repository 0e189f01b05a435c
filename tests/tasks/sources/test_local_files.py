"""Files that are read where they lie: paths, members of archives and rows of parquet, whole and broken."""

from __future__ import annotations

import errno
import io
import os
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.tasks.sources.local_files import (
    LocalFiles,
    SourceFiles,
    new_scratch,
    parse_checksums,
    read_folder,
)
from decabench.tasks.task import RemoteFile, Source
from tests.tasks.sources.build import no_reader, pinned, sha256, source, tar_bytes

MEMBERS = {"data/train.txt": b"train " * 5000, "data/dev.txt": b"dev", "data/other.txt": b"other"}


def zip_bytes(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def local(tmp_path: Path, name: str, content: bytes, members: tuple[str, ...] = ()) -> LocalFiles:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return LocalFiles({name: path}, tmp_path / "scratch", members)


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
        assert files.member(name, "data/train.txt").read_bytes() == MEMBERS["data/train.txt"]
        (tmp_path / name).unlink()  # the others need the archive no more
        assert files.member(name, "data/dev.txt").read_bytes() == b"dev"
        assert not list((tmp_path / "scratch").rglob("other.txt"))
    assert not (tmp_path / "scratch").exists()


def test_member_not_declared_takes_another_pass(tmp_path: Path) -> None:
    with local(tmp_path, "data.tgz", ARCHIVES["data.tgz"], ("data/dev.txt",)) as files:
        assert files.member("data.tgz", "data/dev.txt").read_bytes() == b"dev"
        assert files.member("data.tgz", "data/other.txt").read_bytes() == b"other"


def test_member_with_a_dot_before_its_name(tmp_path: Path) -> None:
    with local(tmp_path, "data.tgz", tar_bytes({"./data/dev.txt": b"dev"})) as files:
        assert files.member("data.tgz", "data/dev.txt").read_bytes() == b"dev"


@pytest.mark.parametrize("outer", ["tgz", "zip"])
def test_archive_inside_an_archive(tmp_path: Path, outer: str) -> None:
    inner = {"2016-01/en-de.tgz": ARCHIVES["data.tgz"], "2016-01/README": b"read me"}
    name = f"2016-01.{outer}"
    declared = ("2016-01/en-de.tgz!data/train.txt", "2016-01/en-de.tgz!data/dev.txt", "2016-01/README")
    with local(tmp_path, name, tar_bytes(inner) if outer == "tgz" else zip_bytes(inner), declared) as files:
        for member in ("train.txt", "dev.txt"):
            path = files.member(name, f"2016-01/en-de.tgz!data/{member}")
            assert path.read_bytes() == MEMBERS[f"data/{member}"]
        assert files.member(name, "2016-01/README").read_bytes() == b"read me"
        assert not [path for path in (tmp_path / "scratch").rglob("*.tgz") if path.is_file()]


@pytest.mark.parametrize("member", ["data/none.txt", "none.tgz!data/dev.txt"])
@pytest.mark.parametrize("name", ["data.zip", "data.tgz"])
def test_member_that_is_not_there(tmp_path: Path, name: str, member: str) -> None:
    with local(tmp_path, name, ARCHIVES[name]) as files:
        with pytest.raises(DataError, match=f"{name} has no member {member}"):
            files.member(name, member)


def test_file_that_was_not_fetched(tmp_path: Path) -> None:
    with local(tmp_path, "data.zip", ARCHIVES["data.zip"]) as files:
        with pytest.raises(
            MissingDataError, match=r"other.zip is not among the files of the requested splits \(data.zip\)"
        ):
            files.path("other.zip")


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
                assert files.member(name, member).read_bytes() == MEMBERS[member]


@pytest.mark.parametrize("name", ["data.tgz", "data.tar.bz2"])
def test_damage_after_the_last_member_is_noticed(tmp_path: Path, name: str) -> None:
    whole = ARCHIVES[name]
    with local(tmp_path, name, whole[:-6] + b"\0" * 6) as files:
        with pytest.raises(DataError, match="is damaged"):
            files.member(name, "data/dev.txt")


@pytest.mark.parametrize(
    "member", ["../evil.txt", "/evil.txt", "data/../../evil.txt", "..\\evil.txt", "C:/evil.txt"]
)
@pytest.mark.parametrize("name", ["data.zip", "data.tgz"])
def test_member_that_leads_out_is_refused(tmp_path: Path, name: str, member: str) -> None:
    members = {member: b"evil", "data/dev.txt": b"dev"}
    content = zip_bytes(members) if name == "data.zip" else tar_bytes(members)
    with local(tmp_path / "deep" / "er", name, content) as files:
        with pytest.raises(DataError, match="leads out of its folder"):
            files.member(name, member)
        assert (
            files.member(name, "data/dev.txt").read_bytes() == b"dev"
        )  # such members do not spoil the others
        assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_in_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        info = tarfile.TarInfo("data/train.txt")
        info.type, info.linkname = kind, "/etc/hostname"
        archive.addfile(info)
    with local(tmp_path, "data.tgz", buffer.getvalue()) as files:
        with pytest.raises(DataError, match="is a link, a folder or encrypted"):
            files.member("data.tgz", "data/train.txt")


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("data/train.txt")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/hostname")
    with local(tmp_path, "data.zip", buffer.getvalue()) as files:
        with pytest.raises(DataError, match="is a link, a folder or encrypted"):
            files.member("data.zip", "data/train.txt")


@pytest.mark.parametrize("name", ["large.tgz", "large.zip"])
def test_memory_does_not_grow_with_a_member(tmp_path: Path, name: str) -> None:
    content = {"large.txt": b"line of text\n" * 4_000_000}
    archive = tar_bytes(content) if name.endswith("tgz") else zip_bytes(content)
    del content
    with local(tmp_path, name, archive) as files:
        tracemalloc.start()
        try:
            assert files.member(name, "large.txt").stat().st_size == 52_000_000
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


def test_rows_stream_the_columns_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    answers = [{"text": ["a"], "start": [index]} for index in range(3000)]
    pq.write_table(pa.table({"id": range(3000), "answers": answers, "other": ["x"] * 3000}), path)
    files = LocalFiles({"rows.parquet": path}, tmp_path / "scratch")
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


@pytest.mark.parametrize("name", ["rows.parquet", "data.json", "data.tgz"])
def test_an_empty_file_is_named(tmp_path: Path, name: str) -> None:
    with (
        local(tmp_path, name, b"") as files,
        pytest.raises(DataError, match=f"{name} is empty: fetch it again"),
    ):
        files.path(name)


def test_memory_does_not_grow_with_a_row_group(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    text = [f"{index} " + "text " * 200 for index in range(40_000)]
    pq.write_table(pa.table({"text": text}), path, row_group_size=40_000, use_dictionary=False)
    del text
    before = pa.total_allocated_bytes()
    files = LocalFiles({"rows.parquet": path}, tmp_path / "scratch")
    peak = max(pa.total_allocated_bytes() for _ in files.rows("rows.parquet", ("text",)))
    assert peak - before < 12_000_000  # of 40 million


def test_full_disk_is_not_taken_for_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", refuse)
    with local(tmp_path, "data.tgz", ARCHIVES["data.tgz"]) as files:
        with pytest.raises(StorageError, match="No space left"):
            files.member("data.tgz", "data/dev.txt")
        assert not [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_scratch_of_a_killed_run_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = new_scratch(tmp_path), new_scratch(tmp_path)
    old.mkdir()
    new.mkdir()
    os.utime(old, (1, 1))
    assert new_scratch(tmp_path) not in (old, new)
    assert (old.exists(), new.exists()) == (False, True)


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


def test_files_are_read_where_they_lie(tmp_path: Path, folder: Path) -> None:
    with read(tmp_path, source(RemoteFile(DATA))).files as files:
        assert files.path(DATA) == folder / DATA
    assert not (tmp_path / "raw").exists()


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


@pytest.mark.parametrize("kind", ["sha256", "md5", "git_blob"])
def test_every_published_digest_counts(tmp_path: Path, folder: Path, kind: str) -> None:
    (record,) = read(tmp_path, source(RemoteFile(DATA, **{kind: "0" * 32}))).records  # type: ignore[arg-type]
    assert record.status == "mirror-differs"


def test_the_first_source_whose_files_are_there(tmp_path: Path, folder: Path) -> None:
    opened = read(
        tmp_path, source(RemoteFile("other"), name="first"), source(RemoteFile(DATA), name="second")
    )
    assert (opened.source.name, opened.missing) == ("second", ())


def test_a_folder_that_lacks_files(tmp_path: Path, folder: Path) -> None:
    sources = [source(RemoteFile(DATA), RemoteFile("a.json"), name="first"), source(RemoteFile("b.json"))]
    with pytest.raises(MissingDataError) as caught:
        read(tmp_path, *sources)
    assert str(caught.value) == (
        f"{folder} does not contain the files for task: 'first': no a.json; 'upstream': no b.json; "
        "add those of one of these sources."
    )


def test_splits_share_files_and_may_be_missing(tmp_path: Path, folder: Path) -> None:
    both = Source("both", dict.fromkeys(("train", "validation"), (RemoteFile(DATA),)), no_reader)
    opened = read(tmp_path, both, splits=("train", "validation", "test"))
    assert (len(opened.records), opened.missing) == (1, ("test",))
    with pytest.raises(MissingDataError, match="'both': it has no split test;"):
        read(tmp_path, both, splits=("test",))


def test_only_the_files_of_the_splits_are_needed(tmp_path: Path, folder: Path) -> None:
    form = Source("words", {"train": (RemoteFile(DATA),), "test": (RemoteFile("test.json"),)}, no_reader)
    assert len(read(tmp_path, form).records) == 1
    opened = read(tmp_path, form, splits=("train", "test"))
    assert ([record.name for record in opened.records], opened.missing) == ([DATA], ("test",))
    with pytest.raises(MissingDataError, match=r"no test\.json"):
        read(tmp_path, form, splits=("test",))


def test_closing_removes_what_was_extracted(tmp_path: Path, folder: Path) -> None:
    (folder / "data.tgz").write_bytes(tar_bytes({"in/a.txt": b"a"}))
    with read(tmp_path, source(RemoteFile("data.tgz"), members=("in/a.txt",))).files as files:
        assert files.member("data.tgz", "in/a.txt").read_bytes() == b"a"
        assert len(list((tmp_path / "raw").iterdir())) == 1
    assert list((tmp_path / "raw").iterdir()) == []


@pytest.mark.mirror
@pytest.mark.parametrize(
    ("task", "name", "member", "lines"),
    [
        ("zre", "relation_splits.tar.bz2", "relation_splits/dev.0", 600),
        ("wikisql", "data.tar.bz2", "data/dev.jsonl", 8421),
        ("multinli.in.out", "multinli_1.0.zip", "multinli_1.0/multinli_1.0_dev_matched.jsonl", 9816),
        ("iwslt.en.de", "en-de.tgz", "en-de/train.tags.en-de.en", None),
    ],
)
def test_real_archives(
    tmp_path: Path, real_mirror: Path, task: str, name: str, member: str, lines: int | None
) -> None:
    with LocalFiles({name: real_mirror / task / name}, tmp_path / "scratch") as files:
        with files.member(name, member).open("rb") as file:
            counted = sum(1 for _ in file)
    assert counted == (lines or counted) > 0


@pytest.mark.mirror
def test_real_parquet(tmp_path: Path, real_mirror: Path) -> None:
    name = "3.0.0/validation-00000-of-00001.parquet"
    files = LocalFiles({name: real_mirror / "cnn_dailymail" / name}, tmp_path / "scratch")
    assert sum(1 for row in files.rows(name, ("id", "highlights")) if row["highlights"]) == 1000


DIGEST = "a" * 64


@pytest.mark.parametrize(
    "line",
    [
        f"{DIGEST}  squad/x.json",
        f"{DIGEST} *squad/x.json",
        f"{DIGEST.upper()}  ./squad/x.json\r",
        f"# made\n\n{DIGEST}  squad/x.json",
    ],
)
def test_checksums_as_sha256sum_writes_them(line: str) -> None:
    assert parse_checksums(f"{line}\n".encode(), "SHA256SUMS") == {"squad/x.json": DIGEST}


@pytest.mark.parametrize(
    "line", ["nonsense", "abc  squad/x.json", f"{DIGEST}", "\0" * 100, f"{DIGEST}  a\n{'b' * 64}  a"]
)
def test_a_list_that_is_none(line: str) -> None:
    with pytest.raises(DataError, match=r"SHA256SUMS, line [12], "):
        parse_checksums(line.encode(), "SHA256SUMS")


def test_a_folder_is_held_to_its_checksums(tmp_path: Path) -> None:
    folder = tmp_path / "mirror" / "task"
    folder.mkdir(parents=True)
    (folder / "data.json").write_bytes(b"a subset")
    listed = folder.parent / "SHA256SUMS"
    listed.write_text(f"{sha256(folder / 'data.json')}  task/data.json\n")
    arguments = ("task", [source(RemoteFile("data.json"))], ["train"], folder, tmp_path / "raw")
    assert read_folder(*arguments, "mirror").records[0].status == "unpinned"
    (folder / "data.json").write_bytes(b"a sub")
    with pytest.raises(DataError, match=r"data\.json is damaged: its sha256 is .*, but SHA256SUMS has "):
        read_folder(*arguments, "mirror")
    assert read_folder(*arguments, "local").records


def bomb(kind: str, member: bytes = b"data.json") -> bytes:
    """A small archive with a member of 400 MB of zeros."""
    size = 400_000_000
    if kind == "zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            with archive.open(member.decode(), "w", force_zip64=True) as file:
                for _ in range(400):
                    file.write(bytes(1_000_000))
        return buffer.getvalue()
    info = tarfile.TarInfo(member.decode())
    info.size = size
    if kind == "header":
        info.type, info.name = tarfile.XHDTYPE, "pax"
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = packed.compress(info.tobuf(tarfile.USTAR_FORMAT))
    return head + b"".join(packed.compress(bytes(1_000_000)) for _ in range(400)) + packed.flush()


@pytest.mark.parametrize(
    ("kind", "asked"), [("zip", "data.json"), ("tar", "data.json"), ("tar", "other.json")]
)
def test_a_bomb_is_not_unpacked(tmp_path: Path, kind: str, asked: str) -> None:
    """Nor read to its end on the way to a member behind it."""
    archive = tmp_path / "bomb.tgz"
    archive.write_bytes(bomb(kind))
    assert archive.stat().st_size < 1_000_000
    with LocalFiles({"bomb.tgz": archive}, tmp_path / "scratch") as files:
        with pytest.raises(DataError, match=r"bomb\.tgz unpacks to more than 256 MiB, 200 times its size"):
            files.member("bomb.tgz", asked)
        assert not [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_a_header_bomb_stays_out_of_memory(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.tgz"
    archive.write_bytes(bomb("header"))
    tracemalloc.start()
    with LocalFiles({"bomb.tgz": archive}, tmp_path / "scratch") as files:
        with pytest.raises(DataError, match=r"bomb\.tgz is damaged \(a header of 400,000,000 bytes\)"):
            files.member("bomb.tgz", "data.json")
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()
