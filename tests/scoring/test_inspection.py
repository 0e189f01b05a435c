"""Rows of examples: what evaluate writes beside the results, and what is found again."""

from __future__ import annotations

import gzip
import json
import shutil
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import pytest
from click.testing import Result

import decabench
from decabench.errors import DataError, MissingDataError, UnknownNameError
from decabench.metrics import METRICS, score_rows
from decabench.runs import ALL_VARIANTS
from decabench.scoring import (
    Chosen,
    Results,
    ScoringOptions,
    browse_examples,
    examples_frame,
    examples_path,
    find_examples,
    inspection,
    open_examples,
    read_results_file,
)
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
        ["empty", "unparseable", "other_label"],
        ["cut"],
        ["label_form"],
        ["other_label"],
        ["empty", "refused", "other_label"],
        ["context_cut"],
        ["empty", "unparseable", "cut_in_reasoning", "cut", "other_label"],
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
    assert shown.is_read and len(shown.rows) == 32
    assert set(shown.wordings[shown.rows[0].id]) == set(numbers[1:])


@pytest.fixture
def published(home: Path, tmp_path: Path) -> Path:
    """The sample as if it were the dataset: what may not be passed on is withheld."""
    shutil.copytree(home / "tasks", tmp_path / "data/tasks")
    for path in (tmp_path / "data/tasks").glob("*/task.json"):
        path.write_text(path.read_text().replace('"origin": "sample"', '"origin": "mirror"'))
    return tmp_path / "data"


@pytest.mark.parametrize(
    ("task", "left_out"),
    [("sst", ["raw"]), ("cnn_dailymail", ["prediction", "raw", "references"]), ("squad", [])],
)
def test_what_may_not_be_passed_on_stays_out(
    command: Command, published: Path, tmp_path: Path, task: str, left_out: list[str]
) -> None:
    lines = answers(
        published, task, lambda e: {"id": e.id, "answer": e.answers[0], "raw": "SECRET " + e.answers[0]}
    )
    write_submission(tmp_path / "s", "s", {(task, "validation"): lines})
    path = tmp_path / f"s/results/validation/examples/{task}.jsonl.gz"
    assert command("evaluate", tmp_path / "s", "--home", published).exit_code == 0
    head, rows = rows_of(path)
    assert head.get("left_out", []) == left_out
    assert all(not set(left_out) & set(row) for row in rows)
    shown = find_examples(tmp_path / "s", task, ScoringOptions(home=published))
    assert shown.is_read  # and filled in from the submission and the data, which are at hand
    assert shown.rows[0].raw == lines[0]["raw"] and shown.rows[0].references[0] == lines[0]["answer"]
    assert command("evaluate", tmp_path / "s", "--home", published, "--all-texts").exit_code == 0
    head, rows = rows_of(path)
    assert "left_out" not in head and rows[0]["raw"].startswith("SECRET")


def test_changed_answers_are_scored_anew(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("majority", ["sst"])
    assert command("evaluate", folder, "--home", home).exit_code == 0
    options = ScoringOptions(home=home)
    assert find_examples(folder, "sst", options).is_read
    path = folder / "predictions/sst.validation.jsonl"
    path.write_text(path.read_text().replace("positive", "x").replace("negative", "x"))
    found = find_examples(folder, "sst", options)
    assert not found.is_read and {row.prediction for row in found.rows} == {"x"}


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"not gzip",
        gzip.compress(b'{"format": "decabench.results/1"}\n', mtime=0),
        gzip.compress(b'{"format": "decabench.examples/1", "task": "sst"}\n', mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
    ],
    ids=["empty", "no gzip", "another format", "no digests", "deep"],
)
def test_a_damaged_file_is_refused_and_done_without(
    command: Command, home: Path, submit: Submit, damage: bytes
) -> None:
    folder = submit("majority", ["sst"])
    assert command("evaluate", folder, "--home", home).exit_code == 0
    path = examples_path(folder / "results/validation", "sst")
    path.write_bytes(damage)
    with pytest.raises(DataError, match=r"sst\.jsonl\.gz is not a valid file of scored examples"):
        list(open_examples(path)[1])
    assert not find_examples(folder, "sst", ScoringOptions(home=home)).is_read


def test_a_damaged_row_names_its_line(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("majority", ["sst"])
    command("evaluate", folder, "--home", home)
    path = examples_path(folder / "results/validation", "sst")
    lines = gzip.decompress(path.read_bytes()).splitlines()
    lines[3] = b'{"id": 7, "statistics": []}'
    path.write_bytes(gzip.compress(b"\n".join(lines)))
    with pytest.raises(DataError, match="line 4"):
        list(open_examples(path)[1])
    assert not find_examples(folder, "sst", ScoringOptions(home=home)).is_read


def edit_rows(path: Path, edit: Callable[[dict[str, Any], list[dict[str, Any]]], object]) -> None:
    head, rows = rows_of(path)
    edit(head, rows)
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, (head, *rows))).encode()))


