"""Results are reused only if this machine computed them from the same answers, data, metrics and code."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decabench.errors import DataError, SubmissionError
from decabench.metrics import METRICS
from decabench.scoring import ScoringOptions, compare, score_submission, task_results
from decabench.submission import write_submission
from decabench.tasks import Store, prepare

TASKS = ("sst", "woz.en", "schema")
Write = Callable[..., Path]


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy of part of the sample, with an empty ledger."""
    for name in TASKS:
        shutil.copytree(home / "tasks" / name, tmp_path / "home" / "tasks" / name)
    return tmp_path / "home"


@pytest.fixture
def write(own_home: Path, tmp_path: Path) -> Write:
    """Write answers with every second or third one wrong."""

    def make(name: str, step: int = 3) -> Path:
        folder, store = tmp_path / name, Store(own_home)
        answers = {
            (task, "validation"): [
                (one.id, "other" if number % step == 0 else one.answers[0])
                for number, one in enumerate(store.examples(task, "validation"))
            ]
            for task in TASKS
        }
        write_submission(folder, name, answers)
        return folder

    return make


@pytest.fixture
def scored_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the headline metrics computed from now on."""
    computed: list[str] = []
    score_task = task_results.score_task

    def watch(metrics, *rest):  # type: ignore[no-untyped-def]
        computed.append(metrics[0])
        return score_task(metrics, *rest)

    monkeypatch.setattr(task_results, "score_task", watch)
    return computed


def entries(home: Path) -> list[Path]:
    return sorted((home / "ledger").glob("*/*"))


def test_what_the_ledger_knows_is_not_scored_and_equal_to_the_last_digit(
    own_home: Path, write: Write, scored_tasks: list[str]
) -> None:
    folder, options = write("a"), ScoringOptions(home=own_home)
    results, scored = score_submission(folder, options)
    assert len(scored_tasks) == len(entries(own_home)) == len(TASKS)
    scored_tasks.clear()
    again, known = score_submission(folder, options)
    assert scored_tasks == []
    assert again.to_json() == results.to_json()
    for name in TASKS:
        one, other = scored[name], known[name]
        assert list(one.predictions) == list(other.predictions)
        assert list(one.references) == list(other.references)
        assert one.files == other.files
        assert one.sample is not None and other.sample is not None
        for a, b in (
            (one.rows, other.rows),
            (one.units, other.units),
            (one.sample.rows, other.sample.rows),
            (one.sample.effects, other.sample.effects),
        ):
            assert a.dtype == b.dtype and a.tobytes() == np.ascontiguousarray(b).tobytes()
        assert one.sample.spread == other.sample.spread


def test_compare_gives_the_same_bytes_without_scoring(
    own_home: Path, write: Write, scored_tasks: list[str]
) -> None:
    a, b = write("a"), write("b", 2)
    first = compare(a, b, home=own_home).to_json()
    assert len(scored_tasks) == 2 * len(TASKS)
    assert compare(a, b, home=own_home).to_json() == first
    assert len(scored_tasks) == 2 * len(TASKS)


def test_scoring_again_goes_past_the_ledger(own_home: Path, write: Write, scored_tasks: list[str]) -> None:
    options = ScoringOptions(home=own_home, again=True)
    for _ in range(2):
        score_submission(write("a"), options)
    assert len(scored_tasks) == 2 * len(TASKS)


def test_a_ledger_in_a_submission_is_never_read(
    own_home: Path, write: Write, scored_tasks: list[str]
) -> None:
    folder = write("a")
    score_submission(folder, ScoringOptions(home=own_home))
    shutil.move(own_home / "ledger", folder / "ledger")
    shutil.copytree(folder / "ledger", folder / "results" / "ledger")
    scored_tasks.clear()
    score_submission(folder, ScoringOptions(home=own_home))
    assert len(scored_tasks) == len(TASKS)


@pytest.mark.parametrize("kind", ["cut", "edited", "copied", "empty", "folder"])
def test_damaged_and_foreign_entries_count_for_nothing(
    own_home: Path, write: Write, scored_tasks: list[str], kind: str
) -> None:
    folder, options = write("a"), ScoringOptions(home=own_home)
    before, _ = score_submission(folder, options)
    found = {path: path.read_bytes() for path in entries(own_home)}
    for path, other in zip(found, [*list(found.values())[1:], *list(found.values())[:1]], strict=True):
        content = found[path]
        edited = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
        made = {"cut": content[:-20], "edited": edited, "copied": other, "empty": b""}
        path.unlink()
        if kind == "folder":
            path.mkdir()
        else:
            path.write_bytes(made[kind])
    scored_tasks.clear()
    assert score_submission(folder, options)[0].to_json() == before.to_json()
    assert len(scored_tasks) == len(TASKS)


def test_a_submission_that_moved_and_answers_with_another_name_for_their_author(
    own_home: Path, write: Write, scored_tasks: list[str]
) -> None:
    folder = write("a")
    first, _ = score_submission(folder, ScoringOptions(home=own_home))
    moved = folder.rename(folder.parent / "elsewhere")
    path = moved / "submission.toml"
    path.write_text(path.read_text().replace('name = "a"', 'name = "c"'))
    scored_tasks.clear()
    results, _ = score_submission(moved, ScoringOptions(home=own_home))
    assert scored_tasks == [] and results.tasks == first.tasks and results.submission["name"] == "c"


def test_changed_answers_are_scored(own_home: Path, write: Write, scored_tasks: list[str]) -> None:
    a, b = write("a"), write("b", 2)
    compare(a, b, home=own_home)
    shutil.copy(a / "predictions" / "sst.validation.jsonl", b / "predictions" / "sst.validation.jsonl")
    scored_tasks.clear()
    assert compare(a, b, home=own_home).tasks["sst"].difference == 0
    assert scored_tasks == []  # A's entry applies to these bytes in any submission
    (b / "predictions" / "sst.validation.jsonl").write_text(
        (a / "predictions" / "sst.validation.jsonl").read_text() + "\n"
    )
    assert compare(a, b, home=own_home).tasks["sst"].difference == 0
    assert scored_tasks == ["em"]


@pytest.mark.parametrize("change", ["metric", "code", "record", "raw", "partial"])
def test_a_change_to_anything_that_decides_a_score_misses_the_entry(
    own_home: Path, write: Write, scored_tasks: list[str], monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, options = write("a"), ScoringOptions(home=own_home)
    score_submission(folder, options)
    scored_tasks.clear()
    expected = ["em", "em", "joint_goal_em"]
    if change == "metric":
        monkeypatch.setitem(METRICS, "em", replace(METRICS["em"], signature="em|v:2"))
        expected = ["em", "em"]
    elif change == "code":
        monkeypatch.setattr(task_results, "code_digest", lambda: "other")
    elif change == "record":
        path = own_home / "tasks" / "woz.en" / "task.json"
        content = json.loads(path.read_text())
        content["splits"]["validation"]["note"] = "another note"
        path.write_text(json.dumps(content))
        expected = ["joint_goal_em"]
    elif change == "raw":
        options = replace(options, answers="raw")
    else:
        path = folder / "submission.toml"
        size = len(Store(own_home).ids("sst", "validation"))
        lines = (folder / "predictions" / "sst.validation.jsonl").read_text().splitlines(keepends=True)
        (folder / "predictions" / "sst.validation.jsonl").write_text("".join(lines[:-1]))
        path.write_text(
            f'{path.read_text()}\n[partial."sst.validation"]\nanswered = {size - 1}\nof = {size}\nchosen = "limit"\n'
        )
        expected = ["em"]
    for _ in range(2):
        _, scored = score_submission(folder, options)
    assert sorted(scored_tasks) == expected
    assert len(scored["sst"].references) == len(scored["sst"].predictions) == scored["sst"].result.n


def test_the_scores_of_other_wordings_are_kept(own_home: Path, write: Write, scored_tasks: list[str]) -> None:
    folder = write("a")
    other = folder / "variants" / "1" / "predictions"
    other.mkdir(parents=True)
    shutil.copy(write("b", 2) / "predictions" / "sst.validation.jsonl", other)
    options = ScoringOptions(tasks=["sst"], home=own_home)
    first, scored = score_submission(folder, options)
    scored_tasks.clear()
    again, known = score_submission(folder, options)
    assert scored_tasks == [] and again.to_json() == first.to_json()
    assert (scored["sst"].variant_rows[1] == known["sst"].variant_rows[1]).all()


def test_several_writers_and_a_home_that_cannot_be_written(own_home: Path, write: Write) -> None:
    folder, options = write("a"), ScoringOptions(home=own_home)
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: score_submission(folder, options)[0].to_json(), range(4)))
    assert len(texts) == 1 and len(entries(own_home)) == len(TASKS)
    shutil.rmtree(own_home / "ledger")
    (own_home / "ledger").write_text("not a folder")
    assert score_submission(folder, options)[0].to_json() in texts


def test_entries_of_other_code_are_swept_once_they_are_old(own_home: Path, write: Write) -> None:
    task_results._sweep.cache_clear()
    folder, outside = own_home / "ledger", own_home / "elsewhere"
    outside.mkdir()
    for name in ("old", "new"):
        (folder / name).mkdir(parents=True)
        (folder / name / "one").write_text("")
    (folder / "link").symlink_to(outside)
    old = time.time() - 8 * 24 * 3600
    os.utime(folder / "old", (old, old))
    score_submission(write("a"), ScoringOptions(home=own_home))
    assert {path.name for path in folder.iterdir()} == {"new", "link", task_results.code_digest()[:16]}
    assert outside.is_dir()


# Changes while scoring


def test_answers_that_change_while_they_are_scored_are_not_kept(
    own_home: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the new bytes would get the old bytes' score."""
    good, bad = write("a"), write("b", 2)
    racing = tmp_path / "racing"
    shutil.copytree(good, racing)
    answers = "predictions/sst.validation.jsonl"
    real = task_results.score_task

    def scoring(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]
        shutil.copy(bad / answers, racing / "other")
        os.replace(racing / "other", racing / answers)
        return found

    monkeypatch.setattr(task_results, "score_task", scoring)
    with pytest.raises(SubmissionError, match="The answers for sst changed while they were being scored"):
        score_submission(racing, ScoringOptions(tasks=["sst"], home=own_home))
    monkeypatch.undo()
    assert entries(own_home) == []
    difference = compare(good, bad, home=own_home, tasks=["sst"]).tasks["sst"]
    assert difference.a != difference.b


