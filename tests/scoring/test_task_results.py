"""Scores of a task by several metrics, with one or more processes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sklearn.metrics

from decabench.errors import DataError, DecabenchError, UnknownNameError
from decabench.metrics import METRICS, Item
from decabench.predictors import ModelOptions
from decabench.scoring import compare, evaluate
from decabench.scoring.significance import Sample, read_statistics
from decabench.scoring.task_results import find_metric, score_task
from decabench.submission import SubmissionInfo, write_submission
from decabench.tasks import Store
from decabench.tasks.preparation import Request, prepare_task
from decabench.tasks.registry import load_included

REFERENCES = [Item([answer], str(number)) for number, answer in enumerate(["u v", "u", "v", "w"])]
PREDICTIONS = ["u v", "u", "x", "v w"]


def test_the_first_metric_gives_the_headline():
    scores = score_task(("em", "nf1"), PREDICTIONS, REFERENCES, None)
    assert scores.headline == "em"
    assert scores.scores["em"] == 50
    assert scores.scores["nf1"] == pytest.approx(100 * (1 + 1 + 0 + 2 / 3) / 4)


def test_another_metric_adds_and_never_replaces():
    scores = score_task(("em", "accuracy"), PREDICTIONS, REFERENCES, None)
    alone = score_task(("em",), PREDICTIONS, REFERENCES, None)
    assert scores.scores.items() >= alone.scores.items()
    assert "accuracy" in scores.scores
    assert list(scores.signatures) == ["em", "accuracy"]


def test_signatures_name_the_versions_that_counted():
    signature = score_task(("bleu",), PREDICTIONS, REFERENCES, None).signatures["bleu"]
    assert signature == METRICS["bleu"].full_signature
    assert signature.rpartition(":")[2] != "missing"


def test_find_metric():
    assert find_metric("nf1") is METRICS["nf1"]
    assert find_metric("decabench.metrics.nf1:nf1") is METRICS["nf1"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nf11", "Did you mean nf1"),
        ("no_such_package:metric", "Install the module's package, or run the command in the folder"),
        ("json:dumps", "which is not a decabench.metrics.Metric"),
    ],
)
def test_metrics_that_are_none(name, sentence):
    with pytest.raises(UnknownNameError, match=sentence):
        find_metric(name)


@pytest.mark.heavy
def test_interrupted_workers_are_silent():
    """Ctrl-C reaches all processes of a terminal, including starting ones. Only the parent prints a message.

    The parent only sleeps: in about one of 150 runs the signal came while it asked a future, whose lock Python then
    leaves taken, so that the pool never ends. A second Ctrl-C ends it.
    """
    code = (
        "import time\n"
        "from decabench.scoring.task_results import worker_pool\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        "        with worker_pool(2, 1_000_000) as pool:\n"
        "            waiting = [pool.submit(time.sleep, 60) for _ in range(4)]\n"
        "            print('begun', flush=True)\n"
        "            time.sleep(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    for wait in (0.0, 0.5):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout.readline() == "begun\n"
        try:
            time.sleep(wait)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert (out, err) == ("interrupted\n", "")


# Metrics with a number for each class of the gold answers: from answers to a board and back; items of wrong form


GOLD = ["good", "bad", "so so", "good"] * 12


@pytest.fixture
def labels(own_task: Callable[..., Path], tmp_path: Path) -> Callable[..., Path]:
    """A label task whose metric is macro F1."""
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
    metric, _, _ = read_statistics(path, METRICS["macro_f1"])
    assert metric.columns == METRICS["macro_f1"].for_data([Answers([label]) for label in GOLD]).columns
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["right:bad"]), path)
    with pytest.raises(DataError, match="damaged"):
        read_statistics(path, METRICS["macro_f1"])
    wide = pa.table({f"gold:{number}": [1.0] for number in range(20_001)})
    pq.write_table(wide, tmp_path / "wide.parquet")
    with pytest.raises(DataError, match="it has 20,001 columns"):
        read_statistics(tmp_path / "wide.parquet", METRICS["macro_f1"])


class Answers:
    """A reference with only answers."""

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
    assert f"pos: items in answers: {length} missing, 2 extra, 1 unknown" in done.stdout
    assert "\npos: classes\n" in done.stdout
    assert "→ _: " in done.stdout
    assert "_: no answer for this token" in done.stdout
    assert "NOUN" in done.stdout and " noun " not in done.stdout


# Several samples of each answer: the score is their mean, and they are parts of examples in the interval


def write(submission, answers):
    """Replace the answers to sst with these lists of samples."""
    path = submission / "predictions" / "sst.validation.jsonl"
    ids = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    lines = [
        {"id": id_, "answer": each[0], "samples": each[1:]} for id_, each in zip(ids, answers, strict=True)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_scores_by_hand(submit, home):
    folder = submit("majority", ["sst"])
    gold = [row["answers"][0] for row in Store(home).read("sst", "validation", ("answers",))]
    other = {"positive": "negative", "negative": "positive"}
    right = [
        (number * 7) % 4 for number in range(len(gold))
    ]  # of three samples: 0 to 3, the wrong ones first
    write(folder, [[other[text]] * (3 - c) + [text] * c for text, c in zip(gold, right, strict=True)])
    found = evaluate(folder, tasks=["sst"], home=home).tasks["sst"]
    n = len(gold)
    assert found.score == pytest.approx(100 * sum(right) / (3 * n))
    assert found.samples.scores == pytest.approx(
        [100 * sum(c > 2 - at for c in right) / n for at in range(3)]
    )
    assert found.samples.majority == pytest.approx(100 * sum(c >= 2 for c in right) / n)
    expected = {k: 100 * np.mean([1 - comb(3 - c, k) / comb(3, k) for c in right]) for k in (1, 2, 3)}
    assert {int(k): value for k, value in found.samples.pass_at.items()} == pytest.approx(expected)
    assert found.samples.between_examples == pytest.approx(np.std([100 * c / 3 for c in right], ddof=1))
    again = compare(folder, folder, home=home).tasks["sst"]
    assert again.difference == 0 and again.examples == n


def test_a_refused_sample_is_wrong_where_an_empty_answer_is_right(submit, home):
    folder = submit("majority", ["squad2"])
    path = folder / "predictions" / "squad2.validation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    scores = {}
    for sample in ("", None):
        written = [{"id": line["id"], "answer": "", "samples": [sample]} for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in written))
        scores[sample] = evaluate(folder, tasks=["squad2"], home=home).tasks["squad2"].samples.scores
    assert scores[""][0] == scores[""][1] == scores[None][0] > 0 and scores[None][1] == 0


@pytest.mark.parametrize("samples", ["x", [1], ["\ud800"]])
def test_samples_that_are_no_texts_are_a_fault(submit, home, samples):
    folder = submit("majority", ["sst"])
    path = folder / "predictions" / "sst.validation.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), "samples": samples}), *rest]) + "\n")
    assert evaluate(folder, tasks=["sst"], home=home).tasks["sst"].status == "failed"


def test_predict_samples_with_seeds_that_follow(submit, home):
    folder = submit("random", ["sst"], "k", samples=3, options=ModelOptions(seed=5))
    alone = [submit("random", ["sst"], str(seed), options=ModelOptions(seed=seed)) for seed in (5, 6, 7)]
    lines, *others = (
        [
            json.loads(line)
            for line in (each / "predictions" / "sst.validation.jsonl").read_text().splitlines()
        ]
        for each in (folder, *alone)
    )
    assert [[line["answer"], *line["samples"]] for line in lines] == [
        [line["answer"] for line in each] for each in zip(*others, strict=True)
    ]
    found = evaluate(folder, home=home).tasks["sst"]
    scores = [evaluate(each, home=home).tasks["sst"].score for each in alone]
    assert found.samples.scores == pytest.approx(scores) and found.score == pytest.approx(np.mean(scores))
    with pytest.raises(DecabenchError, match="--samples works only with a single wording"):
        submit("random", ["sst"], "v", samples=2, variant=-1)


def test_the_interval_covers_with_samples_inside_examples():
    """With examples of different difficulty and five answers each, 95% intervals cover the expected mean."""
    generator = np.random.default_rng(1)
    covered, runs, n = 0, 400, 60
    metric = METRICS["em"]
    for _ in range(runs):
        rows = generator.binomial(5, generator.beta(0.7, 0.7, n)) / 5  # the population's mean is 50
        columns = np.stack([np.ones(n) if name == "n" else rows for name in metric.columns], axis=1)
        interval = Sample.of_levels(metric, columns, np.arange(n)[:, None]).interval
        covered += interval.low <= 50 <= interval.high
    assert 0.92 <= covered / runs <= 0.98