def test_a_metric_that_a_file_of_examples_names_is_never_loaded(
    command: Command, home: Path, submit: Submit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Showing somebody's submission used to import the module that its head named, from the current folder."""
    folder = submit("majority", ["schema"])
    command("evaluate", folder, "--home", home)
    (folder / "payload_of_examples.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nMETRIC = None\n"
    )
    path = examples_path(folder / "results/validation", "schema")
    edit_rows(path, lambda head, _: head.update(metric=f"{folder.name}.payload_of_examples:METRIC"))
    monkeypatch.chdir(tmp_path)
    done = command("show", folder, "--task", "schema", "--home", home)
    assert done.exit_code == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert not find_examples(folder, "schema", ScoringOptions(home=home)).is_read


@pytest.mark.parametrize(
    "edit",
    [
        lambda rows: [row for row in rows if row["right"] is not False],
        lambda rows: [*rows, rows[0]],
        lambda rows: [*rows[:-1], rows[0]],
        lambda rows: [{**row, "prediction": "other"} for row in rows],
        lambda rows: [row for row in rows if not row.get("variant")],
        lambda rows: [*rows, {**rows[0], "variant": 999}],
    ],
    ids=[
        "wrong ones removed",
        "one twice",
        "another twice",
        "other answers",
        "one wording",
        "no such wording",
    ],
)
def test_examples_that_are_not_whole_are_scored_anew(
    command: Command, home: Path, submit: Submit, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> None:
    """Without its wrong rows, a file used to show a score of 100, as only known ids were asked for."""
    folder = submit("first-choice", ["sst"], variant=ALL_VARIANTS)
    command("evaluate", folder, "--home", home)
    options = ScoringOptions(home=home)
    before = find_examples(folder, "sst", options)
    assert before.is_read and before.score is not None and before.score < 100

    def change(_: object, rows: list[dict[str, Any]]) -> None:
        rows[:] = edit(rows)

    edit_rows(examples_path(folder / "results/validation", "sst"), change)
    after = find_examples(folder, "sst", options)
    assert not after.is_read and after.score == before.score and len(after.rows) == len(before.rows)


def test_a_limited_run_and_one_with_a_wording_that_was_not_scored_are_read(
    command: Command, home: Path, tmp_path: Path, submit: Submit
) -> None:
    """All examples of the split were wanted, and rows of a wording that evaluation had refused."""
    limited = tmp_path / "limited"
    given = ("--predictor", "majority", "--tasks", "sst", "--home", home, "--limit", 5, "--output", limited)
    assert command("predict", *given).exit_code == 0
    wordings = submit("first-choice", ["sst"], variant=ALL_VARIANTS)
    path = wordings / "variants/1/predictions/sst.validation.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    for folder, count in ((limited, 5), (wordings, 32)):
        command("evaluate", folder, "--home", home)
        found = find_examples(folder, "sst", ScoringOptions(home=home))
        assert found.is_read and len(found.rows) == count


def test_rows_as_a_table(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("random", ["squad"])
    command("evaluate", folder, "--home", home)
    frame = examples_frame(*open_examples(examples_path(folder / "results/validation", "squad")))
    score = json.loads((folder / "results/validation/results.json").read_text())["tasks"]["squad"]["score"]
    assert len(frame) == 32 and frame["score"].mean() == pytest.approx(score, abs=1e-6)
    assert frame["statistics.n"].sum() == 32


def test_a_run_by_another_predictor_removes_them(command: Command, home: Path, submit: Submit) -> None:
    folder = submit("random", ["sst"])
    command("evaluate", folder, "--home", home)
    submit("majority", ["sst"], output="random")
    assert not (folder / "results").exists()


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


def test_examples_of_results(command: Command, home: Path, submit: Submit) -> None:
    """The same rows, whether they come from evaluate in Python or from the file beside the results."""
    folder = submit("random", ["sst", "squad"])
    results = decabench.evaluate(folder, home=home)
    frame = results.examples("squad")
    assert frame["score"].mean() == pytest.approx(results.tasks["squad"].score, abs=1e-6)
    assert list(frame.columns[:4]) == ["id", "prediction", "raw", "references"]
    command("evaluate", folder, "--home", home)
    read = read_results_file(folder / "results/validation/results.json")
    assert read == replace(read, source=None)  # where examples come from makes no other results
    pandas.testing.assert_frame_equal(read.examples("squad"), frame)
    with pytest.raises(UnknownNameError, match="Did you mean squad"):
        results.examples("squat")
    with pytest.raises(MissingDataError, match="read from JSON without the examples"):
        Results.from_json(results.to_json()).examples("sst")
    examples_path(folder / "results/validation", "sst").unlink()
    with pytest.raises(MissingDataError, match="run decabench evaluate"):
        read.examples("sst")


def test_examples_of_an_archive_are_read_again_after_it_was_closed(
    home: Path, submit: Submit, tmp_path: Path
) -> None:
    folder = submit("random", ["sst"])
    path = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", folder))
    frame = decabench.evaluate(path, home=home).examples("sst")
    pandas.testing.assert_frame_equal(frame, decabench.evaluate(folder, home=home).examples("sst"))


@pytest.mark.parametrize("kind", ["zip", "gztar"])
@pytest.mark.parametrize("place", ["packed", "beside"])
def test_examples_of_an_archive_are_found_beside_it_or_in_it(
    command: Command, home: Path, submit: Submit, tmp_path: Path, kind: str, place: str
) -> None:
    folder = submit("random", ["sst"])
    options = ScoringOptions(home=home)
    if place == "packed":
        command("evaluate", folder, "--home", home)
    path = Path(shutil.make_archive(str(tmp_path / "packed"), kind, folder))
    if place == "beside":
        assert not find_examples(path, "sst", options).is_read
        assert command("evaluate", path, "--home", home).exit_code == 0
    found = find_examples(path, "sst", options)
    assert found.is_read
    assert found.rows == find_examples(folder, "sst", options).rows
    lines = answers(home, "sst", lambda example: (example.id, example.answers[0]))
    write_submission(tmp_path / "other", "other", {("sst", "validation"): lines})
    shutil.copytree(
        folder / "results", tmp_path / "other/results", dirs_exist_ok=True
    ) if place == "packed" else None
    path.unlink()
    shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "other")  # other answers by the same name
    again = find_examples(path, "sst", options)
    assert not again.is_read and all(row.right for row in again.rows)


def traced_show(command: Command, folder: Path, rows: int, is_read: bool) -> tuple[int, int]:
    """The bytes that examples take once they are found, and at most before."""
    folder.mkdir()
    made = [{"q": f"Which {at}?", "a": f"{at}" + " words of an answer" * 20} for at in range(rows)]
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, made)))
    (folder / "own.toml").write_text(
        'format = "decabench.taskfile/1"\nname = "own"\nmetric = "em"\nquestion = "{q}"\ncontext = "{a}"\n'
        'answer = "a"\n[files]\nvalidation = "data.jsonl"\n'
    )
    given = ("--include", folder / "own.toml", "--home", folder / "home")
    assert command("prepare", "own", *given).exit_code == 0
    lines = [(f"own.validation.{at}", row["a"]) for at, row in enumerate(made)]
    write_submission(folder / "s", "s", {("own", "validation"): lines})
    assert command("evaluate", folder / "s", *given).exit_code == 0
    if not is_read:
        shutil.rmtree(folder / "s/results")
    options = ScoringOptions(home=folder / "home", include=(folder / "own.toml",))
    find_examples(folder / "s", "own", options)  # imports, and keeps what is kept once
    tracemalloc.start()
    try:
        found = find_examples(folder / "s", "own", options)
        shown = browse_examples(found, Chosen())
        wrong = browse_examples(found, Chosen(right=False, order="length"))
        measured = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.is_read is is_read and (len(shown), len(wrong), found.score) == (rows, 0, 100)
    assert (shown[0].question, shown[-1].row.prediction) == ("Which 0?", made[-1]["a"])
    return measured


@pytest.mark.parametrize("is_read", [True, False])
def test_memory_does_not_grow_with_the_texts(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """To show one example, all texts of a split were in memory, 2.3 KB a row here; scoring them takes its own."""
    monkeypatch.setattr(inspection, "_IN_MEMORY", 1 << 12)
    (few, few_at_most), (many, many_at_most) = (
        traced_show(command, tmp_path / str(rows), rows, is_read) for rows in (4_000, 12_000)
    )
    assert many - few < 100 * 8_000
    assert not is_read or many_at_most - few_at_most < 150 * 8_000


def test_answers_in_another_order_are_read(
    command: Command, home: Path, submit: Submit, tmp_path: Path
) -> None:
    lines = answers(home, "sst", lambda example: (example.id, example.answers[0]))
    for name, made in (("a", lines), ("b", lines[::-1])):
        write_submission(tmp_path / name, name, {("sst", "validation"): made})
        command("evaluate", tmp_path / name, "--home", home)
    found, other = (find_examples(tmp_path / name, "sst", ScoringOptions(home=home)) for name in "ab")
    assert found.is_read and other.is_read and found.rows == other.rows
