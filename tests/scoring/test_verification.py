"""results.json summarizes the current answers, and verify finds every difference."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from decabench.errors import DataError, MissingDataError, StorageError, SubmissionError
from decabench.scoring import (
    Sample,
    ScoringOptions,
    VerifiedResults,
    evaluate,
    find_metric,
    read_results_file,
    read_statistics,
    results_files,
    score_submission,
    statistics_path,
    verify,
    verify_file,
)
from decabench.submission import remove_results
from decabench.tasks import DECATHLON, Store

TASKS = ("squad", "sst", "woz.en", "schema")


def score(folder: Path, home: Path, output: Path | None = None, **options: Any) -> Path:
    results, _ = score_submission(folder, ScoringOptions(home=home, **options))
    return results.write(output or folder / "results" / "validation")


@pytest.fixture
def few(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", TASKS, "few")
    score(folder, home)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def scores(folder: Path) -> dict[str, float | None]:
    results = read_results_file(folder / "results" / "validation" / "results.json")
    return {task: result.score for task, result in results.tasks.items()}


def change(folder: Path, task: str, lines: int = 3) -> None:
    path = folder / "predictions" / f"{task}.validation.jsonl"
    path.write_text(path.read_text().replace('"answer": "', '"answer": "not ', lines))


def test_the_same_answers_give_the_same_bytes(few: Path, home: Path) -> None:
    before = files(few / "results")
    names = {name.partition("/")[2] for name in before}
    assert names == {"results.json"} | {
        f"{kind}/{task}.{suffix}"
        for task in TASKS
        for kind, suffix in (("statistics", "parquet"), ("examples", "jsonl.gz"))
    }
    score(few, home)
    assert files(few / "results") == before


def test_some_tasks_are_summarized_alone_and_all_are_back_without_scoring(few: Path, home: Path) -> None:
    before = files(few / "results")
    score(few, home, tasks=["sst"])
    assert list(scores(few)) == ["sst"]
    score(few, home)
    assert files(few / "results") == before


def test_changed_answers_replace_their_task_alone(few: Path, home: Path) -> None:
    before, bytes_before = scores(few), files(few / "results")
    change(few, "sst")
    score(few, home)
    assert scores(few) == {**before, "sst": scores(few)["sst"]} and scores(few)["sst"] != before["sst"]
    after = files(few / "results")
    changed = {name.rpartition("/")[2] for name in after if after[name] != bytes_before.get(name)}
    assert changed == {"results.json", "sst.parquet", "sst.jsonl.gz"}


def test_data_that_was_altered_is_noticed_although_the_ledger_knows_the_answers(
    few: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other-home"
    shutil.copytree(home / "tasks" / "sst", other / "tasks" / "sst")
    score(few, other, tasks=["sst"])
    assert list((other / "ledger").rglob("*")), "the ledger knows the answers"
    split = Store(other).path("sst", "validation")
    shutil.copy(Store(other).path("sst", "test"), split)
    with pytest.raises(DataError, match="has changed since it was prepared"):
        score(few, other, tasks=["sst"])


def test_answers_that_change_after_a_look_up_are_not_shown_with_earlier_scores(few: Path, home: Path) -> None:
    results = evaluate(few, home=home, tasks=["sst"])
    change(few, "sst")
    with pytest.raises(SubmissionError, match="changed while they were being scored"):
        results.examples("sst")


def test_a_task_without_a_score_leaves_no_statistics(few: Path, home: Path) -> None:
    path = few / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().partition("\n")[2])
    score(few, home)
    assert scores(few)["sst"] is None
    assert not [name for name in files(few / "results") if name.endswith(("sst.parquet", "sst.jsonl.gz"))]


# Files


@pytest.mark.parametrize(
    "link", ["results", "results/validation", "results/validation/statistics", "results/validation/examples"]
)
def test_nothing_is_written_through_a_link(few: Path, home: Path, tmp_path: Path, link: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(few / link, elsewhere)
    (few / link).symlink_to(elsewhere)
    before = files(elsewhere)
    with pytest.raises(StorageError, match="because a link leads out of"):
        score(few, home)
    assert files(elsewhere) == before


def test_a_link_in_place_of_a_file_is_replaced(few: Path, home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.json"
    elsewhere.write_text("mine")
    path = few / "results" / "validation" / "results.json"
    path.unlink()
    path.symlink_to(elsewhere)
    score(few, home)
    assert elsewhere.read_text() == "mine" and not path.is_symlink()


@pytest.mark.parametrize("name", ["../../../../victim/precious", "a/b", "/etc/x", "..", ".", "", "a" * 300])
def test_names_of_tasks_lead_nowhere(few: Path, home: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim" / "precious.parquet"
    victim.parent.mkdir()
    victim.write_text("mine")
    path = few / "results" / "validation" / "results.json"
    results = json.loads(path.read_text())
    results["tasks"][name] = {**results["tasks"]["schema"], "status": "failed", "score": None, "scores": {}}
    path.write_text(json.dumps(results))
    with pytest.raises(DataError, match="is not a valid task name"):
        read_results_file(path)
    score(few, home, tasks=["sst"])
    remove_results(few)
    assert victim.read_text() == "mine"


class Kill(BaseException):
    """Raised where the process is killed."""


def killed(folder: Path, run: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield copies of a folder in which a process was killed before its first, second, … change to files."""
    for count in itertools.count():
        copy = folder.parent / f"killed-{count}"
        shutil.copytree(folder, copy)
        steps = iter(range(count))

        def step(
            real: Callable[..., Any],
            steps: Iterator[int],
            copy: Path,
            path: object,
            *given: object,
            **more: Any,
        ) -> object:
            if str(copy) in str(path) and next(steps, None) is None:
                raise Kill
            return real(path, *given, **more)

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                patch.setattr(os, name, partial(step, getattr(os, name), steps, copy))
            try:
                run(copy)
                return
            except Kill:
                pass
        yield copy


