"""Two submissions on the sample, against counts made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from decabench.errors import SubmissionError
from decabench.runs.write import predict
from decabench.scoring.comparison import Pair, compare
from decabench.submission.folder import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON
from decabench.tasks.store import Store


@pytest.fixture
def submission(home: Path, tmp_path: Path):
    def make(predictor: str, tasks: tuple[str, ...] = DECATHLON.tasks) -> Path:
        return predict(predictor, tmp_path / predictor, tasks, home=home, date="2026-11-21")

    return make


@pytest.fixture
def labels(home: Path, tmp_path: Path):
    """A submission for sst whose answers are gold but for the ids given."""

    def make(name: str, wrong: set[int]) -> Path:
        other = {"positive": "negative", "negative": "positive"}
        examples = list(Store(home).examples("sst", "validation"))
        answers = [
            (example.id, other[example.answers[0]] if index in wrong else example.answers[0])
            for index, example in enumerate(examples)
        ]
        write_submission(tmp_path / name, SubmissionInfo(name), {("sst", "validation"): answers})
        return tmp_path / name

    return make


def test_wins_and_regressions_are_counted_example_by_example(labels, home):
    pair = Pair(labels("a", {1, 2, 3}), labels("b", {3, 7, 9, 11, 13}), home=home, flips=10)
    found = compare(pair).tasks["sst"]
    assert (found.a_wins, found.b_wins) == (4, 2)
    assert [flip.id for flip in found.worst] == [f"sst.validation.{index}" for index in (7, 9, 11, 13)]
    assert found.difference == pytest.approx(100 * (27 - 29) / 32)
    assert found.worst[0].loss == pytest.approx(100 / 32)
    assert {found.worst[0].a, found.worst[0].b} == {"positive", "negative"}
    assert found.worst[0].a == found.worst[0].gold[0] and found.worst[0].context


def test_the_p_value_is_the_sign_test_s(labels, home):
    """With 6 wins against 0 the shuffles that go as far are 2 of 2^6."""
    found = compare(Pair(labels("a", set()), labels("b", {1, 2, 3, 4, 5, 6}), home=home)).tasks["sst"]
    assert found.p == pytest.approx(2 / 64, abs=0.006)
    assert found.interval[0] <= found.difference <= found.interval[1] < 0


def test_ten_tasks_have_holm_s_correction_and_a_decascore(submission, home):
    found = compare(Pair(submission("majority"), submission("oracle"), home=home))
    assert list(found.tasks) == list(DECATHLON.tasks)
    assert found.decascore is not None
    assert found.decascore.b == pytest.approx(1000)
    assert found.decascore.difference == pytest.approx(sum(task.difference for task in found.tasks.values()))
    smallest = min(task.p for task in found.tasks.values())
    assert min(task.p_holm for task in found.tasks.values()) == pytest.approx(min(1.0, 10 * smallest))
    assert all(task.p_holm >= task.p for task in found.tasks.values())
    translated = found.tasks["iwslt.en.de"]
    assert translated.a_wins + translated.b_wins == 17  # a corpus metric has wins too


def test_a_submission_against_itself(submission, home):
    folder = submission("lead-3")
    found = compare(Pair(folder, folder, home=home))
    assert all((task.p, task.difference, task.worst) == (1.0, 0.0, ()) for task in found.tasks.values())
    assert found.tasks["squad"].examples_for_one_point is None


def test_jobs_and_runs_change_no_byte(submission, home):
    pair = Pair(submission("random"), submission("lead-3"), home=home)
    other = Pair(pair.a, pair.b, home=home, jobs=3)
    assert compare(pair).to_json() == compare(pair).to_json() == compare(other).to_json()
    assert json.loads(compare(pair).to_json())["format"] == "decabench.comparison/1"


def test_tasks_that_one_lacks_are_named_and_there_is_no_decascore(submission, home):
    found = compare(
        Pair(submission("majority", ("sst", "schema")), submission("oracle", ("sst", "srl")), home=home)
    )
    assert list(found.tasks) == ["sst"]
    assert found.not_compared == {"schema": "B has no answers", "srl": "A has no answers"}
    assert found.decascore is None


def test_a_failed_task_is_not_compared(submission, home):
    a, b = submission("majority", ("sst", "schema")), submission("oracle", ("sst", "schema"))
    with (b / "predictions" / "sst.validation.jsonl").open("a") as file:
        file.write('{"id": "stranger", "answer": "positive"}\n')
    found = compare(Pair(a, b, home=home))
    assert list(found.tasks) == ["schema"] and found.not_compared["sst"].startswith("B failed: ")


def test_nothing_in_common(submission, home):
    with pytest.raises(SubmissionError, match="no scored task of validation in common"):
        compare(Pair(submission("majority", ("sst",)), submission("oracle", ("srl",)), home=home))


def test_a_limited_run_is_compared_with_nothing(submission, home, tmp_path):
    a, b = submission("majority", ("sst", "schema")), submission("oracle", ("sst", "schema"))
    path = b / "predictions" / "sst.validation.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    with (b / "submission.toml").open("a") as file:
        file.write('[partial."sst.validation"]\nanswered = 8\nof = 32\n')
    assert compare(Pair(a, b, home=home)).not_compared == {"sst": "B is of a limited run (8 of 32 examples)"}
    with pytest.raises(SubmissionError, match=r"in common\. sst: A is of a limited run"):
        compare(Pair(b, a, tasks=["sst"], home=home))
