"""The results file: totals that say what they cover, and one spelling. Reading: test_results_reading.py."""

import json
from dataclasses import replace

import pytest

from decabench.errors import StorageError
from decabench.scoring.results import (
    DataUsed,
    LimitedRun,
    Results,
    TaskResult,
    VariantScores,
    describe_partial,
    read_results_file,
    write_results_file,
)
from decabench.scoring.significance import SampledUnits
from decabench.tasks import DECATHLON, Suite

DATA = DataUsed("sha256:00", "mirror", True, 10, 10)


def scored(score: float) -> TaskResult:
    return TaskResult("scored", "em", "em", DATA, n=10, score=score, scores={"em": score})


def failed() -> TaskResult:
    return TaskResult("failed", "em", "em", DATA, reason="it has a fault", faults=2)


def partial() -> TaskResult:
    return replace(scored(90), status="partial", partial=LimitedRun(8, 10, "limit 8"))


def results(scores: dict[str, TaskResult]) -> Results:
    return Results({"name": "a"}, "validation", scores)


ALL = {name: scored(10.25 + index) for index, name in enumerate(DECATHLON.tasks)}
SEVEN = dict(zip(DECATHLON.tasks[:7], map(scored, [75.3, 14.6, 24.7, 69.2, 86.4, 77.6, 64.5]), strict=True))


@pytest.mark.parametrize(
    ("tasks", "text", "score", "count", "decascore"),
    [
        (ALL, "147.5", 147.5, 10, 147.5),
        ({name: scored(100) for name in DECATHLON.tasks}, "1000.0", 1000, 10, 1000),
        (SEVEN, "412.3 of 700 (7 of 10 tasks)", 412.3, 7, None),
        ({**ALL, "squad": failed()}, "137.2 of 900 (9 of 10 tasks)", 137.25, 9, None),
        ({**ALL, "own": scored(50)}, "147.5", 147.5, 10, 147.5),
        ({**SEVEN, "own": scored(50)}, "412.3 of 700 (7 of 10 tasks)", 412.3, 7, None),
        ({"own": scored(50)}, "0.0 of 0 (0 of 10 tasks)", 0, 0, None),
        ({"squad": failed()}, "0.0 of 0 (0 of 10 tasks)", 0, 0, None),
        ({**ALL, "squad": partial()}, "137.2 of 900 (9 of 10 tasks; 1 partial, not summed)", 137.25, 9, None),
        (
            {"squad": partial(), "own": partial()},
            "0.0 of 0 (0 of 10 tasks; 1 partial, not summed)",
            0,
            0,
            None,
        ),
    ],
)
def test_total(tasks, text, score, count, decascore):
    made = results(tasks)
    assert made.total.text == text
    assert made.total.score == pytest.approx(score)
    assert (made.total.tasks, made.total.of, made.decascore) == (count, 100 * count, decascore)
    assert made.total.complete == (decascore is not None)


THREE = ("sst", "schema", "own")


@pytest.mark.parametrize(
    ("combination", "tasks", "text", "score", "of", "complete"),
    [
        ("sum", {"sst": 80, "schema": 60, "own": 40}, "180.0", 180, 300, True),
        ("sum", {"sst": 80, "squad": 60}, "80.0 of 100 (1 of 3 tasks)", 80, 100, False),
        ("mean", {"sst": 80, "schema": 60, "own": 40}, "60.0 (mean of 3)", 60, 100, True),
        ("mean", {"sst": 80, "schema": 60, "zre": 1}, "70.0 (mean of 2 of 3 tasks)", 70, 100, False),
        (
            "mean",
            {"sst": 80, "schema": "partial"},
            "80.0 (mean of 1 of 3 tasks; 1 partial, not averaged)",
            80,
            100,
            False,
        ),
        ("mean", {"squad": 60}, "0.0 (mean of 0 of 3 tasks)", 0, 0, False),
        ("none", {"sst": 80, "schema": 60, "own": 40}, "no total (3 of 3 tasks)", None, 0, True),
        ("none", {"sst": 80}, "no total (1 of 3 tasks)", None, 0, False),
    ],
)
def test_totals_of_other_suites(combination, tasks, text, score, of, complete):
    suite = Suite("three", "Three tasks", THREE, combination)
    made = {name: partial() if given == "partial" else scored(given) for name, given in tasks.items()}
    found = Results({"name": "a"}, "validation", made, suite=suite)
    total = found.total
    assert (total.text, total.score, total.of, total.complete) == (text, score, of, complete)
    assert found.decascore is None
    assert list(found.tasks)[: total.tasks] == [name for name in THREE if name in tasks][: total.tasks]


