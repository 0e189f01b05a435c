import gzip
import io
import lzma
import random
import stat
import tarfile
import zipfile
from contextlib import nullcontext

import pytest

from decabench.errors import StorageError, SubmissionError
from decabench.submission import archive as archive_module
from decabench.submission.archive import unpack
from tests.folders import contents

GOOD = {"submission.toml": b"name = 'x'", "predictions/squad.validation.jsonl": b"{}\n" * 1000}


def tar_member(name, data=b"", kind=tarfile.REGTYPE, link="", size=None, pax=None):
    info = tarfile.TarInfo(name)
    info.size = len(data) if size is None else size
    info.type = kind
    info.linkname = link
    info.pax_headers = pax or {}
    return info, data


def write_tar(path, *members):
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path, *members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for info, data in members:
            archive.writestr(info, data)
    return path


def zip_member(name, mode=0, create_system=3):
    info = zipfile.ZipInfo("placeholder")
    info.filename = name  # the constructor would tidy the name
    info.external_attr = mode << 16
    info.create_system = create_system
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


@pytest.fixture
def into(tmp_path):
    return tmp_path / "inner" / "into"


@pytest.mark.parametrize("name", ["x.zip", "x.ZIP", "x.tar.gz", "x.tgz"])
@pytest.mark.parametrize("top", ["", "./", "my submission/"])
def test_plain_files_come_out_as_they_went_in(tmp_path, into, name, top):
    path = tmp_path / name
    if name.lower().endswith(".zip"):
        write_zip(path, *((zip_member(top + file), data) for file, data in GOOD.items()))
    else:
        write_tar(path, *(tar_member(top + file, data) for file, data in GOOD.items()))
    unpack(path, into)
    assert contents(into / top) == GOOD


def test_modes_are_not_taken_over(tmp_path, into):
    info, data = tar_member("run.sh", b"#!/bin/sh")
    info.mode = 0o4777
    unpack(write_tar(tmp_path / "x.tgz", (info, data)), into)
    assert not stat.S_IMODE((into / "run.sh").stat().st_mode) & 0o7111


@pytest.mark.parametrize(("name", "other"), [("x.zip", "x.tgz"), ("x.tar.gz", "x.zip")])
def test_the_suffix_of_the_other_kind_does_not_matter(tmp_path, into, name, other):
    if other.endswith("zip"):
        path = write_zip(tmp_path / other, *((zip_member(file), data) for file, data in GOOD.items()))
    else:
        path = write_tar(tmp_path / other, *(tar_member(file, data) for file, data in GOOD.items()))
    unpack(path.rename(tmp_path / name), into)
    assert contents(into) == GOOD


@pytest.mark.parametrize("content", [b"Rar!\x1a\x07", lzma.compress(b"x"), b"<!DOCTYPE html>", b""])
@pytest.mark.parametrize("name", ["x.zip", "x.tgz"])
def test_other_files_are_no_archives(tmp_path, into, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(
        SubmissionError, match=r"is damaged, or its suffix does not match the kind of archive"
    ):
        unpack(tmp_path / name, into)


CLIMBING = ["../evil", "a/../../evil", "/evil", "C:/evil", "a/C:/evil", "..\\evil", "\\\\server\\evil", ".."]


@pytest.mark.parametrize("name", CLIMBING)
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_names_that_climb_out_are_refused(tmp_path, into, kind, name):
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        write_zip(path, (zip_member(name), b"evil"))
    else:
        write_tar(path, tar_member(name, b"evil"))
    with pytest.raises(SubmissionError, match="would be unpacked outside its folder"):
        unpack(path, into)
    assert not [file for file in tmp_path.rglob("*evil*")]


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "x" * 300, "/".join(["d"] * 600), "a\x00b"])
def test_names_that_are_no_plain_text_or_too_long_are_refused(tmp_path, into, name):
    with pytest.raises(
        SubmissionError, match=r"too long for a file name or contains unprintable|damaged"
    ) as error:
        unpack(write_zip(tmp_path / "x.zip", (zip_member(name), b"")), into)
    assert "\x1b" not in str(error.value)


