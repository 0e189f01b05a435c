"""Where prepared data lives, and files that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from decabench.errors import StorageError
from decabench.files import atomic_file, make_folder, storage_errors
from decabench.tasks.store import home_folder


def test_home_as_given_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DECABENCH_HOME", str(tmp_path / "variable"))
    assert home_folder(tmp_path / "given") == tmp_path / "given"
    assert home_folder() == tmp_path / "variable"


def test_home_in_the_user_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DECABENCH_HOME", raising=False)
    assert home_folder("~/data") == tmp_path / "data"
    assert home_folder().name == "decabench"


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
    ("number", "sentence"),
    [
        (errno.ENOSPC, "No space is left for"),
        (errno.EDQUOT, "No space is left for"),
        (errno.EACCES, "cannot be written"),
        (errno.EPERM, "cannot be written"),
        (errno.EROFS, "cannot be written"),
    ],
)
def test_refusals_are_sentences(tmp_path: Path, number: int, sentence: str) -> None:
    with pytest.raises(StorageError, match=sentence) as caught, storage_errors(tmp_path):
        raise OSError(number, os.strerror(number))
    assert str(tmp_path) in str(caught.value)
    assert "--home" in str(caught.value)


def test_another_error_passes(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError), storage_errors(tmp_path):
        raise IsADirectoryError(errno.EISDIR, "a folder")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="cannot be written"):
            make_folder(path)
