"""Totals by suite, and metrics of which lower is better: evaluated, verified and compared the right way round."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decabench.scoring import ScoringOptions, compare, evaluate, score_submission, verify, write_results_file
from decabench.scoring.significance import total_interval
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import DECATHLON, TASKS, Store, Suite
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included

PAIR = Suite("pair", "Two tasks", ("schema", "sst"), "mean", "average")


def share(results, name: str) -> float:
    return results.tasks[name].score


def test_an_eleventh_task_in_the_registry_changes_no_total(
    home: Path,
    submit: Callable[..., Path],
    own_task: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    before = evaluate(submit("oracle"), home=home)
    (own,) = load_included(own_task(["one", "two"]))
    monkeypatch.setitem(TASKS, "own", own)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "tasks").mkdir()
    for folder in (home / "tasks").iterdir():
        (tmp_path / "home" / "tasks" / folder.name).symlink_to(folder)
    prepare_task(own, Request(tmp_path / "home", progress=False))
    gold = [
        (example.id, example.answers[0]) for example in Store(tmp_path / "home").examples("own", "validation")
    ]
    (tmp_path / "oracle" / "predictions" / "own.validation.jsonl").write_text(
        "".join(json.dumps({"id": id_, "answer": answer}) + "\n" for id_, answer in gold)
    )
    results = evaluate(tmp_path / "oracle", home=tmp_path / "home")
    assert list(results.tasks) == [*DECATHLON.tasks, "own"]
    assert results.tasks["own"].score == 100
    assert results.decascore == before.decascore == pytest.approx(1000)
    assert (results.total, results.interval) == (before.total, before.interval)


def test_the_total_of_another_suite(home: Path, submit: Callable[..., Path]) -> None:
    results, scored = score_submission(submit("majority"), ScoringOptions(home=home, suite=PAIR))
    total = results.total
    assert list(results.tasks)[:2] == ["schema", "sst"] and len(results.tasks) == 10
    assert total.score == pytest.approx((share(results, "schema") + share(results, "sst")) / 2)
    assert total.text == f"{total.score:.1f} (mean of 2)"
    assert results.decascore is None
    assert results.interval == total_interval([scored[name].sample for name in PAIR.tasks], "mean").ends


def test_a_suite_that_is_not_whole_has_no_interval(home: Path, submit: Callable[..., Path]) -> None:
    results = evaluate(submit("majority", ["sst"]), home=home, suite=PAIR)
    assert results.total.text == f"{share(results, 'sst'):.1f} (mean of 1 of 2 tasks)"
    assert results.total.missing == ("schema",)
    assert results.interval is None and results.tasks["sst"].interval is not None


def test_the_results_of_another_suite_are_verified(home: Path, submit: Callable[..., Path]) -> None:
    folder = submit("majority", PAIR.tasks)
    path = write_results_file(folder / "results" / "pair", evaluate(folder, home=home, suite=PAIR))
    assert verify(folder, path, home) == []
    path.write_text(path.read_text().replace('"total": "mean"', '"total": "sum"'))
    places = [one.where for one in verify(folder, path, home)]
    assert {"interval", "total.score", "total.text"} <= set(places)


def test_suites_are_compared_by_their_total(home: Path, submit: Callable[..., Path]) -> None:
    a, b = submit("majority", PAIR.tasks), submit("oracle", PAIR.tasks)
    found = compare(a, b, home=home, suite=PAIR)
    assert found.total is not None and found.total.b == 100
    assert found.total.difference == pytest.approx(sum(task.difference for task in found.tasks.values()) / 2)
    content = json.loads(found.to_json())
    assert content["suite"] == "pair" and content["total"]["b"] == 100 and "decascore" not in content
    assert compare(a, b, home=home).total is None
    none = Suite("pair", "Two tasks", PAIR.tasks)
    assert compare(a, b, home=home, suite=none).total is None


@pytest.fixture
def numbers(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Submissions for a task whose metric is the mean squared error; gold is 0 to 29."""
    own = own_task(range(30), metric="mse")
    (task,) = load_included(own)
    prepare_task(task, Request(tmp_path / "home", progress=False))

    def make(name: str, errors: dict[int, float]) -> Path:
        examples = Store(tmp_path / "home").examples("own", "validation")
        answers = [
            (example.id, str(float(example.answers[0]) + errors.get(index, 0.0)))
            for index, example in enumerate(examples)
        ]
        write_submission(tmp_path / name, SubmissionInfo(name), {("own", "validation"): answers})
        return tmp_path / name

    return make


