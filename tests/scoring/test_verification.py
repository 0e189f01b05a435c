"""What verify must find: nothing on untouched files, and the right name for every kind of change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from decabench.errors import MissingDataError
from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import write_results_file
from decabench.scoring.verification import results_files, verify


@pytest.fixture
def submission(home: Path, submit: Callable[..., Path]) -> Path:
    folder = submit("majority", ["sst", "schema"], "s")
    write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    return folder


def found(submission: Path, home: Path) -> list[str]:
    (path,) = results_files(submission)
    return [str(one) for one in verify(submission, path, home)]


def test_untouched_files_verify(submission, home):
    assert found(submission, home) == []


def test_a_changed_prediction_is_named_with_the_scores_that_rest_on_it(submission, home):
    path = submission / "predictions" / "sst.validation.jsonl"
    path.write_text(path.read_text().replace("positive", "negative", 1))
    said = found(submission, home)
    assert any(line.startswith("sst: predictions: the answers have changed") for line in said)
    assert any(line.startswith("sst: score: ") for line in said)
    assert not any(line.startswith("schema") for line in said)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("tasks", "sst", "score"), 99.0, "sst: score: the score was edited"),
        (("tasks", "sst", "scores", "em"), 99.0, "sst: scores.em: a score was edited"),
        (("tasks", "sst", "interval"), [0.0, 1.0], "sst: interval: the interval was edited"),
        (("tasks", "sst", "signature"), "em|v:0", "sst: signature: the metric is another version"),
        (
            ("tasks", "schema", "data", "fingerprint"),
            "sha256:0",
            "schema: data.fingerprint: the data or its labels",
        ),
        (("decascore",), 900.0, "decascore: the decaScore was edited"),
        (("total", "score"), 900.0, "total.score: the total was edited"),
        (("submission", "name"), "other", "submission.name: submission.toml has changed"),
        (("decabench",), "9.9", "decabench: scored by another version of decabench"),
        (("tasks", "sst", "empty"), 7, "sst: empty: the file was edited"),
        (
            ("tasks", "sst", "answers"),
            {"refused": 1},
            "sst: answers: the rule, finish or context_kept of some lines",
        ),
        (("tasks", "sst", "ceiling"), 99.0, "sst: ceiling: the context_kept of some lines has changed"),
        (("tasks", "sst", "partial"), {"of": 9}, "sst: partial: submission.toml has changed"),
        (("tasks", "sst", "variants"), {"mean": 9}, "sst: variants: the answers to other wordings"),
        (("mine",), 1, "mine: the file was edited"),
    ],
)
def test_every_edit_is_named(submission, home, path, value, said):
    file = results_files(submission)[0]
    content = json.loads(file.read_text())
    at = content
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_text(json.dumps(content, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    assert [line for line in found(submission, home) if line.startswith(said)]


def test_the_same_values_in_other_bytes(submission, home):
    file = results_files(submission)[0]
    file.write_text(json.dumps(json.loads(file.read_text())))
    assert found(submission, home) == [
        "results.json: its bytes were rewritten: the file says the same values, scoring gives other bytes"
    ]


def test_a_metric_of_another_version(submission, home, monkeypatch):
    import dataclasses

    from decabench import metrics

    newer = dataclasses.replace(metrics.METRICS["em"], signature="em|v:2")
    monkeypatch.setitem(metrics.METRICS, "em", newer)
    assert any(
        line.startswith("sst: signature: the metric is another version") for line in found(submission, home)
    )


def test_without_results(submission, tmp_path):
    with pytest.raises(MissingDataError, match="run decabench evaluate first"):
        results_files(tmp_path)


def test_results_beside_an_archive(tmp_path):
    path = tmp_path / "s.zip.results" / "test" / "results.json"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "s.zip").touch()
    assert results_files(tmp_path / "s.zip") == [path]


def test_tasks_without_answers_are_said_to_be_so_and_the_rest_is_still_checked(submission, home):
    """As in reference submissions, whose texts may not all be passed on: nothing there was edited."""
    (submission / "predictions" / "sst.validation.jsonl").unlink()
    assert found(submission, home) == [
        "sst: it cannot be verified: the file says a score, scoring gives no answers here"
    ]


def test_results_of_raw_answers_are_verified_as_such(submission, home):
    folder = submission / "results"
    write_results_file(folder / "validation-raw", evaluate(submission, home=home, answers="raw"))
    assert [verify(submission, path, home) for path in results_files(submission)] == [[], []]
