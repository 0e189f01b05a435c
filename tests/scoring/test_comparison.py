"""Comparisons of two submissions on the sample, checked against counts by hand."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from decabench.errors import SubmissionError
from decabench.metrics import METRICS, Item
from decabench.predictors import ModelOptions
from decabench.runs import Selection
from decabench.scoring import compare, compare_all
from decabench.scoring.comparison import example_gains
from decabench.scoring.evaluator import evaluate
from decabench.scoring.pairs import holm
from decabench.scoring.significance import Sample
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON, number_units
from decabench.tasks.store import Store


@pytest.fixture
def labels(home: Path, tmp_path: Path):
    """Write a submission to sst with gold answers, except for the given ids."""

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
    a, b = labels("a", {1, 2, 3}), labels("b", {3, 7, 9, 11, 13})
    found = compare(a, b, home=home, flips=10).tasks["sst"]
    assert (found.a_wins, found.b_wins) == (4, 2)
    assert [flip.id for flip in found.worst] == [f"sst.validation.{index}" for index in (7, 9, 11, 13)]
    assert found.difference == pytest.approx(100 * (27 - 29) / 32)
    assert found.worst[0].loss == pytest.approx(100 / 32)
    assert {found.worst[0].a, found.worst[0].b} == {"positive", "negative"}
    assert found.worst[0].a == found.worst[0].gold[0] and found.worst[0].context


@pytest.mark.parametrize("metric", ["pearson", "spearman"])
@pytest.mark.parametrize("change", [1.0, 30.0, 1e6])
def test_only_answers_that_differ_are_wins(metric: str, change: float, monkeypatch: pytest.MonkeyPatch):
    """One answer of 100 changes the ranks of all others and the median, so its swap gains B's full lead."""
    generator = np.random.default_rng(0)
    gold = generator.normal(3, 1, 100)
    first = gold + generator.normal(0, 0.5, 100)
    second = first.copy()
    second[5] += change

    def scored(values: np.ndarray) -> SimpleNamespace:
        texts, references = (
            [repr(value) for value in values.tolist()],
            [Item([repr(v)]) for v in gold.tolist()],
        )
        rows = METRICS[metric].statistics(texts, references)
        sample = Sample.of_levels(METRICS[metric], np.array(rows), number_units([()] * 100), "sick")
        return SimpleNamespace(references=references, predictions=texts, sample=sample, rows=rows)

    a, b = scored(first), scored(second)
    gains = example_gains(a, b)
    assert np.flatnonzero(abs(gains) > 1e-9).tolist() == [5]
    assert gains[5] == pytest.approx(b.sample.score - a.sample.score, abs=1e-9)
    monkeypatch.setattr("decabench.scoring.comparison._MOST_ROWS", 99)
    assert example_gains(a, b) is None  # too many to score each: no wins rather than wrong ones


def test_the_p_value_is_the_sign_test_s(labels, home):
    """With 6 wins and 0 losses, 2 of 2^6 shuffles are as extreme."""
    found = compare(labels("a", set()), labels("b", {1, 2, 3, 4, 5, 6}), home=home).tasks["sst"]
    assert found.p == pytest.approx(2 / 64, abs=0.006)
    assert found.interval[0] <= found.difference <= found.interval[1] < 0


def test_ten_tasks_have_holm_s_correction_and_a_decascore(submit, home):
    found = compare(submit("majority"), submit("oracle"), home=home)
    assert list(found.tasks) == list(DECATHLON.tasks)
    assert found.total is not None
    assert found.total.b == pytest.approx(1000)
    assert found.total.difference == pytest.approx(sum(task.difference for task in found.tasks.values()))
    smallest = min(task.p for task in found.tasks.values())
    assert min(task.p_holm for task in found.tasks.values()) == pytest.approx(min(1.0, 10 * smallest))
    assert all(task.p_holm >= task.p for task in found.tasks.values())
    translated = found.tasks["iwslt.en.de"]
    assert translated.a_wins + translated.b_wins == 17  # a corpus metric has wins too


def test_a_submission_against_itself(submit, home):
    folder = submit("lead-3")
    found = compare(folder, folder, home=home)
    assert all((task.p, task.difference, task.worst) == (1.0, 0.0, ()) for task in found.tasks.values())
    assert found.tasks["squad"].examples_for_one_point is None
    assert all(task.same and task.interval is None for task in found.tasks.values())
    assert '"same": true' in found.to_json()


def test_jobs_and_runs_change_no_byte(submit, home):
    a, b = submit("random"), submit("lead-3")
    one, again = (compare(a, b, home=home).to_json() for _ in range(2))
    assert one == again == compare(a, b, home=home, jobs=3).to_json()
    content = json.loads(one)
    assert content["format"] == "decabench.comparison/1"
    assert [content["decascore"][name] for name in ("p_holm", "a_wins", "b_wins")] == [None, None, None]
    assert not {"suite", "total"} & content.keys() and "higher_is_better" not in content["tasks"]["sst"]


def test_tasks_that_one_lacks_are_named_and_there_is_no_decascore(submit, home):
    a, b = submit("majority", ("sst", "schema")), submit("oracle", ("sst", "srl"))
    found = compare(a, b, home=home)
    assert list(found.tasks) == ["sst"]
    assert found.not_compared == {"schema": "B has no answers", "srl": "A has no answers"}
    assert found.total is None


