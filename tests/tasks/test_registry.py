"""The tasks: the decathlon's in the paper's order, near matches, and sources that are pinned as published."""

from __future__ import annotations

import re

import pytest

from decabench.errors import UnknownNameError
from decabench.tasks import TASKS, get_task
from decabench.tasks.task import RemoteFile, Task

EVERY_TASK = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


def remote_files(task: Task) -> list[RemoteFile]:
    return [file for source in task.sources for files in source.files.values() for file in files]


PINNED = {
    file.name: file
    for task in TASKS.values()
    for file in remote_files(task)
    if file.sha256 or file.md5 or file.git_blob
}


@EVERY_TASK
def test_what_a_person_reads(task: Task) -> None:
    assert all((task.title, task.dataset, task.licence, task.homepage))
    assert re.search(r" et al\. \d{4}, ", task.citation)
    assert task.origin == "decabench"


@EVERY_TASK
def test_files_of_a_source_have_one_meaning(task: Task) -> None:
    for source in task.sources:
        by_name: dict[str, RemoteFile] = {}
        for split, files in source.files.items():
            assert len({file.name for file in files}) == len(files) > 0, (source.name, split)
            for file in files:
                assert by_name.setdefault(file.name, file) == file
                assert not file.name.startswith(("/", ".")) and ".." not in file.name
    assert len({source.name for source in task.sources}) == len(task.sources)


@pytest.mark.parametrize("file", PINNED.values(), ids=PINNED)
def test_digests_have_their_form(file: RemoteFile) -> None:
    for digest, digits in ((file.sha256, 64), (file.md5, 32), (file.git_blob, 40)):
        assert digest is None or re.fullmatch(f"[0-9a-f]{{{digits}}}", digest)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("sqaud2", "Did you mean squad2 or squad?"),
        ("woz", "Did you mean woz.en or woz.de?"),
        ("wikisq", "Did you mean wikisql?"),
        ("Schema", "Did you mean schema?"),
        ("xyzzy", ""),
    ],
)
def test_an_unknown_name(name: str, hint: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        get_task(name)
    told = str(caught.value)
    assert told.startswith(f"There is no task {name!r}.{' ' if hint else ''}{hint}")
    assert told.endswith(" For a task of your own, give its file with --include.")
    known = re.search(r"Known: (.*) and (\d+) more\.", told)
    assert (known is None) == ("Did you mean" in told) == bool(hint)
    if known is not None:
        named = known[1].split(", ")
        assert (named, len(named) + int(known[2])) == (list(TASKS)[: len(named)], len(TASKS))
    assert isinstance(caught.value, ValueError)


def test_the_name_of_a_suite_is_no_task() -> None:
    with pytest.raises(
        UnknownNameError, match="fdu is a suite, not a task: choose its tasks with --suite fdu"
    ):
        get_task("fdu")
