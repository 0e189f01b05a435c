"""Tasks made from the same files: one folder in a mirror and among the downloads, and each task prepared on its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.errors import DataError, MissingDataError
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.store import Store
from decabench.tasks.task import RemoteFile
from tests.tasks.fixtures import lines_task, write_lines
from tests.tasks.sources.server import FileServer

Requests = Callable[..., Request]

TASK = lines_task()
FIRST, SECOND = (replace(TASK, name=f"words.{name}", shared_folder="words") for name in ("first", "second"))


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    for split in ("train", "validation", "test"):
        write_lines(tmp_path / "mirror" / "words" / f"{split}.txt", [f"{split} one", f"{split} two"])
    return tmp_path / "mirror"


@pytest.mark.parametrize("name", ["../words", "Words", "/words"])
def test_a_folder_that_is_no_name(name: str) -> None:
    with pytest.raises(DataError, match="A shared folder must be named like a task"):
        replace(TASK, shared_folder=name)


def test_a_mirror_has_the_files_once(request_for: Requests, mirror: Path) -> None:
    request = request_for(mirror=str(mirror))
    for task in (FIRST, SECOND):
        assert {split: record.rows for split, record in prepare_task(task, request).items()} == dict.fromkeys(
            ("train", "validation", "test"), 2
        )
    assert {path.name for path in (request.home / "tasks").iterdir() if path.is_dir()} == {
        "words.first",
        "words.second",
    }


def test_a_mirror_without_them_says_where_they_belong(request_for: Requests, tmp_path: Path) -> None:
    with pytest.raises(
        MissingDataError, match="words does not contain the files for words: 'words': no train"
    ):
        prepare_task(FIRST, request_for(mirror=str(tmp_path)))


def test_what_one_task_downloaded_the_other_reads(request_for: Requests, mirror: Path) -> None:
    with FileServer(mirror / "words") as server:
        files = {
            split: (RemoteFile(f"{split}.txt", (f"{server.url}/{split}.txt",)),)
            for split in ("train", "validation", "test")
        }
        tasks = [replace(task, sources=(replace(task.sources[0], files=files),)) for task in (FIRST, SECOND)]
        with ThreadPoolExecutor() as pool:
            records = list(pool.map(lambda task: prepare_task(task, request_for()), tasks))
        assert len(server.seen) == 3
    assert [record["train"].rows for record in records] == [2, 2]
    raw = request_for().home / "raw"
    assert [path.name for path in raw.iterdir() if path.is_dir()] == ["words"]
    store = Store(request_for().home)
    assert store.record("words.first", "test").fingerprint == records[0]["test"].fingerprint
