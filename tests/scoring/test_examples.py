"""Rows of examples that evaluate writes next to the results, and reading them again."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from click.testing import Result

import decabench
from decabench.errors import DataError, MissingDataError, UnknownNameError
from decabench.metrics import METRICS, Item, score_rows
from decabench.runs import ALL_VARIANTS
from decabench.scoring import (
    Results,
    ScoringOptions,
    examples_path,
    find_courses,
    find_examples,
    read_statistics,
    score_submission,
)
from decabench.scoring.results import STATISTICS
from decabench.scoring.significance import Sample
from decabench.submission import write_submission
from decabench.tasks import TASKS, Store

Command = Callable[..., Result]
Submit = Callable[..., Path]


def rows_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        head, *rows = map(json.loads, file)
    return head, rows


def answers(home: Path, task: str, answer: Callable[[Any], Any]) -> list[Any]:
    return [answer(example) for example in Store(home).examples(task, "validation")]


def test_a_row_for_each_example_of_each_task(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("random")
    assert command("evaluate", folder, "--home", home).exit_code == 0
    results = json.loads((folder / "results/validation/results.json").read_text())["tasks"]
    for name, result in results.items():
        head, rows = rows_of(folder / f"results/validation/examples/{name}.jsonl.gz")
        assert head["format"] == "decabench.examples/1" and head["task"] == name
        examples = list(Store(home).examples(name, "validation"))
        assert [row["id"] for row in rows] == [example.id for example in examples]
        assert [tuple(row["references"]) for row in rows] == [example.answers for example in examples]
        metric = METRICS[TASKS[name].metric].for_columns(head["columns"])
        score = score_rows(metric, [tuple(row["statistics"]) for row in rows])
        assert score.value == pytest.approx(result["score"], abs=1e-12)  # the rows give the score


def test_equal_runs_write_equal_bytes(command: Command, home: Path, submit: Submit, tmp_path: Path) -> None:
    folder = submit("random", ["sst", "squad"])
    for out in ("one", "two"):
        assert command("evaluate", folder, "--home", home, "--output", tmp_path / out).exit_code == 0
    for task in ("sst", "squad"):
        one, two = (examples_path(tmp_path / out, task).read_bytes() for out in ("one", "two"))
        assert one == two


def test_flags_and_raw_texts(command: Command, home: Path, tmp_path: Path) -> None:
    made = [
        {"answer": "", "rule": "unparseable", "raw": "hm"},
        {"answer": "positive", "finish": "length", "raw": "positive, I th"},
        {"answer": "Positive."},
        {"answer": "no idea"},
        {"answer": "", "finish": "refused"},
        {"answer": "negative", "context_kept": [0, 10]},
        {
            "answer": "",
            "rule": "reasoning+cut-in-reasoning+unparseable",
            "finish": "length",
            "raw": "<think>hm",
        },
    ]
    lines = answers(home, "sst", lambda example: {"id": example.id, "answer": example.answers[0]})
    for line, more in zip(lines, made, strict=False):
        line.update(more)
    write_submission(tmp_path / "s", "s", {("sst", "validation"): lines})
    assert command("evaluate", tmp_path / "s", "--home", home).exit_code == 0
    _, rows = rows_of(tmp_path / "s/results/validation/examples/sst.jsonl.gz")
    assert [row.get("flags", []) for row in rows[:8]] == [
        ["unparseable", "other_label"],
        ["cut"],
        ["label_form"],
        ["other_label"],
        ["refused", "other_label"],
        ["context_cut"],
        ["unparseable", "cut_in_reasoning", "cut", "other_label"],
        [],
    ]
    assert [row.get("raw") for row in rows[:3]] == ["hm", "positive, I th", None]
    assert all(row["right"] and row["score"] == 100 for row in (rows[5], *rows[7:]))
    assert rows[2]["right"] is False and rows[2]["score"] == 0


def test_every_wording_has_its_rows(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("first-choice", ["sst"], variant=ALL_VARIANTS)
    assert command("evaluate", folder, "--home", home).exit_code == 0
    _, rows = rows_of(folder / "results/validation/examples/sst.jsonl.gz")
    found = json.loads((folder / "results/validation/results.json").read_text())["tasks"]["sst"]["variants"]
    numbers = sorted({row.get("variant", 0) for row in rows})
    assert numbers == sorted(map(int, found["scores"])) and len(numbers) > 2
    for number in numbers:
        own = [row["score"] for row in rows if row.get("variant", 0) == number]
        assert sum(own) / len(own) == pytest.approx(found["scores"][str(number)])
    shown = find_examples(folder, "sst", ScoringOptions(home=home))
    assert len(shown.rows) == 32 and set(shown.wordings) == set(numbers[1:])


@pytest.fixture
def published(home: Path, tmp_path: Path) -> Path:
    """Treat the sample as the full dataset, so that texts which can't be redistributed are withheld."""
    shutil.copytree(home / "tasks", tmp_path / "data/tasks")
    for path in (tmp_path / "data/tasks").glob("*/task.json"):
        path.write_text(path.read_text().replace('"origin": "sample"', '"origin": "mirror"'))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("task", "left_out"),
    [
        ("sst", ["raw", "reasoning"]),
        ("cnn_dailymail", ["prediction", "raw", "reasoning", "references"]),
        ("squad", []),
    ],
)
def test_texts_that_cannot_be_redistributed_are_left_out(
    command: Command, published: Path, tmp_path: Path, task: str, left_out: list[str]
) -> None:
    lines = answers(
        published,
        task,
        lambda e: {
            "id": e.id,
            "answer": e.answers[0],
            "raw": "SECRET " + e.answers[0],
            "reasoning": "SECRET",
        },
    )
    write_submission(tmp_path / "s", "s", {(task, "validation"): lines})
    path = tmp_path / f"s/results/validation/examples/{task}.jsonl.gz"
    assert command("evaluate", tmp_path / "s", "--home", published).exit_code == 0
    head, rows = rows_of(path)
    assert head.get("left_out", []) == left_out
    assert all(not set(left_out) & set(row) for row in rows)
    shown = find_examples(tmp_path / "s", task, ScoringOptions(home=published))
    assert shown.rows[0].raw == lines[0]["raw"] and shown.rows[0].reasoning == "SECRET"
    assert shown.rows[0].references[0] == lines[0]["answer"]
    assert command("evaluate", tmp_path / "s", "--home", published, "--all-texts").exit_code == 0
    head, rows = rows_of(path)
    assert "left_out" not in head and rows[0]["raw"].startswith("SECRET")