SPECIAL = {
    "symlink": tar_member("link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
    "symlink to a folder": tar_member("predictions", kind=tarfile.SYMTYPE, link=".."),
    "hardlink": tar_member("link", kind=tarfile.LNKTYPE, link="/etc/passwd"),
    "block device": tar_member("device", kind=tarfile.BLKTYPE),
    "unknown kind": tar_member("file", kind=b"Z"),
    "sparse": tar_member("file", b"0\n" + bytes(510), pax={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
}


@pytest.mark.parametrize("case", SPECIAL)
def test_tar_members_that_are_no_plain_files_are_refused(tmp_path, into, case):
    path = write_tar(tmp_path / "x.tar.gz", SPECIAL[case])
    with pytest.raises(SubmissionError, match="is a link or a device"):
        unpack(path, into)
    assert not into.exists()


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFSOCK])
def test_zip_members_that_are_no_plain_files_are_refused(tmp_path, into, mode):
    path = write_zip(tmp_path / "x.zip", (zip_member("link", mode | 0o777), b"/etc/passwd"))
    with pytest.raises(SubmissionError, match="is a link or a device"):
        unpack(path, into)
    assert not into.exists()


def test_a_file_through_a_link_of_the_same_archive_is_refused(tmp_path, into):
    path = write_tar(
        tmp_path / "x.tgz",
        tar_member("way", kind=tarfile.SYMTYPE, link=str(tmp_path)),
        tar_member("way/evil", b"evil"),
    )
    with pytest.raises(SubmissionError, match="'way' is a link"):
        unpack(path, into)
    assert not (tmp_path / "evil").exists()


def test_an_encrypted_member_is_refused(tmp_path, into):
    path = write_zip(tmp_path / "x.zip", (zip_member("secret"), b"data"))
    raw = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= 1
    path.write_bytes(raw)
    with pytest.raises(SubmissionError, match=r"'secret' is .*encrypted"):
        unpack(path, into)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_methods_without_a_bound_are_refused(tmp_path, into, method):
    info = zip_member("file")
    info.compress_type = method
    with pytest.raises(SubmissionError, match="uses an unusual compression method"):
        unpack(write_zip(tmp_path / "x.zip", (info, b"data")), into)


@pytest.mark.parametrize(
    "names", [("a", "a"), ("a", "./a"), ("a", "A"), ("a", "a/b"), ("a/b", "a"), ("a/b", "a//b")]
)
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_name_that_stands_twice_is_refused(tmp_path, into, kind, names):
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        with pytest.warns(UserWarning) if len(set(names)) == 1 else nullcontext():
            write_zip(path, *((zip_member(name), b"") for name in names))
    else:
        write_tar(path, *(tar_member(name) for name in names))
    with pytest.raises(SubmissionError, match=r"it contains 'a(/b)?' more than once"):
        unpack(path, into)


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_a_bomb_is_stopped_at_the_limit(tmp_path, into, kind):
    path, bomb = tmp_path / f"x.{kind}", bytes(20_000_000)
    if kind == "zip":
        write_zip(path, (zip_member("bomb"), bomb))
    else:
        write_tar(path, tar_member("bomb", bomb))
    assert path.stat().st_size < 50_000
    with pytest.raises(SubmissionError, match="unpacks to more than 1,000,000 bytes"):
        unpack(path, into, limit_bytes=1_000_000)
    assert sum(len(data) for data in contents(into).values()) <= 1_000_000
    unpack(path, into.with_name("allowed"), limit_bytes=20_000_000)


def test_the_limit_counts_all_members_together(tmp_path, into):
    path = write_zip(tmp_path / "x.zip", *((zip_member(f"file{i}"), bytes(400)) for i in range(3)))
    with pytest.raises(SubmissionError, match="unpacks to more than 1,000 bytes"):
        unpack(path, into, limit_bytes=1000)


def test_a_size_that_the_header_makes_small_is_not_believed(tmp_path, into):
    path = write_zip(tmp_path / "x.zip", (zip_member("bomb"), bytes(1_000_000)))
    raw = path.read_bytes().replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(raw)
    with pytest.raises(SubmissionError):
        unpack(path, into, limit_bytes=1000)
    assert sum(len(data) for data in contents(into).values()) <= 1000


def test_overlapping_zip_members_are_stopped_too(tmp_path, into):
    path = write_zip(tmp_path / "x.zip", (zip_member("aa"), bytes(600)), (zip_member("bb"), bytes(600)))
    raw = bytearray(path.read_bytes())
    second = raw.rindex(b"PK\x01\x02")
    raw[second + 42 : second + 46] = bytes(4)  # the second entry points at the first one's data
    path.write_bytes(raw)
    with pytest.raises(SubmissionError):
        unpack(path, into)


@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_too_many_members_are_refused(tmp_path, into, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "zip":
        write_zip(path, *((zip_member(f"{i}"), b"") for i in range(11)))
    else:
        write_tar(path, *(tar_member(f"{i}") for i in range(11)))
    with pytest.raises(SubmissionError, match="more than 10 files and folders"):
        unpack(path, into, limit_members=10)


def test_a_tar_header_that_claims_much_is_not_read_into_memory(tmp_path, into):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 30
    (tmp_path / "x.tgz").write_bytes(gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + bytes(3_000_000)))
    with pytest.raises(SubmissionError, match="a header of"):
        unpack(tmp_path / "x.tgz", into)


def test_many_large_tar_headers_are_stopped(tmp_path, into, monkeypatch):
    monkeypatch.setattr("decabench.archives._HEADERS", 1 << 20)
    members = [tar_member(f"{i}", pax={"comment": "c" * 900_000}) for i in range(4)]
    with pytest.raises(SubmissionError, match="more than 1,048,576 bytes"):
        unpack(write_tar(tmp_path / "x.tgz", *members), into, 1 << 20, 10)


def test_a_folder_that_claims_data_cannot_hide_a_bomb(tmp_path, into):
    info = tarfile.TarInfo("folder")
    info.type, info.size = tarfile.CHRTYPE, 1 << 32
    bomb = info.tobuf(tarfile.GNU_FORMAT) + bytes(8_000_000)
    (tmp_path / "x.tgz").write_bytes(gzip.compress(bomb))
    with pytest.raises(SubmissionError):
        unpack(tmp_path / "x.tgz", into, limit_members=10)


def damaged(path, change):
    path.write_bytes(change(path.read_bytes()))
    return path


DAMAGE = {
    "empty": lambda raw: b"",
    "another format": lambda raw: b"Rar!" + bytes(2000),
    "cut in half": lambda raw: raw[: len(raw) // 2],
    "last byte gone": lambda raw: raw[:-1],
    "byte turned": lambda raw: raw[:70] + bytes([raw[70] ^ 255]) + raw[71:],
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("kind", ["zip", "tgz"])
def test_damage_is_told_in_a_sentence(tmp_path, into, kind, case):
    path = tmp_path / f"x.{kind}"
    noise = random.Random(0).randbytes(5000)
    if kind == "zip":
        write_zip(path, (zip_member("file"), noise))
    else:
        write_tar(path, tar_member("file", noise))
    with pytest.raises(SubmissionError, match=rf"x\.{kind} is damaged, or its suffix does not match"):
        unpack(damaged(path, DAMAGE[case]), into)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw[:1536],  # no end
        lambda raw: raw[:1024] + b"X" + raw[1025:],  # the second header is no header
        lambda raw: raw + b"X" * 512,  # something follows
        lambda raw: raw[:1300],  # cut inside a header
        lambda raw: raw[:600],  # cut inside a file
    ],
)
def test_a_damaged_tar_in_a_sound_gzip_is_noticed(tmp_path, into, change):
    path = write_tar(tmp_path / "x.tgz", tar_member("a", b"data"), tar_member("b", b""))
    path.write_bytes(gzip.compress(change(gzip.decompress(path.read_bytes())[:3072])))
    with pytest.raises(SubmissionError, match="does not match the kind of archive"):
        unpack(path, into)


def test_another_suffix_is_refused_with_those_that_work(tmp_path, into):
    with pytest.raises(
        SubmissionError, match=r"x\.rar is not an archive\. The name must end in \.zip, \.tar\.gz or \.tgz"
    ):
        unpack(tmp_path / "x.rar", into)


def test_a_full_disk_is_no_fault_of_the_archive(tmp_path, into, monkeypatch):
    def open_full(path, mode, **options):
        return open("/dev/full", "wb", **options) if mode == "xb" else open(path, mode, **options)

    monkeypatch.setattr(archive_module, "open", open_full, raising=False)
    path = write_zip(tmp_path / "x.zip", (zip_member("file"), b"data"))
    with pytest.raises(StorageError, match="No space left on device") as error:
        unpack(path, into)
    assert error.value.exit_code == 3