def test_an_evaluation_killed_at_any_step_leaves_no_contradiction(
    few: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(few, "sst")
    places = 0
    for copy in killed(few, lambda folder: score(folder, home), monkeypatch):
        places += 1
        folder = copy / "results" / "validation"
        if (folder / "results.json").exists():
            for name, result in read_results_file(folder / "results.json").tasks.items():
                metric, units, rows = read_statistics(
                    statistics_path(folder, name), find_metric(result.metric)
                )
                assert Sample.of_levels(metric, rows, units).score == pytest.approx(result.score)
        score(copy, home)
        assert verify(copy, home=home) == []
    assert places > 5


# Verification


def verified(folder: Path, home: Path) -> VerifiedResults:
    return verify_file(folder, folder / "results" / "validation" / "results.json", ScoringOptions(home=home))


def edit(folder: Path, keys: tuple[str, ...], value: object) -> None:
    path = folder / "results" / "validation" / "results.json"
    content = json.loads(path.read_text())
    at = content
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path.write_text(json.dumps(content))


def test_untouched_files_verify(home: Path, submit: Callable[..., Path]) -> None:
    folder = submit("first-choice", DECATHLON.tasks, "ten")
    score(folder, home)
    found = verified(folder, home)
    assert found.ok and found.verdict == "verified: 10 tasks are the same"


def test_a_changed_answer_is_named_with_the_scores_that_rest_on_it(few: Path, home: Path) -> None:
    change(few, "sst")
    found = verified(few, home)
    said = [str(one) for one in found.differences]
    assert any(line.startswith("sst: predictions: the answers have changed") for line in said)
    assert any(line.startswith("sst: score: ") for line in said)
    assert set(found.scored) == set(TASKS) and not found.ok


VARIANTS = {"scores": {"0": 9.0, "1": 9.0}, "mean": 9.0, "worst": 9.0, "spread": 0.0}


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("tasks", "sst", "score"), 99.0, "sst: score: the results file was edited"),
        (("tasks", "sst", "scores", "em"), 99.0, "sst: scores.em: the results file was edited"),
        (("tasks", "sst", "interval"), [0.0, 1.0], "sst: interval: the results file was edited"),
        (("tasks", "sst", "signature"), "em|v:0", "sst: signature: the metric has a different version"),
        (("tasks", "schema", "data", "fingerprint"), "sha256:0", "schema: data.fingerprint: the data"),
        (("total", "score"), 900.0, "total.score: the results file was edited"),
        (("submission", "name"), "other", "submission.name: submission.toml has changed"),
        (("decabench",), "9.9", "decabench: scored by a different version of decabench"),
        (("tasks", "sst", "variants"), VARIANTS, "sst: variants: the answers to other wordings"),
        (("mine",), 1, "mine: the results file was edited"),
    ],
)
def test_every_edit_is_named(few: Path, home: Path, keys: tuple[str, ...], value: object, said: str) -> None:
    edit(few, keys, value)
    assert [one for one in verify(few, home=home) if str(one).startswith(said)]


def test_tasks_without_answers_are_said_to_be_so_and_the_rest_is_still_checked(few: Path, home: Path) -> None:
    (few / "predictions" / "sst.validation.jsonl").unlink()
    found = verified(few, home)
    assert found.ok and found.unanswered == ("sst",)
    assert found.verdict == "verified: 3 tasks are the same; no answers for sst"
    for path in (few / "predictions").iterdir():
        path.rename(path.with_name(path.name.replace("validation", "test")))
    found = verified(few, home)
    assert not found.ok and found.verdict.startswith("not verified: no answers for schema, squad")


def test_results_of_raw_answers_are_verified_as_such(few: Path, home: Path) -> None:
    score(few, home, few / "results" / "validation-raw", answers="raw")
    assert verify(few, home=home) == []


def test_without_results(few: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="Run decabench evaluate first"):
        results_files(tmp_path)
    archive = Path(shutil.make_archive(str(tmp_path / "answers"), "zip", few))
    with pytest.raises(MissingDataError, match="inside an archive are not read"):
        results_files(archive)
    path = tmp_path / "answers.zip.results" / "test" / "results.json"
    path.parent.mkdir(parents=True)
    path.touch()
    assert results_files(archive) == [path]
