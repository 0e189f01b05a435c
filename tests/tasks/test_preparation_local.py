"""Files of a task whose data lies on this machine."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import MissingDataError
from decabench.tasks.preparation import local_files
from decabench.tasks.task import RemoteFile
from tests.tasks.fixtures import lines_task, tar_bytes, write_lines


def test_files_are_read_where_they_lie(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "train.txt", ["one"])
    fetched = local_files(replace(lines_task(), folder=tmp_path), ["train"], tmp_path / "scratch")
    assert fetched.files.path("train.txt") == path
    (record,) = fetched.records
    assert (record.name, record.url, record.size) == ("train.txt", "local:train.txt", 4)
    assert record.sha256 == hashlib.sha256(b"one\n").hexdigest()
    assert (fetched.missing, fetched.source.name) == ((), "words")


def test_a_file_of_two_splits_is_one(tmp_path: Path) -> None:
    write_lines(tmp_path / "all.txt", ["one"])
    task = lines_task()
    both = dict.fromkeys(("train", "test"), (RemoteFile("all.txt"),))
    task = replace(task, folder=tmp_path, sources=(replace(task.sources[0], files=both),))
    assert len(local_files(task, ["train", "test"], tmp_path / "scratch").records) == 1


def test_only_the_files_of_the_splits_are_asked_for(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.txt", ["one"])
    task = replace(lines_task(), folder=tmp_path)
    assert len(local_files(task, ["train"], tmp_path).records) == 1
    with pytest.raises(MissingDataError, match=r"lines names validation\.txt, test\.txt, which .* has not"):
        local_files(task, ["train", "validation", "test"], tmp_path)


def test_members_of_an_archive(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(tar_bytes({"a/one": b"1"}))
    with local_files(replace(lines_task(), folder=tmp_path), ["train"], tmp_path / "scratch") as fetched:
        member = fetched.files.member("train.txt", "a/one")
        assert member.read_bytes() == b"1"
    assert not member.exists()