def test_data_that_changes_while_it_is_used_gives_no_result(
    own_home: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write("a")
    record = own_home / "tasks" / "sst" / "task.json"
    real = task_results.score_task

    def scoring(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]
        content = json.loads(record.read_text())
        content["splits"]["validation"]["fingerprint"] = "sha256:" + "0" * 64
        record.write_text(json.dumps(content))
        return found

    monkeypatch.setattr(task_results, "score_task", scoring)
    with pytest.raises(DataError, match="The data for sst was prepared again during scoring"):
        score_submission(folder, ScoringOptions(tasks=["sst"], home=own_home))
    assert entries(own_home) == []


READER = """
from functools import partial

from decabench.tasks import Example, RemoteFile, Source, Task

def read(files, split):
    for number in range(3):
        yield Example(f"own.{split}.{number}", "Which?", f"Number {number}.", (str(number),), (str(number),))

SOURCE = Source("here", {"validation": (RemoteFile("own.py"),)}, read)
OWN = Task("own", "own", "own", "em", {}, (SOURCE,), "CC0", "", folder=__import__("pathlib").Path(__file__).parent)
"""


@pytest.mark.parametrize("reader", ["read", "partial(read)"])
def test_a_changed_reader_of_a_task_misses_the_entry(
    tmp_path: Path, scored_tasks: list[str], reader: str
) -> None:
    file, home = tmp_path / "own.py", tmp_path / "home"
    code = READER.replace(", read)", f", {reader})")
    file.write_text(code)
    prepare("own", home=home, include=file)
    answers = [(f"own.validation.{number}", str(number)) for number in range(3)]
    folder = tmp_path / "s"
    write_submission(folder, "s", {("own", "validation"): answers})
    options = ScoringOptions(home=home, include=file)
    keys = set()
    for text in (code, code, f"{code}# read in another way\n"):
        file.write_text(text)
        keys.add(score_submission(folder, options)[1]["own"].key)
    assert len(keys) == len(scored_tasks) == 2 and "" not in keys