def errors(numbers: Callable[..., Path], tmp_path: Path) -> tuple[Path, Path, dict[str, Any]]:
    """A is off by 2 on one example; B is off by 1 on that one and by 3 on two others."""
    suite = Suite("errors", "Errors", ("own",), "mean", "mean error")
    options = {"home": tmp_path / "home", "include": [tmp_path / "own.toml"], "suite": suite}
    return numbers("a", {4: 2.0}), numbers("b", {4: 1.0, 7: 3.0, 9: 3.0}), options


def test_where_lower_is_better_b_gains_by_fewer_points(numbers: Callable[..., Path], tmp_path: Path) -> None:
    a, b, options = errors(numbers, tmp_path)
    found = compare(a, b, **options)
    task = found.tasks["own"]
    assert (task.a, task.b) == (pytest.approx(4 / 30), pytest.approx(19 / 30))
    assert task.difference == pytest.approx(0.5) and task.gain == pytest.approx(-0.5)
    assert (task.a_wins, task.b_wins) == (2, 1)
    assert [flip.id for flip in task.worst] == ["own.validation.7", "own.validation.9"]
    assert task.worst[0].loss == pytest.approx(9 / 30)
    assert found.total is not None and found.total.gain == pytest.approx(-0.5)
    assert json.loads(found.to_json())["tasks"]["own"]["higher_is_better"] is False
    assert compare(b, a, **options).tasks["own"].gain == pytest.approx(0.5)


def test_scores_beyond_100_are_written_and_read(numbers: Callable[..., Path], tmp_path: Path) -> None:
    a = numbers("a", dict.fromkeys(range(30), 20.0))
    results = evaluate(a, home=tmp_path / "home", include=[tmp_path / "own.toml"])
    assert results.tasks["own"].score == pytest.approx(400)
    path = write_results_file(tmp_path / "out", results)
    assert verify(a, path, tmp_path / "home", include=[tmp_path / "own.toml"]) == []


def test_the_worst_wording_of_an_error_is_the_highest(own_task: Callable[..., Path], tmp_path: Path) -> None:
    """Errors of 0, 1 and 2 on one example of four: the mean squared errors are 0, 1/4 and 1."""
    own = own_task(range(4), metric="mse")
    own.write_text(own.read_text() + '[[variants]]\nname = "a"\nquestion = "{question} Tell."\n' * 2)
    own.write_text(own.read_text().replace('name = "a"', 'name = "b"', 1))
    (task,) = load_included(own)
    prepare_task(task, Request(tmp_path / "home", progress=False))
    ids = [example.id for example in Store(tmp_path / "home").examples("own", "validation")]
    folder = tmp_path / "sub"
    for number, error in enumerate((1, 0, 2)):
        answers = [(id_, str(index + error * (index == 0))) for index, id_ in enumerate(ids)]
        place = folder / "variants" / str(number) if number else folder
        write_submission(place, SubmissionInfo("a"), {("own", "validation"): answers})
    found = evaluate(folder, home=tmp_path / "home", include=[own]).tasks["own"].variants
    assert found.scores == {"0": 0.25, "1": 0.0, "2": 1.0}
    assert (found.worst, found.spread) == (1.0, 1.0)


def test_compare_prints_and_fails_on_errors_that_grow(
    command: Callable[..., object], numbers: Callable[..., Path], tmp_path: Path
) -> None:
    a, b, _ = errors(numbers, tmp_path)
    shared = ["--home", tmp_path / "home", "--include", tmp_path / "own.toml"]
    done = command("compare", a, b, *shared, "--fail-on-regression", "own:0.4")
    assert done.exit_code == 1
    assert "Regression: on own, B is worse by 0.500 points, more than 0.4" in done.stderr
    assert "own ↓" in done.stdout and "\n↓ lower is better\n" in done.stdout
    assert "0.133" in done.stdout and "0.633" in done.stdout and "+0.500" in done.stdout
    assert "own.validation.7: B loses 0.3000 points here" in done.stdout
    assert command("compare", a, b, *shared, "--fail-on-regression", "own:0.6").exit_code == 0
    assert command("compare", b, a, *shared, "--fail-on-regression", "own:0").exit_code == 0


def test_evaluate_says_that_lower_is_better(
    command: Callable[..., object], numbers: Callable[..., Path], tmp_path: Path
) -> None:
    a, _, _ = errors(numbers, tmp_path)
    shared = ["--home", tmp_path / "home", "--include", tmp_path / "own.toml", "--all-scores"]
    done = command("evaluate", "--submission", a, *shared)
    assert done.exit_code == 0
    assert "mse ↓" in done.stdout and "mse ↓ 0.133, unreadable 0.000" in done.stdout
    assert "\n↓ lower is better\n" in done.stdout
