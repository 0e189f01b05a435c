from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, MissingDataError, StorageError
from decabench.tasks.example import Example
from decabench.tasks.outputs import Label, Output, Text
from decabench.tasks.preparation import (
    SAMPLE_FOLDER,
    Preparation,
    Request,
    describe_missing,
    prepare_all,
    prepare_task,
)
from decabench.tasks.registry import TASKS, load_included
from decabench.tasks.store import SplitRecord, Store
from decabench.tasks.task import Files, RemoteFile, Source, Task
from tests.sources import ROOT
from tests.tasks.fixtures import is_prepared, lines_task, write_lines
from tests.tasks.sources.server import FileServer

# From files to splits: prepared once, again only if something changed, and never partially.

TASK = lines_task()
SST = TASKS["sst"]
Requests = Callable[..., Request]


def stamps(request: Request, task: Task = TASK) -> dict[str, tuple[int, int]]:
    """Return the inode and time of every file of the task, which change when a file is written again."""
    folder = Store(request.home).folder(task.name)
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in sorted(folder.iterdir())}


def answers(request: Request, split: str, task: Task = TASK) -> list[str]:
    return [example.answers[0] for example in Store(request.home).examples(task.name, split)]


@pytest.mark.parametrize(
    ("output", "metric", "answers", "told"),
    [
        (
            Label(("a", "b")),
            "accuracy",
            ["a", "c", "c"],
            "lines.test.1: The answer 'c' is not one of the labels a, b",
        ),
        (
            Text(),
            "lfem",
            ["SELECT where FROM table", "SELECT a FROM table"],
            "lines.test.0: The answer has a query",
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
    assert sorted(stamps(request)) == ["places.json", "task.json", "train.parquet"]
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


def test_a_truncated_file_of_a_mirror_is_named_with_both_sizes(request_for: Requests, tmp_path: Path) -> None:
    write_lines(tmp_path / "mirror" / "sst" / "dev_binary_sent.csv", ["label,sentence", '1,"Go'])
    message = (
        r"line 2.* dev_binary_sent\.csv differs from the published file \(21 bytes instead of 92,802\)\. Copy"
    )
    with pytest.raises(DataError, match=message):
        prepare_task(SST, request_for(mirror=str(tmp_path / "mirror"), split="validation"))


def test_a_changed_file_of_the_mirror(request_for: Requests, words: Path) -> None:
    request = request_for(mirror=str(words))
    prepare_task(TASK, request)
    write_lines(words / "lines" / "test.txt", ["test new", "test two"])
    assert not is_prepared(TASK, request)
    prepare_task(TASK, request)
    assert answers(request, "test") == ["test new", "test two"]
    assert answers(request, "train") == ["train one", "train two"]


@pytest.mark.parametrize("name", ["test.parquet", "task.json", "places.json"])
def test_missing_files_are_prepared_again(request_for: Requests, words: Path, name: str) -> None:
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
    named = (
        request_for() if damage in ("cut", "deleted") else request
    )  # an altered split has its mirror on record
    (ended,) = prepare_all([TASK], named, 1)
    assert (ended.altered, ended.was_ready, ended.records) == ((split,), False, first)
    assert path.read_bytes() == content
    assert stamps(request)["validation.parquet"] == before["validation.parquet"]
    (again,) = prepare_all([TASK], request, 1)
    assert (again.altered, again.was_ready) == ((), True)


def test_a_mirror_without_the_files_of_a_split(request_for: Requests, words: Path) -> None:
    (words / "lines" / "train.txt").unlink()
    (form,) = TASK.sources
    files = {**form.files, "train": (*form.files["train"], *form.files["test"])}  # test.txt is there
    task, request = replace(TASK, sources=(replace(form, files=files),)), request_for(mirror=str(words))
    with pytest.raises(
        MissingDataError,
        match=r"lines does not contain train\.txt, so train could not be prepared\. The other splits were prepared\.$",
    ):
        prepare_task(task, request)
    assert answers(request, "test") == ["test one", "test two"]
    assert not is_prepared(task, request)
    write_lines(words / "lines" / "train.txt", ["train one"])
    assert prepare_task(task, request)["train"].rows == 1


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
    assert stamps(request) == before
    assert is_prepared(TASK, request)
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


@pytest.mark.parametrize(
    "options", [[], pytest.param(["force"], marks=pytest.mark.heavy)], ids=["second waits", "both write"]
)
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


# Tasks made from the same files: one folder in a mirror and among the downloads, and each task prepared on its own.

WORDS = lines_task()
FIRST, SECOND = (replace(WORDS, name=f"words.{name}", shared_folder="words") for name in ("first", "second"))


@pytest.fixture
def shared_words(tmp_path: Path) -> Path:
    for split in ("train", "validation", "test"):
        write_lines(tmp_path / "mirror" / "words" / f"{split}.txt", [f"{split} one", f"{split} two"])
    return tmp_path / "mirror"


@pytest.mark.parametrize("name", ["../words", "Words", "/words"])
def test_a_folder_that_is_no_name(name: str) -> None:
    with pytest.raises(DataError, match="'shared_folder' must be a valid task name"):
        replace(WORDS, shared_folder=name)


def test_a_mirror_has_the_files_once(request_for: Requests, shared_words: Path) -> None:
    request = request_for(mirror=str(shared_words))
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


def test_what_one_task_downloaded_the_other_reads(request_for: Requests, shared_words: Path) -> None:
    with FileServer(shared_words / "words") as server:
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


# From a server to splits: cut files are refused or reported, and unreadable files are downloaded again.


def test_upstream_without_a_digest_is_counted(request_for: Requests, published_sst: FileServer) -> None:
    url = f"{published_sst.url}/dev_binary_sent.csv"
    file = RemoteFile("dev_binary_sent.csv", (url,))
    form = Source("csv", {"validation": (file,)}, TASKS["sst"].sources[0].read)
    request = request_for(split="validation")
    with pytest.raises(DataError) as caught:
        prepare_task(replace(TASKS["sst"], sources=(form,)), request)
    assert str(caught.value) == (
        "The validation split of sst has only 32 of 872 examples. Download the files again with --force."
    )
    assert not Store(request.home).path("sst", "validation").exists()
    counted = replace(form, counts={"validation": 32})
    assert prepare_task(replace(TASKS["sst"], sources=(counted,)), request)["validation"].rows == 32


@pytest.fixture
def published_sst():  # type: ignore[no-untyped-def]
    with FileServer(SAMPLE_FOLDER / "sst") as server:
        yield server


def made_record(rows: int, origin: str = "mirror", status: str = "mirror-differs") -> SplitRecord:
    file = {"name": "dev_binary_sent.csv", "status": status, "size": 45}
    return SplitRecord(rows, "sha256:", origin, "upstream csv", False, (file,), 1)


def test_what_is_missing_is_said() -> None:
    sst = TASKS["sst"]
    assert describe_missing(sst, "validation", made_record(872)) == ""
    assert describe_missing(sst, "validation", made_record(32, "sample")) == ""
    assert describe_missing(sst, "validation", made_record(1)) == (
        "validation has 1 of the 872 published examples, because dev_binary_sent.csv (45 bytes instead of 92,802) "
        "is not the published file"
    )
    assert describe_missing(sst, "validation", made_record(873, status="verified")) == (
        "validation has 873 examples, 1 more than published (read from dev_binary_sent.csv)"
    )


# Several tasks at once: each has its own outcome, in the given order.

NAMES = ("sst", "schema")


def home_bytes(home: Path) -> dict[str, bytes]:
    """Return all parquet files and records in a home."""
    paths = [*home.glob("tasks/*/*.parquet"), *home.glob("tasks/*/task.json")]
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def test_processes_give_the_same_bytes(tmp_path: Path) -> None:
    tasks = [TASKS[name] for name in NAMES]
    for jobs in (1, 2):
        outcomes = prepare_all(tasks, Request(tmp_path / str(jobs), sample=True, progress=False), jobs)
        assert [outcome.task for outcome in outcomes] == list(NAMES)
        assert not any(outcome.error for outcome in outcomes)
    one, two = home_bytes(tmp_path / "1"), home_bytes(tmp_path / "2")
    assert len(one) == len(NAMES) * (3 + 1)  # splits and the record
    assert one == two


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_a_task_that_fails_stops_no_other(request_for: Requests, tmp_path: Path, jobs: int) -> None:
    mirror = tmp_path / "mirror"
    write_lines(mirror / "sst" / "dev_binary_sent.csv", ["label,sentence", "1,Good"])
    write_lines(
        mirror / "srl" / "wiki1.dev.qa",
        ["WIKI1_1\t1", "Bo ran .", "1\tran\t1", "who\t_\t_\tran\t_\t_\t_\t?\tLiv", ""],
    )
    write_lines(mirror / "woz.en" / "woz_validate_en.json", ['[{"turns": []}]'])
    reports: list[Preparation] = []
    outcomes = prepare_all(
        [TASKS[name] for name in ("srl", "woz.en", "wikisql", "sst")],
        request_for(mirror=str(mirror), split="validation"),
        jobs,
        report=reports.append,
    )
    srl, woz, wikisql, sst = outcomes
    assert "wiki1.dev.qa, line 4: the answer 'Liv' does not occur in its sentence" in srl.error
    assert "dialogue 1: 'dialogue' is missing" in woz.error
    assert "no data.tar.bz2" in wikisql.error
    assert {outcome.exit_code for outcome in (srl, woz, wikisql)} == {3}
    assert (sst.error, sst.exit_code, sst.records["validation"].rows) == ("", 0, 1)
    assert sorted(reports, key=str) == sorted(outcomes, key=str)


_TWO_TASKS = """
import os, signal
from dataclasses import replace
from decabench.tasks import TASKS, Example

def good(files, split):
    yield Example(split, "q", "c", ("positive",), ("g",))

def bad(files, split):
    os.kill(os.getpid(), signal.SIGKILL)
    yield

def task(name, read):
    source = replace(TASKS["sst"].sources[0], read=read)
    return replace(TASKS["sst"], name=name, sources=(source,))

GOOD, KILLED = task("good", good), task("killed", bad)
"""


def test_a_task_of_an_included_file(request_for: Requests, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "two.py", [_TWO_TASKS.replace("os.kill", "print")])
    mirror = write_mirror(tmp_path)
    outcomes = prepare_all(load_included(path), request_for(mirror=mirror), 2, [path])
    assert [(outcome.task, bool(outcome.error)) for outcome in outcomes] == [
        ("good", False),
        ("killed", True),
    ]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_process_that_is_killed_is_a_sentence(request_for: Requests, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "two.py", [_TWO_TASKS])
    tasks = [replace(task) for task in load_included(path)]
    outcomes = prepare_all(tasks, request_for(mirror=write_mirror(tmp_path)), 2, [path])
    killed = outcomes[1]
    assert killed.exit_code == 3
    assert "killed" in killed.error
    assert "--jobs 1" in killed.error


def write_mirror(folder: Path) -> str:
    for name in ("good", "killed"):
        for part in ("train", "dev", "test"):
            write_lines(folder / "mirror" / name / f"{part}_binary_sent.csv", ["label,sentence"])
    return str(folder / "mirror")
