"""Metrics with a number for each class of the gold answers: from answers to a board and back; items of wrong form."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.metrics

from decabench.errors import DataError
from decabench.metrics import METRICS
from decabench.scoring import compare, evaluate, read_results_file, read_sample
from decabench.scoring.examples import stored_metric
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import Store
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included

GOLD = ["good", "bad", "so so", "good"] * 12


@pytest.fixture
def labels(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """Submissions for a task of labels whose metric is macro-F1."""
    (task,) = load_included(own_task(GOLD, metric="macro_f1"))
    prepare_task(task, Request(tmp_path / "home", progress=False))

    def make(name: str, wrong: dict[int, str]) -> Path:
        examples = Store(tmp_path / "home").examples("own", "validation")
        answers = [
            (example.id, wrong.get(index, example.answers[0])) for index, example in enumerate(examples)
        ]
        write_submission(tmp_path / "subs" / name, SubmissionInfo(name), {("own", "validation"): answers})
        return tmp_path / "subs" / name

    return make


def options(tmp_path: Path) -> tuple[object, ...]:
    return ("--home", tmp_path / "home", "--include", tmp_path / "own.toml")


WRONG = {0: "bad", 2: "I cannot say", 5: "", 6: "good", 7: "bad"}


def test_macro_f1_is_written_read_verified_and_compared(
    labels: Callable[..., Path], command: Callable[..., object], tmp_path: Path
) -> None:
    folder, better = labels("one", WRONG), labels("two", {0: "bad"})
    predicted = [WRONG.get(index, label) for index, label in enumerate(GOLD)]
    wanted = 100 * sklearn.metrics.f1_score(
        GOLD, predicted, labels=["good", "bad", "so so"], average="macro", zero_division=0
    )
    for submission in (folder, better):
        done = command("evaluate", "--submission", submission, *options(tmp_path))
        assert done.exit_code == 0, done.output
    result = json.loads((folder / "results" / "validation" / "results.json").read_text())["tasks"]["own"]
    assert result["score"] == pytest.approx(wanted)
    low, high = result["interval"]
    assert low < wanted < high
    statistics = folder / "results" / "validation" / "statistics" / "own.parquet"
    assert "right:so so" in pq.ParquetFile(statistics).schema_arrow.names
    # Other wrong answers change no column: what is predicted does not decide what is counted.
    again = labels("again", {0: "something else"})
    assert command("evaluate", "--submission", again, *options(tmp_path)).exit_code == 0
    other = again / "results" / "validation" / "statistics" / "own.parquet"
    assert pq.ParquetFile(other).schema_arrow.names == pq.ParquetFile(statistics).schema_arrow.names
    done = command("verify", "--submission", folder, *options(tmp_path))
    assert done.exit_code == 0, done.output
    found = compare(folder, better, home=tmp_path / "home", include=[tmp_path / "own.toml"]).tasks["own"]
    assert (found.a_wins, found.b_wins) == (0, 4)
    folder = tmp_path / "subs"


def test_statistics_whose_classes_were_changed_are_refused(
    labels: Callable[..., Path], command: Callable[..., object], tmp_path: Path
) -> None:
    folder = labels("one", WRONG)
    assert command("evaluate", "--submission", folder, *options(tmp_path)).exit_code == 0
    path = folder / "results" / "validation" / "statistics" / "own.parquet"
    metric = stored_metric(METRICS["macro_f1"], path)
    assert metric.columns == METRICS["macro_f1"].for_data([Answers([label]) for label in GOLD]).columns
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["right:bad"]), path)
    result = read_results_file(folder / "results" / "validation" / "results.json").tasks["own"]
    with pytest.raises(DataError, match="damaged"):
        read_sample(folder, folder / "results" / "validation", "own", result)
    wide = pa.table({f"gold:{number}": [1.0] for number in range(20_001)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    with pytest.raises(DataError, match="20,001 columns, which is too many"):
        stored_metric(METRICS["macro_f1"], tmp_path / "wide.parquet")


class Answers:
    """A reference with nothing but answers."""

    def __init__(self, answers: list[str]) -> None:
        self.answers = answers


TAGS = Path(__file__).parents[2] / "examples" / "tagging" / "pos.toml"


def test_items_of_wrong_form_are_counted_apart(command: Callable[..., object], tmp_path: Path) -> None:
    (task,) = load_included(TAGS)
    prepare_task(task, Request(tmp_path / "home", progress=False))
    examples = list(Store(tmp_path / "home").examples("pos", "validation"))
    answers = {example.id: example.answers[0] for example in examples}
    first, second, third = (example.id for example in examples[:3])
    length = len(answers[second].split())
    answers[first] += " NOUN NOUN"
    answers[second] = "NOUNS"
    answers[third] = " ".join(["_", *answers[third].split()[1:]])
    write_submission(tmp_path / "tags", SubmissionInfo("tags"), {("pos", "validation"): answers.items()})
    found = evaluate(tmp_path / "tags", home=tmp_path / "home", include=[TAGS]).tasks["pos"].answers
    assert found == {"missing_items": length, "extra_items": 2, "unknown_items": 1}
    done = command(
        "evaluate",
        *("--submission", tmp_path / "tags", "--home", tmp_path / "home", "--include", TAGS),
        "--confusion",
    )
    assert f"pos: items of answers: {length} missing, 2 too many, 1 unknown" in done.stdout
    assert "\npos: classes\n" in done.stdout
    assert " taken for _\n" in done.stdout
    assert "_: no answer for this token" in done.stdout
    assert "NOUN" in done.stdout and " noun " not in done.stdout
