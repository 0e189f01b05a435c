"""The results file: totals, their coverage, reading and writing."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import decabench
from decabench.errors import DataError, MissingDataError
from decabench.scoring import Results, read_results_file
from decabench.scoring.evaluator import evaluate
from decabench.scoring.results import (
    LIMIT_BYTES,
    DataUsed,
    InvalidResultsError,
    LimitedRun,
    TaskResult,
    VariantScores,
    read_results,
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
        ({"own": scored(50)}, "0.0 of 0 (0 of 10 tasks)", 0, 0, None),
        ({**ALL, "squad": partial()}, "137.2 of 900 (9 of 10 tasks; 1 partial, not summed)", 137.25, 9, None),
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
        ("none", {"sst": 80, "schema": 60, "own": 40}, "no total (3 of 3 tasks)", None, 0, True),
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


def test_nan_is_not_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        results({"squad": scored(float("nan"))}).to_json()


def test_empty_fields_are_left_out():
    content = json.loads(results({"squad": scored(5)}).to_json())
    assert not {"answers", "ceiling", "partial", "variants"} & content["tasks"]["squad"].keys()
    assert "answers" not in content and "partial" not in content["total"]


def test_all_fields_are_written_and_read(tmp_path):
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


# Results as a DataFrame


@pytest.fixture
def submissions(home, submit, tmp_path):
    """The oracle on ten tasks, and the majority baseline on two tasks, one of which fails."""
    for name, tasks in (("oracle", DECATHLON.tasks), ("majority", ("sst", "schema"))):
        folder = submit(name, tasks, f"submissions/{name}")
        if name == "majority":
            with (folder / "predictions" / "schema.validation.jsonl").open("a") as file:
                file.write('{"id": "nobody", "answer": ""}\n')
        write_results_file(folder / "results" / "validation", evaluate(folder, home=home))
    return tmp_path / "submissions"


def test_read_results(submissions):
    frame = decabench.read_results(submissions)
    assert len(frame) == 20
    assert list(frame.index) == list(range(20))
    assert list(frame["submission"]) == ["oracle"] * 10 + ["majority"] * 10  # the best first
    assert list(frame["task"][:10]) == list(DECATHLON.tasks)
    assert frame["score"][:10].tolist() == pytest.approx([100] * 10)
    assert frame["decascore"][:10].tolist() == pytest.approx([1000] * 10)
    assert frame.columns.tolist()[:8] == [
        "submission",
        "split",
        "decascore",
        "complete",
        "total",
        "path",
        "task",
        "status",
    ]
    assert {"metric", "n", "empty", "origin", "verified", "fingerprint", "scores"} <= set(frame.columns)


def test_failed_and_missing_tasks_have_no_score(submissions):
    frame = read_results(str(submissions))
    partial = frame[frame["submission"] == "majority"].set_index("task")
    assert partial["status"].to_dict() == {
        **dict.fromkeys(DECATHLON.tasks, "missing"),
        "sst": "scored",
        "schema": "failed",
    }
    assert partial["score"].notna().to_dict() == {name: name == "sst" for name in DECATHLON.tasks}
    assert partial["decascore"].isna().all() and not partial["complete"].any()
    assert partial["total"].tolist() == pytest.approx([partial.loc["sst", "score"]] * 10)


def test_no_results(tmp_path):
    with pytest.raises(MissingDataError, match=r"There is no results\.json in .*Run decabench evaluate"):
        read_results(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": "decabench.results/9"}'])
def test_a_damaged_file_is_a_sentence(submissions, content):
    (submissions / "oracle" / "results" / "validation" / "results.json").write_bytes(content)
    with pytest.raises(DataError, match=r"oracle/results/validation/results\.json"):
        read_results(submissions)


# Results and comparisons in notebooks and terminals


Submit = Callable[..., Path]


def test_results_are_a_table(home: Path, submit: Submit) -> None:
    results = decabench.evaluate(submit("majority"), home=home)
    html = results._repr_html_()
    assert html.startswith("<table>") and html.count("<tr>") == 11
    for name, task in results.tasks.items():
        assert f">{name}</td>" in html and f"{task.score:.2f}" in html
    assert f"decaScore {results.total.text}" in html


def test_results_are_short_in_a_terminal(home: Path, submit: Submit) -> None:
    lines = repr(decabench.evaluate(submit("majority"), home=home)).splitlines()
    assert re.fullmatch(r"majority, validation: decaScore \d+\.\d", lines[0])
    assert len(lines) == 11 and all(len(line) <= 80 for line in lines)
    assert any(re.fullmatch(r"  sst +em +\d+\.\d\d", line) for line in lines)


def test_comparisons_are_a_table_and_short(home: Path, submit: Submit) -> None:
    found = decabench.compare(
        submit("majority", ["sst", "squad"]), submit("oracle", ["sst", "squad"]), home=home
    )
    html, lines = found._repr_html_(), repr(found).splitlines()
    assert html.count("<tr>") == 3 and "p (Holm)" in html
    assert lines[0] == "A majority, B oracle, validation" and len(lines) == 3
    assert all(len(line) <= 80 for line in lines)


def test_hostile_names_do_nothing(home: Path, submit: Submit) -> None:
    text = decabench.evaluate(submit("majority", ["sst"]), home=home).to_json()
    results = Results.from_json(text.replace('"name": "majority"', '"name": "<script>x</script>\\u001b[31m"'))
    assert "<script>" not in results._repr_html_() and "&lt;script&gt;" in results._repr_html_()
    assert "\x1b" not in results._repr_html_() + repr(results)


# Reading results files: no damage is read as a number, and nothing that contradicts itself is read at all


SCORED = TaskResult("scored", "em", "em", DATA, n=10, score=50.0, scores={"em": 50.0}, interval=(40.0, 60.0))
ALL_OF_READING = Results({"name": "a"}, "validation", dict.fromkeys(DECATHLON.tasks, SCORED), (450.0, 550.0))
SEVEN_OF_READING = replace(ALL_OF_READING, tasks=dict.fromkeys(DECATHLON.tasks[:7], SCORED), interval=None)
GOOD = SEVEN_OF_READING.to_json()
OWN = Suite("own", "Own tasks", ("sst", "mine"), "mean", "average")


def changed(results: Results, *path: str, value: Any) -> str:
    """Return the JSON of results with one value changed, or removed if the value is `...`."""
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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is not JSON"),
        ("[" * 200_000, "it is not JSON: its brackets are nested too deeply"),
        (GOOD.replace("decabench.results/1", "decabench.results/2"), "its format is 'decabench.results/2'"),
        (GOOD.replace('"name": "a"', '"title": "a"'), "its submission has no name"),
        (GOOD.replace('"origin"', '"origin": "sample",\n    "origin"'), "it is not JSON: the key 'origin'"),
        (
            changed(SEVEN_OF_READING, "split", value=...),
            "a value is invalid: Object missing required field `split`",
        ),
        (
            changed(SEVEN_OF_READING, "split", value="dev"),
            "a value is invalid: Invalid enum value 'dev' - at `$.split`",
        ),
        (changed(ALL_OF_READING, "interval", value=[1.0]), "a value is invalid"),
        (
            changed(SEVEN_OF_READING, "tasks", "sst", "data", "fingerprint", value=""),
            "sst: it has a score, but no fingerprint",
        ),
        (
            changed(SEVEN_OF_READING, "tasks", "sst", "status", value="failed"),
            "sst: its status is failed, but its score is 50.0",
        ),
        (
            changed(SEVEN_OF_READING, "tasks", "sst", "interval", value=[9.0, 101.0]),
            "sst: it has a score or interval bound of 101.0",
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
        (-1, "it has a score or interval bound of -1.0, which is not between 0 and 100"),
        ("90", "Expected `float | null`, got `str` - at `$.score`"),
    ],
)
def test_a_score_is_a_number_from_0_to_100(score: object, reason: str) -> None:
    content = json.loads(GOOD)
    content["tasks"]["sst"]["score"] = score
    assert refusal(json.dumps(content)).startswith(f"sst: {reason}")


def test_a_perfect_bleu_is_a_hair_above_100() -> None:
    content = json.loads(replace(SEVEN_OF_READING, tasks={"iwslt.en.de": SCORED}).to_json())
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
    text = replace(SEVEN_OF_READING, tasks={"mine": own}).to_json()
    if is_read:
        assert Results.from_json(text).tasks["mine"].score == score
    else:
        assert "which is not between" in refusal(text)


def test_a_known_task_cannot_take_another_metric_s_range() -> None:
    forged = replace(SCORED, metric="mse", headline="mse", score=900.0, interval=None)
    assert refusal(replace(SEVEN_OF_READING, tasks={"sst": forged}).to_json()).startswith(
        "sst: it has a score or interval bound of 900.0"
    )


@pytest.mark.parametrize("run", [None, LimitedRun(872, 872), LimitedRun(0, 872)])
def test_a_limited_run_says_of_how_many(run: LimitedRun | None) -> None:
    task = replace(SCORED, status="partial", partial=run)
    reason = refusal(replace(SEVEN_OF_READING, tasks={"sst": task}).to_json())
    assert (
        reason
        == "sst: its status is partial, but the number of answered examples or of all examples is missing or invalid"
    )


@pytest.mark.parametrize(
    ("scores", "reason"),
    [
        ({"1": 1.0, "2": 2.0}, "its variants must have numbers from 0 to 999, including 0"),
        ({"0": 1.0, "<b>": 2.0}, "its variants must have numbers from 0 to 999, including 0"),
        (
            {"0": 1.0, "1": 101.0},
            "it has a score or interval bound of 101.0, which is not between 0 and 100",
        ),
    ],
)
def test_variants_that_cannot_be(scores: dict[str, float], reason: str) -> None:
    task = replace(SCORED, variants=VariantScores(scores, 1.0, 1.0, 0.0))
    assert refusal(replace(SEVEN_OF_READING, tasks={"sst": task}).to_json()) == f"sst: {reason}"


def test_totals_are_computed_from_the_scores_whatever_a_file_states() -> None:
    content = json.loads(ALL_OF_READING.to_json()) | {"decascore": 999.0}
    content["total"] |= {"score": 999.0, "tasks": 3, "complete": False}
    assert Results.from_json(json.dumps(content)) == ALL_OF_READING
    content["tasks"]["sst"] |= {"status": "partial", "partial": {"answered": 1, "of": 2}}
    read = Results.from_json(json.dumps(content))
    assert read.decascore is None and (read.total.score, read.total.tasks) == (450.0, 9)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        (("suite", "total"), "median", "a value is invalid: Invalid enum value 'median'"),
        (("suite", "tasks"), [], "a value is invalid: Suite 'own': 'tasks' must list"),
        (("suite", "tasks"), "sst", "a value is invalid"),
        (("suite",), None, "a value is invalid"),
    ],
)
def test_the_total_of_another_suite(path: tuple[str, ...], value: object, reason: str) -> None:
    results = Results({"name": "a"}, "validation", {"sst": SCORED, "mine": SCORED}, suite=OWN)
    assert Results.from_json(results.to_json()).total == results.total
    assert refusal(changed(results, *path, value=value)).startswith(reason)


def test_a_suite_of_other_tasks_is_not_the_decathlon_whatever_its_name_is() -> None:
    content = json.loads(SEVEN_OF_READING.to_json())
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
    assert Results.from_json(json.dumps(content)) == SEVEN_OF_READING


def test_files_that_cannot_be_read(tmp_path) -> None:
    path = tmp_path / "results.json"

    def reason() -> str:
        with pytest.raises(InvalidResultsError) as caught:
            read_results_file(path)
        assert str(caught.value).startswith(str(path))
        return caught.value.reason

    assert reason() == "it can't be read (No such file or directory)"
    path.write_bytes(b"\xff\xfe")
    assert reason() == "it is not UTF-8"
    path.write_bytes(b" " * (LIMIT_BYTES + 1))
    assert reason() == "it is larger than 16 MiB"
    path.unlink()
    path.mkdir()
    assert reason() == "it is not a regular file"


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
    """Return a file whose sst has all parts, with one key changed, or removed if the value is `...`."""
    return changed(replace(SEVEN_OF_READING, tasks={"sst": PARTS}), "tasks", "sst", part, key, value=value)


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [("partial", "answered", ...), ("variants", "scores", [1]), ("units", "number", "<b>")],
)
def test_the_parts_of_a_result_are_of_their_kinds(part: str, key: str, value: object) -> None:
    assert f"$.{part}" in refusal(with_part(part, key, value))
