"""From files to splits: once, again only where something changed, and never half."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label, Output, Text
from decabench.tasks.preparation import (
    Request,
    is_prepared,
    prepare_all,
    prepare_task,
)
from decabench.tasks.registry import TASKS
from decabench.tasks.store import Store
from decabench.tasks.task import Files, Task
from tests.tasks.commands import ROOT
from tests.tasks.fixtures import lines_task, write_lines

TASK = lines_task()
SST = TASKS["sst"]
Requests = Callable[..., Request]


def stamps(request: Request, task: Task = TASK) -> dict[str, tuple[int, int]]:
    """Inode and time of every file of the task: a file written anew has another."""
    folder = Store(request.home).folder(task.name)
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


def answers(request: Request, split: str, task: Task = TASK) -> list[str]:
    return [example.answers[0] for example in Store(request.home).examples(task.name, split)]


def test_record(request_for: Requests, words: Path) -> None:
    record = prepare_task(TASK, request_for(mirror=str(words)))["test"]
    assert (record.rows, record.origin, record.source, record.version) == (2, "mirror", "words", 1)
    assert not record.verified
    (file,) = record.files
    assert (file["name"], file["url"], file["size"], file["status"]) == (
        "test.txt",
        "mirror:test.txt",
        18,
        "unpinned",
    )


@pytest.mark.parametrize(
    ("output", "metric", "answers", "told"),
    [
        (
            Label(("a", "b")),
            "accuracy",
            ["a", "c", "c"],
            "lines.test.1: Its answer 'c' is none of the labels a, b",
        ),
        (Label(("C", "c")), "accuracy", ["C"], "accuracy does not distinguish 'C' from 'c': rename one"),
        (
            Text(),
            "joint_goal_em",
            ["at: 8;", "at: 8:30;", "b"],
            "- lines.test.1: Its answer has a colon in a value",
        ),
        (
            Text(),
            "lfem",
            ["SELECT where FROM table", "SELECT a FROM table"],
            "lines.test.0: Its answer has a query",
        ),
    ],
)
def test_gold_of_a_task_in_python_that_would_be_misread(
    request_for: Requests, tmp_path: Path, output: Output, metric: str, answers: list[str], told: str
) -> None:
    def read(files: Files, split: str) -> Iterator[Example]:
        meta = {"header": ["a", "where"], "sql": {"sel": 0, "agg": 0, "conds": []}}
        for index, answer in enumerate(answers):
            yield Example(f"lines.{split}.{index}", "Which?", "", (answer,), (f"{index}",), meta)

    for split in ("train", "validation", "test"):
        write_lines(tmp_path / "mirror" / "lines" / f"{split}.txt", ["word"])
    task = replace(
        lines_task(read=read), output=output, metric=metric, variants=(), prompt=None, origin="user"
    )
    with pytest.raises(DataError) as caught:
        prepare_task(task, request_for(mirror=str(tmp_path / "mirror"), split="test"))
    assert told in str(caught.value)


def test_a_second_run_does_nothing(request_for: Requests, words: Path) -> None:
    request = request_for(mirror=str(words))
    assert not is_prepared(TASK, request)
    first = prepare_task(TASK, request)
    before = stamps(request)
    assert is_prepared(TASK, request)
    assert prepare_task(TASK, request) == first
    assert stamps(request) == before


def test_an_interrupted_run_goes_on_where_it_stopped(request_for: Requests, words: Path) -> None:
    reads: list[str] = []

    def read(files: Files, split: str) -> Iterator[Example]:
        reads.append(split)
        if reads == ["train", "validation"]:
            raise KeyboardInterrupt
        yield Example("a", "q", "c", ("x",), ("g",))

    task, request = lines_task(read=read), request_for(mirror=str(words))
    with pytest.raises(KeyboardInterrupt):
        prepare_task(task, request)
    assert sorted(stamps(request)) == ["inputs.json", "task.json", "train.parquet"]
    assert list(prepare_task(task, request)) == ["train", "validation", "test"]
    assert reads == ["train", "validation", "validation", "test"]


def test_from_sample_to_mirror(request_for: Requests, tmp_path: Path) -> None:
    write_lines(tmp_path / "mirror" / "sst" / "dev_binary_sent.csv", ["label,sentence", "1,Good"])
    sample = request_for(sample=True, split="validation")
    mirror = request_for(mirror=str(tmp_path / "mirror"), split="validation")
    assert prepare_task(SST, sample)["validation"].rows == 32
    assert not is_prepared(SST, mirror)
    record = prepare_task(SST, mirror)["validation"]
    assert (record.rows, record.origin) == (1, "mirror")
    assert record.files[0]["status"] == "mirror-differs"
    assert not is_prepared(SST, sample)


def test_a_changed_file_of_the_mirror(request_for: Requests, words: Path) -> None:
    request = request_for(mirror=str(words))
    prepare_task(TASK, request)
    write_lines(words / "lines" / "test.txt", ["test new", "test two"])
    assert not is_prepared(TASK, request)
    prepare_task(TASK, request)
    assert answers(request, "test") == ["test new", "test two"]
    assert answers(request, "train") == ["train one", "train two"]


@pytest.mark.parametrize("name", ["test.parquet", "task.json", "inputs.json"])
def test_what_was_taken_away_is_made_again(request_for: Requests, words: Path, name: str) -> None:
    request = request_for(mirror=str(words))
    first = prepare_task(TASK, request)
    (Store(request.home).folder("lines") / name).unlink()
    assert not is_prepared(TASK, request)
    assert prepare_task(TASK, request) == first


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("damage", ["flipped", "cut", "other examples", "another record", "deleted"])
def test_data_that_were_altered_are_made_again(
    request_for: Requests, words: Path, split: str, damage: str
) -> None:
    request = request_for(mirror=str(words))
    store, first = Store(request.home), prepare_task(TASK, request)
    path, before = store.path(TASK.name, split), stamps(request)
    content = path.read_bytes()
    if damage == "another record":
        record = store.folder(TASK.name) / "task.json"
        record.write_text(record.read_text().replace(first[split].fingerprint, "sha256:0"))
    elif damage == "other examples":
        shutil.copy(store.path(TASK.name, "validation"), path)
    elif damage == "deleted":
        path.unlink()
    else:
        cut = content[: len(content) // 2]
        path.write_bytes(
            cut if damage == "cut" else cut + bytes([content[len(cut)] ^ 1]) + content[len(cut) + 1 :]
        )
    assert not is_prepared(TASK, request)
    (ended,) = prepare_all([TASK], request_for(), 1)  # no place is named, and no mirror is read unasked
    again = f"Name a place, decabench prepare lines --split {split} --mirror PLACE"
    assert f"{split} of lines was changed since it was prepared from {words}. {again}" in ended.error
    (ended,) = prepare_all([TASK], request, 1)
    assert (ended.altered, ended.was_ready, ended.records) == ((split,), False, first)
    assert path.read_bytes() == content
    assert stamps(request)["validation.parquet"] == before["validation.parquet"]
    (again,) = prepare_all([TASK], request, 1)
    assert (again.altered, again.was_ready) == ((), True)


def test_a_mirror_without_the_files(request_for: Requests, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match=r"lines.*no train\.txt, validation\.txt, test\.txt"):
        prepare_task(TASK, request_for(mirror=str(tmp_path)))


def test_a_mirror_without_the_files_of_a_split(request_for: Requests, words: Path) -> None:
    """The other splits are prepared; the command says which file is missing, and ends with an error."""
    (words / "lines" / "train.txt").unlink()
    request = request_for(mirror=str(words))
    with pytest.raises(
        MissingDataError,
        match=r"lines does not contain train\.txt, so train is not prepared; the others are\.$",
    ):
        prepare_task(TASK, request)
    assert answers(request, "test") == ["test one", "test two"]
    assert not is_prepared(TASK, request)
    write_lines(words / "lines" / "train.txt", ["train one"])
    assert prepare_task(TASK, request)["train"].rows == 1


def test_a_failure_leaves_what_was_there(request_for: Requests, words: Path) -> None:
    request = request_for(mirror=str(words))
    first = prepare_task(TASK, request)
    write_lines(words / "lines" / "train.txt", [])
    with pytest.raises(DataError, match=r"train\.txt is empty"):
        prepare_task(TASK, request)
    assert answers(request, "train") == ["train one", "train two"]
    assert Store(request.home).records("lines") == first
    assert not is_prepared(TASK, request)


def refuse(number: int) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refused


def test_a_full_disk_in_the_middle(
    request_for: Requests, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    request = request_for(mirror=str(words))
    first = prepare_task(TASK, request)
    before = stamps(request)
    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetWriter, "write_table", refuse(errno.ENOSPC))
        with pytest.raises(StorageError, match=r"No space left to write .*train\.parquet"):
            prepare_task(TASK, replace(request, force=True))
    # What was prepared stays; only the note that it is up to date is withdrawn.
    assert {**stamps(request), "inputs.json": before["inputs.json"]} == before
    assert not is_prepared(TASK, request)
    assert Store(request.home).records("lines") == first


_TWO = """
import sys
from pathlib import Path
from typing import Any
from decabench.tasks import TASKS
from decabench.tasks.preparation import Request, prepare_task
request = Request(Path(sys.argv[1]), sample=True, progress=False, force="force" in sys.argv)
print(sorted((split, record.fingerprint) for split, record in prepare_task(TASKS["woz.en"], request).items()))
"""


@pytest.mark.parametrize("options", [[], ["force"]], ids=["second waits", "both write"])
def test_two_processes_at_once(tmp_path: Path, options: list[str]) -> None:
    command = [sys.executable, "-c", _TWO, str(tmp_path), *options]
    running = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    ended = [process.communicate(timeout=60) for process in running]
    assert [process.returncode for process in running] == [0, 0], ended
    assert ended[0][0] == ended[1][0]
    request = Request(tmp_path, sample=True)
    assert is_prepared(TASKS["woz.en"], request)
    assert not any(name.endswith(".tmp") for name in stamps(request, TASKS["woz.en"]))


def test_files_of_a_task_of_ones_own(request_for: Requests, tmp_path: Path) -> None:
    write_lines(tmp_path / "mine" / "test.txt", ["one"])
    source = replace(TASK.sources[0], files={"test": TASK.sources[0].files["test"]})
    task = replace(TASK, sources=(source,), folder=tmp_path / "mine")
    record = prepare_task(task, request_for())["test"]
    assert (record.origin, record.files[0]["url"]) == ("user", "local:test.txt")
    assert is_prepared(task, request_for())
    write_lines(tmp_path / "mine" / "test.txt", ["two"])
    assert not is_prepared(task, request_for())


def test_a_task_names_as_many_units_as_its_examples_have(words: Path, request_for: Requests) -> None:
    task = replace(lines_task(), unit_names=("article", "paragraph"))
    with pytest.raises(
        DataError, match="lines names its units article, paragraph, but an example has 1: 'lines"
    ):
        prepare_task(task, request_for(mirror=str(words)))


def test_who_names_no_place_keeps_what_a_mirror_gave(request_for: Requests, words: Path) -> None:
    """Not downloaded again, nor found to be missing offline; --force and a newer adapter still ask the source."""
    first = prepare_task(TASK, request_for(mirror=str(words)))
    assert is_prepared(TASK, request_for())
    assert prepare_task(TASK, request_for()) == first
    assert not is_prepared(TASK, request_for(force=True))
    assert not is_prepared(replace(TASK, version=2), request_for())
