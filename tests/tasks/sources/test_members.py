"""Files that are read where they lie: paths, members of archives and rows of parquet, whole and broken."""

from __future__ import annotations

import io
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path, PurePosixPath

import pytest

from decabench.errors import DataError
from decabench.tasks.sources.published import LocalFiles
from tests.tasks.fixtures import tar_bytes

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
        assert files.path("train.txt").read_bytes() == MEMBERS["data/train.txt"]
        (tmp_path / name).unlink()  # the others need the archive no more
        assert files.path("dev.txt").read_bytes() == b"dev"
        assert not list((tmp_path / "scratch").rglob("other.txt"))
    assert not (tmp_path / "scratch").exists()


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


@pytest.mark.parametrize("member", ["data/none.txt", "none.tgz!data/dev.txt"])
@pytest.mark.parametrize("name", ["data.zip", "data.tgz"])
def test_member_that_is_not_there(tmp_path: Path, name: str, member: str) -> None:
    with local(tmp_path, name, ARCHIVES[name], (member,)) as files:
        with pytest.raises(DataError, match=f"{name} has no member {member}"):
            files.path(Path(member).name)


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
        with pytest.raises(DataError, match="leads out of its folder"):
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
        with pytest.raises(DataError, match="is a link, a folder or encrypted"):
            files.path("train.txt")


def test_links_in_zip_are_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo("data/train.txt")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/hostname")
    with local(tmp_path, "data.zip", buffer.getvalue(), ("data/train.txt",)) as files:
        with pytest.raises(DataError, match="is a link, a folder or encrypted"):
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
    """Nor read to its end on the way to a member behind it."""
    archive = tmp_path / "bomb.tgz"
    archive.write_bytes(bomb(kind))
    assert archive.stat().st_size < 1_000_000
    with LocalFiles({"bomb.tgz": archive}, tmp_path / "scratch", (asked,)) as files:
        with pytest.raises(DataError, match=r"bomb\.tgz unpacks to more than 256 MiB, 200 times its size"):
            files.path(asked)
        assert not [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_a_header_bomb_stays_out_of_memory(tmp_path: Path) -> None:
    archive = tmp_path / "bomb.tgz"
    archive.write_bytes(bomb("header"))
    tracemalloc.start()
    with LocalFiles({"bomb.tgz": archive}, tmp_path / "scratch", ("data.json",)) as files:
        with pytest.raises(DataError, match=r"bomb\.tgz is damaged \(a header of 300,000,000 bytes\)"):
            files.path("data.json")
    assert tracemalloc.get_traced_memory()[1] < 30_000_000
    tracemalloc.stop()
