from __future__ import annotations

import errno
import gzip
import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from decabench.errors import StorageError
from decabench.files import (
    as_paths,
    atomic_file,
    canonical_json,
    canonical_texts,
    file_digest,
    fingerprint,
    is_within,
    lock_file,
    make_folder,
    require_within,
    storage_errors,
    sweep_temporary,
)

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, its first example


def test_atomic_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "file"
    with atomic_file(path) as file:
        file.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_atomic_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").write_bytes(b"")
    with atomic_file(tmp_path / "file"):
        pass
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "file")}
    assert len(modes) == 1


def test_atomic_file_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), atomic_file(path) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "sentence"), [(errno.ENOSPC, "No space left to write"), (errno.EROFS, "can't be written")]
)
def test_refusals_are_sentences(tmp_path: Path, number: int, sentence: str) -> None:
    with pytest.raises(StorageError, match=sentence) as caught, storage_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)
    assert "--home" in str(caught.value)


def test_a_place_where_nothing_can_be_made() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("there is no /proc")
    for make in (make_folder, lambda path: atomic_file(path).__enter__()):
        with pytest.raises(StorageError, match=r"/proc/.* can't be written \(No such file or directory\)"):
            make(Path("/proc/decabench-test"))


def test_the_message_names_the_option_for_the_place(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"denied\). Choose another place with --html\.$"):
        with storage_errors(tmp_path, "--html"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_lock_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refused(path: Any, flags: int, *more: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refused)
    sentence = rf"{re.escape(str(tmp_path))} can't be written \(Permission denied\)\. .* with --output"
    with pytest.raises(StorageError, match=sentence), lock_file(tmp_path / "file", "", option="--output"):
        pass


def test_other_errors_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ConnectionRefusedError), storage_errors(tmp_path):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "a server")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="can't be written"):
            make_folder(path)


@pytest.mark.parametrize("compress", [None, "gz", "zst"])
def test_equal_contents_give_equal_compressed_files(tmp_path: Path, compress: Any) -> None:
    content = b"line\n" * 10_000
    for name in ("one", "two"):
        with atomic_file(tmp_path / name, compress) as file:
            file.write(content[:7])
            file.write(content[7:])
    one, two = ((tmp_path / name).read_bytes() for name in ("one", "two"))
    assert one == two
    unpack = {
        None: bytes,
        "gz": gzip.decompress,
        "zst": lambda data: zstandard.decompress(data, len(content)),
    }
    assert unpack[compress](one) == content


@pytest.mark.parametrize("compress", ["gz", "zst"])
def test_a_compressed_file_that_fails(tmp_path: Path, compress: Any) -> None:
    with pytest.raises(ZeroDivisionError), atomic_file(tmp_path / "file", compress) as file:
        file.write(b"new")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_file_digest(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert file_digest(tmp_path / "abc") == f"sha256:{ABC}"
    for name in ("a", "bc"):
        (tmp_path / name).write_bytes(name.encode())
    assert file_digest(tmp_path / "a", tmp_path / "bc") == f"sha256:{ABC}"


def test_canonical_json() -> None:
    assert canonical_json({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'


@given(st.lists(st.text(st.characters(exclude_categories=()))))
def test_canonical_texts_are_canonical_json(texts: list[str]) -> None:
    assert canonical_texts(texts) == canonical_json(texts)


def test_fingerprint_is_the_sha256_of_canonical_json() -> None:
    expected = hashlib.sha256('{"a":[1,"é"],"b":null}'.encode()).hexdigest()
    assert fingerprint({"b": None, "a": [1, "é"]}) == f"sha256:{expected}"
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint({"a": float("nan")})


WRITER = """
import os, sys
from decabench.files import atomic_file
with atomic_file(__import__("pathlib").Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_files_of_killed_writers_are_removed_and_those_of_running_writers_stay(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / name)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("killed", "alive")
    ]
    for writer in writers:
        assert writer.stdout is not None and writer.stdout.readline() == b"writing\n"
    killed, alive = writers
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert len(list(tmp_path.iterdir())) == 2
    assert [path.name[:18] for path in sweep_temporary(tmp_path)] == [".decabench-killed."]
    alive.communicate()  # its input ends, and it finishes what it writes
    assert [path.name for path in tmp_path.iterdir()] == ["alive"]
    assert (tmp_path / "alive").read_bytes() == b"half"


def test_only_our_own_temporary_files_are_removed(tmp_path: Path) -> None:
    ours = [".decabench-a.abcdef12.tmp", ".decabench-results.json.k3_x9a2b.tmp"]
    others = [".a.tmp", "a.abcdef12.tmp", ".decabench-a.ABCDEF12.tmp", ".decabench-a.abcdef12.tmp.bak"]
    others += [".decabench-.abcdef12.tmp", ".results.json.abcdef12.tmp"]  # the last is any other program's
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in [*ours, *others]:
        (tmp_path / name).write_text("x")
    (inner / ours[0]).write_text("x")
    (inner / ".decabench-link.abcdef12.tmp").symlink_to(tmp_path / others[0])
    folder = tmp_path / ".decabench-folder.abcdef12.tmp"
    (folder / "more").mkdir(parents=True)
    assert {path.name for path in sweep_temporary(tmp_path)} == {*ours, folder.name}
    assert (inner / ours[0]).exists()
    assert sweep_temporary(tmp_path, recursive=True) == [inner / ours[0]]
    assert {path.name for path in tmp_path.iterdir()} == {*others, "inner"}
    assert (inner / ".decabench-link.abcdef12.tmp").is_symlink()
    assert sweep_temporary(tmp_path / "missing") == []


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for path in (folder / "inner", elsewhere):
        path.mkdir(parents=True)
    (folder / "out").symlink_to(elsewhere)
    (folder / "in").symlink_to(folder / "inner")
    assert is_within(folder, folder / "in" / "file") and is_within(folder, folder)
    assert not is_within(folder, folder / "out" / "file")
    require_within(folder, folder / "in", folder / "new" / "file")
    with pytest.raises(StorageError, match="a link leads out of"):
        require_within(folder, folder / "in", folder / "out" / "file")


def test_one_path_or_several() -> None:
    assert as_paths("own.toml") == as_paths(Path("own.toml")) == as_paths(["own.toml"]) == [Path("own.toml")]
    assert as_paths(iter(("a", Path("b")))) == [Path("a"), Path("b")]
    assert as_paths(()) == []
