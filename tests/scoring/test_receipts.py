"""Statistics are used again only if this machine computed them, from the same answers, data, metrics and code."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from decabench.errors import DataError, SubmissionError
from decabench.metrics import METRICS
from decabench.scoring import ScoringOptions, compare, evaluator, receipts, record_scores, score_submission
from decabench.submission import write_submission
from decabench.tasks import Store

TASKS = ("sst", "woz.en", "schema")
Evaluate = Callable[[str], Path]


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy of some of the sample, without receipts."""
    for name in TASKS:
        shutil.copytree(home / "tasks" / name, tmp_path / "home" / "tasks" / name)
    return tmp_path / "home"


@pytest.fixture
def evaluated(own_home: Path, tmp_path: Path) -> Evaluate:
    """Writes answers of which every third is wrong, or every second, and evaluates them."""

    def make(name: str) -> Path:
        folder, store = tmp_path / name, Store(own_home)
        step = 2 if name == "b" else 3
        answers = {
            (task, "validation"): [
                (one.id, "other" if number % step == 0 else one.answers[0])
                for number, one in enumerate(store.examples(task, "validation"))
            ]
            for task in TASKS
        }
        write_submission(folder, name, answers)
        options = ScoringOptions(home=own_home)
        results, scored = score_submission(folder, options)
        record_scores(folder, folder / "results" / "validation", results, scored, options)
        return folder

    return make


@pytest.fixture
def scored_tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The headline metrics that are computed from now on."""
    computed: list[str] = []
    score_task = evaluator.score_task

    def watch(metrics, *rest):  # type: ignore[no-untyped-def]
        computed.append(metrics[0])
        return score_task(metrics, *rest)

    monkeypatch.setattr(evaluator, "score_task", watch)
    return computed


def forget(home: Path) -> None:
    shutil.rmtree(home / "receipts")


def test_compare_gives_the_same_bytes_without_scoring(
    own_home: Path, evaluated: Evaluate, scored_tasks: list[str]
) -> None:
    a, b = evaluated("a"), evaluated("b")
    scored_tasks.clear()
    with_receipts = compare(a, b, home=own_home).to_json()
    assert scored_tasks == []
    forget(own_home)
    assert compare(a, b, home=own_home).to_json() == with_receipts
    assert len(scored_tasks) == 2 * len(TASKS)


def test_evaluate_and_verify_score_what_they_are_given(
    own_home: Path, evaluated: Evaluate, scored_tasks: list[str]
) -> None:
    folder = evaluated("a")
    scored_tasks.clear()
    score_submission(folder, ScoringOptions(home=own_home))
    assert len(scored_tasks) == len(TASKS)


def test_forged_statistics_change_no_number(
    own_home: Path, evaluated: Evaluate, scored_tasks: list[str]
) -> None:
    a, b = evaluated("a"), evaluated("b")
    before = compare(a, b, home=own_home).to_json()
    path = b / "results" / "validation" / "statistics" / "sst.parquet"
    table = pq.read_table(path)
    for name in ("nf1", "em", "nem"):
        if name in table.column_names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array([1.0] * len(table)))
    pq.write_table(table, path)
    scored_tasks.clear()
    assert compare(a, b, home=own_home).to_json() == before
    assert scored_tasks == ["em"]


def test_changed_answers_are_scored(own_home: Path, evaluated: Evaluate, scored_tasks: list[str]) -> None:
    a, b = evaluated("a"), evaluated("b")
    shutil.copy(a / "predictions" / "sst.validation.jsonl", b / "predictions" / "sst.validation.jsonl")
    scored_tasks.clear()
    assert compare(a, b, home=own_home).tasks["sst"].difference == 0
    assert scored_tasks == []  # A's receipt is for these bytes, whoever submits them
    (b / "predictions" / "sst.validation.jsonl").write_text(
        (a / "predictions" / "sst.validation.jsonl").read_text() + "\n"
    )
    assert compare(a, b, home=own_home).tasks["sst"].difference == 0
    assert scored_tasks == ["em"]


@pytest.mark.parametrize("change", ["metric", "code", "record"])
def test_a_change_to_what_decides_a_score_ends_a_receipt(
    own_home: Path,
    evaluated: Evaluate,
    scored_tasks: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    folder = evaluated("a")
    scored_tasks.clear()
    if change == "metric":
        monkeypatch.setitem(METRICS, "em", replace(METRICS["em"], signature="em|v:2"))
        expected = {"em"}
    elif change == "code":
        monkeypatch.setattr(receipts, "code_digest", lambda: "other")
        expected = {"em", "joint_goal_em"}
    else:
        path = own_home / "tasks" / "woz.en" / "task.json"
        content = json.loads(path.read_text())
        content["splits"]["validation"]["note"] = "another note"
        path.write_text(json.dumps(content))
        expected = {"joint_goal_em"}
    score_submission(folder, ScoringOptions(home=own_home, reuse=True))
    assert set(scored_tasks) == expected


def test_damaged_receipts_and_missing_statistics_count_for_nothing(
    own_home: Path, evaluated: Evaluate, scored_tasks: list[str]
) -> None:
    folder = evaluated("a")
    options = ScoringOptions(home=own_home, reuse=True)
    before, _ = score_submission(folder, options)
    scored_tasks.clear()
    for path in (own_home / "receipts").glob("*/*.json"):
        path.write_text(path.read_text()[:-20])
    assert score_submission(folder, options)[0].to_json() == before.to_json()
    assert len(scored_tasks) == len(TASKS)


def test_a_submission_that_moved(own_home: Path, evaluated: Evaluate, scored_tasks: list[str]) -> None:
    folder = evaluated("a")
    moved = folder.rename(folder.parent / "elsewhere")
    scored_tasks.clear()
    results, _ = score_submission(moved, ScoringOptions(home=own_home, reuse=True))
    assert scored_tasks == [] and len(results.tasks) == len(TASKS)


def test_receipts_of_other_code_are_swept_once_they_are_old(own_home: Path, evaluated: Evaluate) -> None:
    receipts._sweep.cache_clear()
    folder, outside = own_home / "receipts", own_home / "elsewhere"
    old = time.time() - 8 * 24 * 3600
    for name in ("old", "new"):
        (folder / name).mkdir(parents=True)
        (folder / name / "one.json").write_text("{}")
        (folder / f"{name}.json").write_text("{}")
    outside.mkdir()
    (folder / "link").symlink_to(outside)
    for name in ("old", "old.json", "link"):
        os.utime(folder / name, (old, old))
    evaluated("a")
    kept = {path.name for path in folder.iterdir()}
    assert kept == {"new", "new.json", "link", receipts.code_digest()[:16]}
    assert outside.is_dir() and len(list(folder.glob("*/*.json"))) == 1 + len(TASKS)


# Changes while scoring


@pytest.mark.parametrize("back", [False, True])
def test_answers_that_change_while_they_are_scored_get_no_receipt(
    own_home: Path, evaluated: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    """Otherwise whoever has the new bytes would be given the old bytes' score; also if they change there and back."""
    good, bad = evaluated("a"), evaluated("b")
    shutil.rmtree(own_home / "receipts")
    racing = tmp_path / "racing"
    shutil.copytree(good, racing)
    answers = "predictions/sst.validation.jsonl"
    real = evaluator.score_task

    def scoring(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]
        for source in (bad, good) if back else (bad,):
            shutil.copy(source / answers, racing / "other")
            os.replace(racing / "other", racing / answers)
        return found

    monkeypatch.setattr(evaluator, "score_task", scoring)
    with pytest.raises(SubmissionError, match="The answers of sst changed while they were being scored"):
        score_submission(racing, ScoringOptions(tasks=["sst"], home=own_home))
    monkeypatch.undo()
    difference = compare(good, bad, home=own_home, tasks=["sst"]).tasks["sst"]
    assert difference.a != difference.b


