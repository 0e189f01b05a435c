"""Several tasks at once: each ends in an outcome of its own, in the order asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from decabench.tasks.preparation import Preparation, Request, prepare_all
from decabench.tasks.registry import TASKS, load_included
from tests.tasks.fixtures import write_lines

NAMES = ("sst", "woz.en", "schema", "srl")
Requests = Callable[..., Request]


def home_bytes(home: Path) -> dict[str, bytes]:
    """Every parquet file and record below a home."""
    paths = [*home.glob("tasks/*/*.parquet"), *home.glob("tasks/*/task.json")]
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def test_processes_give_the_same_bytes(tmp_path: Path) -> None:
    tasks = [TASKS[name] for name in NAMES]
    for jobs in (1, 2):
        outcomes = prepare_all(tasks, Request(tmp_path / str(jobs), sample=True, progress=False), jobs)
        assert [outcome.task for outcome in outcomes] == list(NAMES)
        assert not any(outcome.error for outcome in outcomes)
    one, two = home_bytes(tmp_path / "1"), home_bytes(tmp_path / "2")
    assert len(one) == 4 * (3 + 1)  # splits and the record
    assert one == two


@pytest.mark.parametrize("jobs", [1, 2])
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
    assert "wiki1.dev.qa, line 4: an answer is not in its sentence" in srl.error
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