def test_another_suite_is_written_out_in_its_file(tmp_path):
    suite = Suite("three", "Three tasks", THREE, "mean", "average", description="Three.")
    made = Results({"name": "a"}, "test", {name: scored(50.0) for name in THREE}, (40.0, 60.0), suite=suite)
    content = json.loads(made.to_json())
    assert "decascore" not in content
    assert content["suite"] == {
        "name": "three",
        "title": "Three tasks",
        "tasks": list(THREE),
        "total": "mean",
        "total_name": "average",
    }
    assert content["total"]["text"] == "50.0 (mean of 3)"
    again = read_results_file(write_results_file(tmp_path, made))
    assert again.total == made.total and again.to_json() == made.to_json()


def test_equal_results_are_equal_bytes():
    first = results(ALL).to_json()
    again = Results({"name": "a"}, "validation", dict(reversed(ALL.items()))).to_json()
    assert first == again
    assert first.endswith("}\n") and list(json.loads(first)) == sorted(json.loads(first))


def test_what_is_written_is_read(tmp_path):
    made = Results({"name": "Ünï"}, "test", {**ALL, "squad": failed(), "own": scored(1 / 3)}, decabench="9.9")
    path = write_results_file(tmp_path / "new", made)
    assert read_results_file(path) == made
    assert list(read_results_file(path).tasks) == [*DECATHLON.tasks, "own"]
    assert path.read_text(encoding="utf-8") == made.to_json()


def test_a_number_that_is_none_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        results({"squad": scored(float("nan"))}).to_json()


def test_ok():
    assert results(SEVEN).ok
    assert not results({**SEVEN, "sst": failed()}).ok
    assert results({**SEVEN, "sst": partial()}).ok


def test_what_a_limited_run_answered():
    assert describe_partial(LimitedRun(8, 10, "limit 8")) == "8 of 10 examples, limit 8"
    assert describe_partial(LimitedRun(1_000, 10_570)) == "1,000 of 10,570 examples"


def test_what_has_nothing_to_say_is_left_out():
    content = json.loads(results({"squad": scored(5)}).to_json())
    assert not {"answers", "ceiling", "partial", "variants"} & content["tasks"]["squad"].keys()
    assert "answers" not in content and "partial" not in content["total"]


def test_what_has_something_to_say_is_written_and_read(tmp_path):
    told = replace(
        partial(),
        answers={"refused": 2},
        ceiling=97.5,
        variants=VariantScores({"0": 90.0, "1": 80.0}, 85.0, 80.0, 10.0),
        units=SampledUnits(9, 8.5, "post"),
    )
    made = replace(results({"squad": told}), answers="raw")
    content = json.loads(made.to_json())
    assert content["answers"] == "raw" and content["total"]["partial"] == ["squad"]
    task = content["tasks"]["squad"]
    assert task["answers"] == {"refused": 2}
    assert task["partial"] == {"answered": 8, "of": 10, "chosen": "limit 8"}
    assert task["units"] == {"number": 9, "effective": 8.5, "level": "post"}
    assert task["variants"].keys() == {"scores", "mean", "worst", "spread", "predictions"}
    assert read_results_file(write_results_file(tmp_path, made)) == made


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        write_results_file(tmp_path / "file" / "below", results(SEVEN))


def test_an_old_file_is_replaced_whole(tmp_path):
    write_results_file(tmp_path, results(ALL))
    write_results_file(tmp_path, replace(results(SEVEN), split="test"))
    assert read_results_file(tmp_path / "results.json").split == "test"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