def test_a_failed_task_loses_its_rows(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("random", ["sst", "schema"])
    command("evaluate", folder, "--home", home)
    path = folder / "predictions/sst.validation.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")
    command("evaluate", folder, "--home", home)
    assert [each.name for each in (folder / "results/validation/examples").iterdir()] == ["schema.jsonl.gz"]


def test_a_corpus_metric_knows_an_exact_answer(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("oracle", ["iwslt.en.de", "zre", "woz.en", "wikisql"])
    command("evaluate", folder, "--home", home)
    for task in ("iwslt.en.de", "zre", "woz.en", "wikisql"):
        _, rows = rows_of(folder / f"results/validation/examples/{task}.jsonl.gz")
        assert all(row["right"] for row in rows), task


def test_examples_of_results(home: Path, submit: Submit) -> None:
    results = decabench.evaluate(submit("random", ["sst", "squad"]), home=home)
    frame = results.examples("squad")
    assert len(frame) == frame["statistics.n"].sum() == 32
    assert frame["score"].mean() == pytest.approx(results.tasks["squad"].score, abs=1e-6)
    assert list(frame.columns[:5]) == ["id", "prediction", "raw", "reasoning", "references"]
    with pytest.raises(UnknownNameError, match="Did you mean squad"):
        results.examples("squat")
    with pytest.raises(MissingDataError, match="don't contain examples"):
        Results.from_json(results.to_json()).examples("sst")


def test_examples_of_an_archive_are_read_again_after_it_was_closed(
    home: Path, submit: Submit, tmp_path: Path
) -> None:
    folder = submit("random", ["sst"])
    path = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", folder))
    frame = decabench.evaluate(path, home=home).examples("sst")
    pandas.testing.assert_frame_equal(frame, decabench.evaluate(folder, home=home).examples("sst"))


GOLD = ("food: thai;", "area: north;", "none", "price: low;")


@pytest.mark.parametrize(
    ("answers", "parted"),
    [
        (GOLD, (None, None, None, None)),
        (("none", *GOLD[1:]), (0, 0, 0, 0)),
        (("food: thai;", "area: south;", *GOLD[2:]), (None, 1, 1, 1)),
        (("none", "food: thai, area: north;", *GOLD[2:]), (0, None, None, None)),  # made up for
        (
            ("none", "food: thai, area: north;", "area: east;", "price: low;"),
            (0, None, 2, 2),
        ),  # and wrong again
    ],
)
def test_a_course_says_since_when_states_differ(answers: Sequence[str], parted: Sequence[int | None]) -> None:
    """The interleaved turns of two dialogues with the same answers do not affect each other."""
    turns = [
        Item([gold], id=f"{name}_{number}") for number, gold in enumerate(GOLD) for name in ("en_1", "en_2")
    ]
    found = find_courses(METRICS["joint_goal_em"], [each for each in answers for _ in range(2)], turns)
    for dialogue in (0, 1):
        places = range(dialogue, 8, 2)
        assert [found[place].before for place in places] == [tuple(places[:at]) for at in range(4)]
        ours = [found[place].parted for place in places]
        assert ours == [None if at is None else places[at] for at in parted]
        assert all((found[at].predicted == found[at].gold) == (found[at].parted is None) for at in places)


@pytest.mark.parametrize("metric", ["nf1", "dialogue_f1", "pearson"])
def test_other_metrics_compare_answers_as_they_stand(metric: str) -> None:
    assert find_courses(METRICS[metric], ["1"], [Item(["1"], id="en_0_0")]) == {}


# Statistics files: intervals and tests read the written values


@pytest.fixture
def scored(home, submit, tmp_path):
    folder = submit("lead-3", ["squad", "woz.en", "iwslt.en.de"], "s")
    results, found = score_submission(folder, ScoringOptions(home=home))
    results.write(tmp_path / "results")
    return results, found, tmp_path / "results"


def read_sample(folder, task, metric):
    metric, units, rows = read_statistics(folder / STATISTICS / f"{task}.parquet", metric)
    return Sample.of_levels(metric, rows, units, task)


@pytest.mark.parametrize("task", ["squad", "woz.en", "iwslt.en.de"])
def test_round_trip(scored, task):
    results, found, folder = scored
    sample = read_sample(folder, task, found[task].sample.metric)
    assert np.array_equal(sample.rows, found[task].sample.rows)
    assert (sample.examples, sample.name) == (results.tasks[task].n, task)
    assert sample.score == pytest.approx(results.tasks[task].score, abs=1e-9)
    assert sample.interval == found[task].sample.interval


def test_units_are_dialogues(scored):
    _, found, folder = scored
    dialogues = {item.units for item in found["woz.en"].references}
    _, units, _ = read_statistics(folder / STATISTICS / "woz.en.parquet", found["woz.en"].sample.metric)
    assert set(units[:, 0]) == set(range(len(dialogues)))


def test_damaged_and_other_columns(scored):
    path = scored[2] / STATISTICS / "squad.parquet"
    with pytest.raises(DataError, match=r"squad\.parquet is damaged .*evaluate again"):
        read_statistics(path, METRICS["bleu"])
    path.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"squad\.parquet is damaged .*evaluate again"):
        read_statistics(path, METRICS["nf1"])


def test_the_interval_of_the_results_is_the_sample_s(scored):
    results, found, _ = scored
    assert results.tasks["squad"].interval == found["squad"].sample.interval.ends
    assert results.interval is None  # three tasks have no decaScore


def test_the_results_say_what_was_sampled(scored):
    results, found, _ = scored
    units = results.tasks["woz.en"].units
    assert units.number == len(found["woz.en"].sample.sizes)
    assert 1 < units.effective <= units.number
