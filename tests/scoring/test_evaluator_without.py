"""Scores without some examples: those of the rest, by scipy and scikit-learn."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
import sklearn.metrics

from decabench.errors import DataError
from decabench.scoring import Results, evaluate
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included

Score = Callable[[Sequence[str], Sequence[str], Sequence[int]], Results]


@pytest.fixture
def score(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Any]:
    """Scores answers to a task with these golds and metrics, with and without some places."""

    def run(
        golds: Sequence[str],
        answers: Sequence[str],
        left_out: Sequence[int],
        metric: str,
    ) -> Any:
        file = own_task(golds, metric=metric)
        (task,) = load_included(file)
        prepare_task(task, Request(tmp_path / "home", progress=False))
        ids = [f"own.validation.{number}" for number in range(len(golds))]
        lines = {("own", "validation"): list(zip(ids, answers, strict=True))}
        write_submission(tmp_path / "sub", SubmissionInfo("sub"), lines)
        without = {"own": [ids[at] for at in left_out]} if left_out else {}
        results = evaluate(tmp_path / "sub", home=tmp_path / "home", include=[file], without=without)
        return results.tasks["own"]

    return run


def numbers(seed: int, n: int = 300) -> tuple[list[str], list[str], list[int]]:
    """Golds, answers that agree better where examples are left out, and the places left out."""
    draw = random.Random(seed)
    left_out = sorted(draw.sample(range(n), n // 3))
    unwanted = set(left_out)
    golds = [draw.uniform(4, 5) if at in unwanted else draw.uniform(1, 3.5) for at in range(n)]
    answers = [gold + draw.gauss(0, 0.2 if at in unwanted else 1.5) for at, gold in enumerate(golds)]
    return [f"{gold:.2f}" for gold in golds], [f"{answer:.2f}" for answer in answers], left_out


@pytest.mark.parametrize(
    ("metric", "key", "expected"),
    [
        ("spearman", "spearman", lambda x, y: 100 * scipy.stats.spearmanr(x, y).statistic),
        ("pearson", "pearson", lambda x, y: 100 * scipy.stats.pearsonr(x, y).statistic),
        ("relatedness", "spearman", lambda x, y: 100 * scipy.stats.spearmanr(x, y).statistic),
        ("relatedness", "mse", lambda x, y: sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / len(x)),
    ],
)
def test_ranks_are_those_of_the_rest(score: Any, metric: str, key: str, expected: Any) -> None:
    golds, answers, left_out = numbers(1)
    rest = [at for at in range(len(golds)) if at not in set(left_out)]
    x, y = ([float(texts[at]) for at in rest] for texts in (answers, golds))
    found = score(golds, answers, left_out, metric)
    assert found.status == "partial" and found.partial.of == len(golds)
    assert found.n == len(rest)
    assert found.scores[key] == pytest.approx(expected(x, y), abs=1e-9)
    assert found.interval[0] <= found.score <= found.interval[1]


def test_an_unreadable_answer_gets_the_end_of_the_rest_s_range(score: Any) -> None:
    """The gold range with the left-out 5 is 1 to 5, and without it 1 to 3."""
    golds, answers = ["1", "2", "3", "5"], ["1", "?", "3", "5"]
    assert score(golds, answers, [], "mse").score == pytest.approx(3**2 / 4)
    assert score(golds, answers, [3], "mse").score == pytest.approx(1 / 3)


def test_classes_are_those_of_the_rest(score: Any) -> None:
    """A class whose examples are all left out is no gold class; predictions of it are as wrong as any others."""
    golds = ["a", "b", "a", "b", "c", "c"] * 10
    answers = ["a", "c", "x", "b", "c", "b"] * 10
    left_out = [at for at, gold in enumerate(golds) if gold == "c"]
    rest = [at for at in range(len(golds)) if golds[at] != "c"]
    found = score(golds, answers, left_out, "mcc")
    folded = [answers[at] if answers[at] in "ab" else "other" for at in rest]
    wanted = sklearn.metrics.matthews_corrcoef([golds[at] for at in rest], folded)
    assert found.scores["mcc"] == pytest.approx(100 * wanted)


def test_ranks_of_the_rest_are_verified(score: Any, command: Callable[..., Any], tmp_path: Path) -> None:
    golds, answers, left_out = numbers(2, 60)
    expected = score(golds, answers, left_out, "spearman").score
    listed = {"task": "own", "split": "validation", "ids": [f"own.validation.{at}" for at in left_out]}
    (tmp_path / "ids.json").write_text(json.dumps({"format": "decabench.ids/1", "splits": [listed]}))
    options = (
        "--submission",
        tmp_path / "sub",
        "--home",
        tmp_path / "home",
        "--include",
        tmp_path / "own.toml",
    )
    done = command("evaluate", "--without", tmp_path / "ids.json", *options)
    assert done.exit_code == 0, done.output
    path = tmp_path / "sub" / "results" / "validation-without" / "results.json"
    content = json.loads(path.read_text())
    assert content["tasks"]["own"]["score"] == expected
    assert len(
        evaluate(
            tmp_path / "sub",
            home=tmp_path / "home",
            include=[tmp_path / "own.toml"],
            without={"own": listed["ids"]},
        ).examples("own")
    ) == 60 - len(left_out)
    assert command("verify", *options).exit_code == 0
    content["tasks"]["own"]["scores"]["spearman"] = expected - 2
    path.write_text(json.dumps(content))
    done = command("verify", *options)
    assert done.exit_code == 1
    assert "scores.spearman: the file was edited" in done.output.replace("\n", " ")


def test_if_none_of_the_ids_is_in_the_data(score: Any, tmp_path: Path) -> None:
    score(["a", "b"], ["a", "b"], [0], "em")
    options = {"home": tmp_path / "home", "include": [tmp_path / "own.toml"]}
    with pytest.raises(DataError, match=r"None of the 2 examples to leave out \(own\).*: x, y"):
        evaluate(tmp_path / "sub", without={"own": ["x", "y"]}, **options)
    with pytest.warns(UserWarning, match="so not left out: x"):
        found = evaluate(tmp_path / "sub", without={"own": ["x", "own.validation.1"]}, **options)
    assert found.tasks["own"].partial.without == ("own.validation.1",)


def test_a_turn_keeps_the_state_that_was_answered_before(home: Path, submit: Callable[..., Path]) -> None:
    """Without the first turn of each dialogue, the later ones are scored on the state that it had set."""
    folder = submit("oracle", ["woz.en"])
    lines = (folder / "predictions" / "woz.en.validation.jsonl").read_text().splitlines()
    ids = [json.loads(line)["id"] for line in lines]
    found = evaluate(folder, home=home, without={"woz.en": [id_ for id_ in ids if id_.endswith("_0")]})
    assert found.tasks["woz.en"].score == 100 and found.tasks["woz.en"].status == "partial"
