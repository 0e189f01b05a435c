"""Reading results files: no damage is read as a number, and nothing that contradicts itself is read at all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from decabench.scoring.results import (
    LIMIT_BYTES,
    DataUsed,
    InvalidResultsError,
    LimitedRun,
    Results,
    TaskResult,
    VariantScores,
    read_results_file,
)
from decabench.scoring.significance import SampledUnits
from decabench.tasks import DECATHLON, Suite

DATA = DataUsed("sha256:00", "mirror", True, 10, 10)
SCORED = TaskResult("scored", "em", "em", DATA, n=10, score=50.0, scores={"em": 50.0}, interval=(40.0, 60.0))
ALL = Results({"name": "a"}, "validation", dict.fromkeys(DECATHLON.tasks, SCORED), (450.0, 550.0))
SEVEN = replace(ALL, tasks=dict.fromkeys(DECATHLON.tasks[:7], SCORED), interval=None)
GOOD = SEVEN.to_json()
OWN = Suite("own", "Own tasks", ("sst", "mine"), "mean", "average")


def changed(results: Results, *path: str, value: Any) -> str:
    """The JSON of results with one value changed, or removed for ..."""
    content = json.loads(results.to_json())
    at = content
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    if value is ...:
        del at[path[-1]]
    return json.dumps(content)


def refusal(text: str) -> str:
    with pytest.raises(InvalidResultsError) as caught:
        Results.from_json(text, "there.json")
    assert str(caught.value).startswith("there.json is not a valid results file: ")
    assert str(caught.value).endswith("Run decabench evaluate again.")
    assert caught.value.exit_code == 3
    return caught.value.reason


@pytest.mark.parametrize("results", [ALL, SEVEN, replace(SEVEN, answers="raw"), replace(ALL, split="test")])
def test_what_was_written_is_read(results: Results) -> None:
    assert Results.from_json(results.to_json()) == results


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[]", "its JSON is not an object"),
        ("[" * 200_000, "it is not JSON: its brackets are nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "it is not JSON"),
        (GOOD[:-20], "it is not JSON"),
        (GOOD.replace("decabench.results/1", "decabench.results/2"), "its format is 'decabench.results/2'"),
        ("{}", "its format is None; this version reads 'decabench.results/1'"),
        (GOOD.replace('"name": "a"', '"title": "a"'), "its submission has no name"),
        (GOOD.replace('"name": "a"', '"name": 3'), "its submission has no name"),
        (GOOD.replace('"name": "a"', '"name": " \u202e\\n"'), "its submission has no name"),
        (GOOD.replace('"score": 50.0', '"score": NaN'), "it is not JSON: NaN is not JSON"),
        (GOOD.replace('"origin"', '"origin": "sample",\n    "origin"'), "it is not JSON: the key 'origin'"),
        (changed(SEVEN, "split", value=...), "its split is None"),
        (changed(SEVEN, "split", value="dev"), "its split is 'dev', not one of train, validation, test"),
        (changed(SEVEN, "tasks", value=[]), "it has no tasks"),
        (changed(SEVEN, "answers", value="both"), "its answers are 'both', not extracted or raw"),
        (changed(SEVEN, "decabench", value=...), "it has no 'decabench'"),
        (changed(SEVEN, "decabench", value=1), "its decabench is invalid: Expected `str`, got `int`"),
        (changed(SEVEN, "total", value=...), "it has no 'total'"),
        (changed(ALL, "interval", value=[1.0]), "its interval is invalid"),
        (changed(ALL, "interval", value=[2.0, 1.0]), "its interval is [2.0, 1.0]"),
        (changed(SEVEN, "tasks", "sst", value=80.0), "sst: Expected `object`, got `float`"),
        (changed(SEVEN, "tasks", "sst", "status", value=...), "sst: Object missing required field `status`"),
        (changed(SEVEN, "tasks", "sst", "status", value="fine"), "sst: Invalid enum value 'fine'"),
        (changed(SEVEN, "tasks", "sst", "data", value=...), "sst: Object missing required field `data`"),
        (
            changed(SEVEN, "tasks", "sst", "data", "fingerprint", value=""),
            "sst: it is scored, but without the",
        ),
        (
            changed(SEVEN, "tasks", "sst", "status", value="failed"),
            "sst: its status is failed, but its score is 50.0",
        ),
        (changed(SEVEN, "tasks", "sst", "interval", value=[9.0, 1.0]), "sst: its interval is [9.0, 1.0]"),
        (changed(SEVEN, "tasks", "sst", "interval", value=[9.0, 101.0]), "sst: it has the score 101.0"),
        (changed(SEVEN, "tasks", "sst", "n", value=-1), "sst: one of its counts is negative"),
        (changed(SEVEN, "tasks", "sst", "n", value=10**30), "sst: one of its counts is negative, or larger"),
        (changed(SEVEN, "tasks", "sst", "n", value="9"), "sst: Expected `int`, got `str`"),
        (
            changed(SEVEN, "tasks", "sst", "answers", value={"refused": -1}),
            "sst: one of its counts is negative",
        ),
        (changed(SEVEN, "tasks", "sst", "answers", value={"refused": "4"}), "sst: Expected `int`, got `str`"),
        (changed(SEVEN, "tasks", "sst", "answers", value=[3]), "sst: Expected `object`, got `array`"),
        (changed(SEVEN, "tasks", "sst", "ceiling", value="97"), "sst: Expected `float | null`, got `str`"),
        (
            GOOD.replace('"em": 50.0', '"em": 1e999'),
            "it is not JSON: the number 1e999 is too large or too long",
        ),
    ],
)
def test_damage_is_a_sentence(text: str, reason: str) -> None:
    assert text != GOOD
    assert refusal(text).startswith(reason)


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (None, "its status is"),
        (-1, "it has the score -1.0, not a number from 0 to 100"),
        (100.01, "it has the score 100.01"),
        ("90", "Expected `float | null`, got `str` - at `$.score`"),
        (True, "Expected `float | null`, got `bool`"),
        ([1], "Expected `float | null`, got `array`"),
    ],
)
@pytest.mark.parametrize("status", ["scored", "partial"])
def test_a_score_is_a_number_from_0_to_100(status: str, score: object, reason: str) -> None:
    content = json.loads(GOOD)
    content["tasks"]["sst"] |= {"status": status, "score": score, "partial": {"answered": 1, "of": 2}}
    assert refusal(json.dumps(content)).startswith(f"sst: {reason}")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("1e999", "the number 1e999 is too large or too long"),
        ("1" + "0" * 400, "it has a number of 401 digits"),
    ],
)
def test_a_number_that_no_float_holds_is_not_json(number: str, reason: str) -> None:
    assert refusal(GOOD.replace('"em": 50.0', f'"em": {number}', 1)) == f"it is not JSON: {reason}"


def test_a_perfect_bleu_is_a_hair_above_100() -> None:
    content = json.loads(replace(SEVEN, tasks={"iwslt.en.de": SCORED}).to_json())
    content["tasks"]["iwslt.en.de"]["score"] = content["total"]["score"] = 100.00000000000004
    assert Results.from_json(json.dumps(content)).tasks["iwslt.en.de"].score == 100.00000000000004


@pytest.mark.parametrize(
    ("metric", "score", "is_read"),
    [
        ("mse", 250.0, True),
        ("mse", -1.0, False),
        ("pearson", -20.0, True),
        ("my.package:metric", 101.0, True),
    ],
)
def test_scores_of_other_metrics_have_their_range(metric: str, score: float, is_read: bool) -> None:
    own = replace(SCORED, metric=metric, headline=metric, score=score, interval=None)
    text = replace(SEVEN, tasks={"mine": own}).to_json()
    if is_read:
        assert Results.from_json(text).tasks["mine"].score == score
    else:
        assert "not a number from" in refusal(text)


def test_a_known_task_cannot_take_another_metric_s_range() -> None:
    forged = replace(SCORED, metric="mse", headline="mse", score=900.0, interval=None)
    assert refusal(replace(SEVEN, tasks={"sst": forged}).to_json()).startswith("sst: it has the score 900.0")


@pytest.mark.parametrize(
    "run", [None, LimitedRun(872, 872), LimitedRun(0, 872), LimitedRun(-1, 872), LimitedRun(900, 872)]
)
def test_a_limited_run_says_of_how_many(run: LimitedRun | None) -> None:
    task = replace(SCORED, status="partial", partial=run)
    reason = refusal(replace(SEVEN, tasks={"sst": task}).to_json())
    assert reason == "sst: it is partial, but does not say how many of how many examples it answered"


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ({"1": 1.0, "2": 2.0}, "its variants are not numbered from 0"),
        ({"0": 1.0, "<b>": 2.0}, "its variants are not numbered from 0"),
        ({"0": 1.0, "01": 2.0}, "its variants are not numbered from 0"),
        ({}, "its variants are not numbered from 0"),
        ({"0": 1.0, "1": 101.0}, "it has the score 101.0, not a number from 0 to 100"),
    ],
)
def test_variants_that_cannot_be(scores: dict[str, float], reason: str) -> None:
    task = replace(SCORED, variants=VariantScores(scores, 1.0, 1.0, 0.0))
    assert refusal(replace(SEVEN, tasks={"sst": task}).to_json()) == f"sst: {reason}"


@pytest.mark.parametrize(
    ("results", "claim", "reason"),
    [
        (ALL, 999.0, "its decaScore is 999.00, but its task scores give 500.00"),
        (ALL, True, "its decascore is invalid: Expected `float | null`, got `bool`"),
        (ALL, None, "it states no decaScore, although 10 of 10 tasks are scored"),
        (SEVEN, 450.0, "it claims a decaScore with 7 of 10 tasks scored"),
        (ALL, 10**400, "it is not JSON: it has a number of 401 digits"),
    ],
)
def test_a_decascore_is_the_sum_of_ten(results: Results, claim: object, reason: str) -> None:
    assert refusal(changed(results, "decascore", value=claim)) == reason


def test_a_decascore_of_rounded_scores_is_read() -> None:
    assert Results.from_json(changed(ALL, "decascore", value=500.05)).decascore == 500.0


def test_no_decascore_rests_on_a_limited_run() -> None:
    content = json.loads(ALL.to_json())
    content["tasks"]["sst"] |= {"status": "partial", "partial": {"answered": 1, "of": 2}}
    content["total"] |= {"score": 450.0, "tasks": 9, "complete": False}
    assert refusal(json.dumps(content)) == "it claims a decaScore with 9 of 10 tasks scored"


def test_a_part_of_a_sum_is_checked_too() -> None:
    assert refusal(changed(SEVEN, "total", "score", value=351.0)) == (
        "its decaScore is 351.00, but its task scores give 350.00"
    )


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("total", "score"), 90.0, "its average is 90.00, but its task scores give 50.00"),
        (("total", "score"), None, "it states no average, although 2 of 2 tasks are scored"),
        (
            ("total", "complete"),
            False,
            "its total states 2 tasks (incomplete), but 2 are scored",
        ),
        (("total", "tasks"), 3, "its total states 3 tasks (complete), but 2 are scored"),
        (("suite", "total"), "median", "its suite is invalid: Invalid enum value 'median'"),
        (("suite", "tasks"), [], "its suite is invalid: Suite 'own': It has no tasks"),
        (("suite", "tasks"), "sst", "its suite is invalid"),
        (("suite",), None, "its suite is invalid"),
    ],
)
def test_the_total_of_another_suite(path: tuple[str, ...], value: object, reason: str) -> None:
    results = Results({"name": "a"}, "validation", {"sst": SCORED, "mine": SCORED}, suite=OWN)
    assert Results.from_json(results.to_json()).total == results.total
    assert refusal(changed(results, *path, value=value)).startswith(reason)


def test_a_suite_of_other_tasks_is_not_the_decathlon_whatever_its_name_is() -> None:
    content = json.loads(SEVEN.to_json())
    content["suite"] = {"name": "decathlon", "title": "", "tasks": list(DECATHLON.tasks), "total": "sum"}
    assert Results.from_json(json.dumps(content)).suite is DECATHLON
    content["suite"]["tasks"] = list(DECATHLON.tasks[:7])
    content["total"] |= {"complete": True}
    read = Results.from_json(json.dumps(content))
    assert read.suite.name == "decathlon" and read.suite != DECATHLON
    assert read.decascore is None and read.total.complete


def test_keys_that_are_not_known_are_ignored() -> None:
    content = json.loads(GOOD) | {"mine": 1}
    content["tasks"]["sst"]["mine"] = 1
    assert Results.from_json(json.dumps(content)) == SEVEN


def test_files_that_cannot_be_read(tmp_path) -> None:
    path = tmp_path / "results.json"

    def reason() -> str:
        with pytest.raises(InvalidResultsError) as caught:
            read_results_file(path)
        assert str(caught.value).startswith(str(path))
        return caught.value.reason

    assert reason() == "it cannot be read (No such file or directory)"
    path.write_bytes(b"\xff\xfe")
    assert reason() == "it is not UTF-8"
    path.write_bytes(b" " * (LIMIT_BYTES + 1))
    assert reason() == "it is larger than 16 MiB"
    path.unlink()
    path.mkdir()
    assert reason() == "it is not a regular file"


def test_a_byte_order_mark_does_no_harm(tmp_path) -> None:
    (tmp_path / "results.json").write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_results_file(tmp_path / "results.json") == SEVEN


def test_another_file_of_decabench_s_says_which() -> None:
    with pytest.raises(InvalidResultsError) as caught:
        Results.from_json('{"format": "decabench.run/1"}')
    assert caught.value.kind == "decabench.run/1"


def test_scores_whose_sum_is_too_large() -> None:
    huge = replace(SCORED, metric="package.module:METRIC", headline="own", score=1.7e308, interval=None)
    content = json.loads(
        Results({"name": "a"}, "validation", {"sst": SCORED, "mine": SCORED}, suite=OWN).to_json()
    )
    for task in content["tasks"].values():
        task |= {"metric": huge.metric, "headline": "own", "score": huge.score}
        task["scores"] = {"own": huge.score}
        task.pop("interval", None)
    assert refusal(json.dumps(content))


PARTS = replace(
    SCORED,
    partial=LimitedRun(10, 20, "limit 10"),
    variants=VariantScores({"0": 50.0, "1": 40.0}, 45.0, 40.0, 10.0, {"1": "sha256:0"}, retired={"2": 5.0}),
    units=SampledUnits(10, 9.5, "talk", 2, "day"),
)


def with_part(part: str, key: str, value: object) -> str:
    """A file whose sst has all parts, with a key of one changed, or removed for ..."""
    return changed(replace(SEVEN, tasks={"sst": PARTS}), "tasks", "sst", part, key, value=value)


def test_the_parts_of_a_result_are_read() -> None:
    results = replace(SEVEN, tasks={"sst": PARTS})
    assert Results.from_json(results.to_json()) == results
    assert Results.from_json(with_part("units", "more", 1)).tasks["sst"] == PARTS


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("partial", "answered", ...), ("variants", "scores", [1]), ("units", "number", "<b>")],
)
def test_the_parts_of_a_result_are_of_their_kinds(part: str, key: str, value: object) -> None:
    assert f"$.{part}" in refusal(with_part(part, key, value))