def test_a_failed_task_is_not_compared(submit, home):
    a, b = submit("majority", ("sst", "schema")), submit("oracle", ("sst", "schema"))
    with (b / "predictions" / "sst.validation.jsonl").open("a") as file:
        file.write('{"id": "stranger", "answer": "positive"}\n')
    found = compare(a, b, home=home)
    assert list(found.tasks) == ["schema"] and found.not_compared["sst"].startswith("B failed: ")


def test_nothing_in_common(submit, home):
    with pytest.raises(SubmissionError, match="no scored validation task in common"):
        compare(submit("majority", ("sst",)), submit("oracle", ("srl",)), home=home)


def limited(submission, first: int, last: int):
    """Keep only some of a submission's answers to sst, like a limited run."""
    path = submission / "predictions" / "sst.validation.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[first:last]))
    with (submission / "submission.toml").open("a") as file:
        file.write(f'[partial."sst.validation"]\nanswered = {last - first}\nof = 32\n')
    return submission


def test_limited_runs_are_compared_on_the_examples_of_both(submit, home):
    tasks = ("sst", "schema")
    whole = submit("random", tasks)
    a, b = limited(submit("random", tasks, "a"), 0, 8), limited(submit("majority", tasks, "b"), 0, 8)
    found = compare(a, b, home=home)
    assert (found.tasks["sst"].examples, found.tasks["sst"].of) == (8, 32)
    assert found.describe_subsets() == "Compared only on the answered examples: sst 8 of 32."
    with_all = compare(whole, b, home=home)
    assert with_all.tasks == found.tasks  # the run on all examples is scored on those of the other


def test_different_examples_are_named(submit, home):
    a, b = limited(submit("random", ("sst",), "a"), 0, 8), limited(submit("majority", ("sst",), "b"), 6, 16)
    with pytest.raises(SubmissionError, match=r"6 only in A \(.*, .*, .* and 3 more\), 8 only in B"):
        compare(a, b, home=home)


def test_subsets_of_a_whole_suite_have_a_total(submit, home):
    drawn = [submit(name, selection=Selection(sample=6)) for name in ("majority", "copy-context")]
    found = compare(*drawn, home=home)
    assert found.total and found.total.of and 60 <= found.total.examples < found.total.of
    totals = [evaluate(folder, home=home).total for folder in drawn]
    assert [total.on_subsets for total in totals] == [found.total.a, found.total.b]
    assert not any(total.complete for total in totals)


# Several submissions: runs of one model are a row, and p is corrected for all pairs


@pytest.fixture
def runs(submit):
    tasks = ("sst", "schema")
    seeds = [submit("random", tasks, f"random-{seed}", options=ModelOptions(seed=seed)) for seed in (1, 2)]
    return [submit("majority", tasks), *seeds, submit("oracle", tasks)]


def test_runs_of_a_model_are_a_row_with_their_spread(runs, home):
    found = compare_all(runs, home=home, tasks=["sst", "schema"])
    assert found.rows[0].name == "oracle" and len(found.rows) == 3
    row = next(row for row in found.rows if row.name == "random")
    alone = [compare(runs[3], run, home=home).tasks["sst"].b for run in runs[1:3]]
    assert row.paths == tuple(map(str, runs[1:3]))
    assert row.scores["sst"] == pytest.approx(sum(alone) / 2) and row.spread["sst"] == (
        min(alone),
        max(alone),
    )


def test_rows_of_the_same_name_are_told_apart_by_their_paths(runs, home):
    assert compare_all(runs[:2], home=home).labels == ["1 random", "2 majority"]
    best, other = compare_all(runs[1:3], home=home, tasks=["sst"], each=True).rows
    assert compare_all(runs[1:3], home=home, tasks=["sst"], each=True).labels == [
        f"1 random ({best.paths[0]})",
        f"2 random ({other.paths[0]})",
    ]


def test_a_record_of_other_form_is_a_model_of_its_own(runs, home):
    for run, backend in zip(runs[1:3], ('"x"', "[]"), strict=True):
        record = run / "submission.toml"
        lines = record.read_text().split("[predictor]")[0]
        record.write_text(f'{lines}[predictor]\nname = "random"\nbackend = {backend}\n')
    assert len(compare_all(runs, home=home, tasks=["sst"]).rows) == 4


def test_every_pair_is_that_of_a_comparison_of_two_and_corrected_for_all(runs, home):
    found = compare_all(runs, home=home, each=True)
    assert len(found.rows) == 4 and all(len(pairs) == 6 for pairs in found.pairs.values())
    p = {}
    for task, pairs in found.pairs.items():
        for pair, (a, b) in zip(pairs, itertools.combinations(found.rows, 2), strict=True):
            two = compare(a.paths[0], b.paths[0], home=home).tasks[task]
            assert (pair.difference, pair.p) == (pytest.approx(two.difference), two.p)
            assert pair.interval == pytest.approx(two.interval) if two.interval else pair.interval is None
            p[f"{task} {pair.a} {pair.b}"] = two.p
    corrected = [pair.p_holm for pairs in found.pairs.values() for pair in pairs]
    assert corrected == pytest.approx(list(holm(p).values()))