def test_data_that_changes_while_it_is_used_gives_no_result(
    own_home: Path, evaluated: Evaluate, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = evaluated("a")
    record = own_home / "tasks" / "sst" / "task.json"
    real = evaluator.score_task

    def scoring(*arguments: object) -> object:
        found = real(*arguments)  # type: ignore[arg-type]
        content = json.loads(record.read_text())
        content["splits"]["validation"]["fingerprint"] = "sha256:" + "0" * 64
        record.write_text(json.dumps(content))
        return found

    monkeypatch.setattr(evaluator, "score_task", scoring)
    with pytest.raises(DataError, match="The data of sst was prepared anew while it was being scored"):
        score_submission(folder, ScoringOptions(tasks=["sst"], home=own_home))


def test_a_receipt_of_other_data_counts_for_nothing(
    own_home: Path, evaluated: Evaluate, scored_tasks: list[str]
) -> None:
    """Also under the name that the data at hand gives it, where a run that replaced the data could have put it."""
    folder = evaluated("a")
    for path in (own_home / "receipts").glob("*/*.json"):
        content = json.loads(path.read_text())
        content["result"]["data"]["fingerprint"] = "sha256:" + "0" * 64
        path.write_text(json.dumps(content))
    scored_tasks.clear()
    score_submission(folder, ScoringOptions(home=own_home, reuse=True))
    assert len(scored_tasks) == len(TASKS)
