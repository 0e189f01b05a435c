"""The registry, and requirements for each metric in it."""

import re
from pathlib import Path

import numpy
import pytest

import decabench.metrics as package
from decabench.metrics import METRICS
from decabench.metrics.base import Item

NUMBERS = ([" 3.5", "2", "no", "4.25", "1", "2.5"], ["3.6", "2.5", "4", "4.1", "1.5", "2"])
TAGS = (
    ["B-NP I-NP O", "B-VP", "O O", "", "B-NP B-NP", "I-NP"],
    ["B-NP I-NP O", "B-NP", "O O", "O", "B-NP I-NP", "O"],
)
LABELS = (["yes", "no", "", "Maybe", "no", "yes "], ["yes", "yes", "no", "maybe", "no", "yes"])
PARSES = (
    ["2:nsubj 0:root", "0:root", "", "x", "1:a", "0:root 1:punct"],
    ["2:nsubj 0:root", "0:root 1:punct"] + ["0:root"] * 4,
)
TURNS = (
    ["food: thai;", "; phone", "none", "area: x;", "", ";"],
    ["food: thai;", "; phone", "area: y;", "area: x;", "none", "food: a; phone"],
)
TEXTS = (
    [
        "The cat sat. It slept.",
        "",
        "unanswerable",
        "a dog and a cat ran far away",
        "no",
        "select a from table where b = 2",
    ],
    [
        "A cat sat. It was asleep.",
        "x",
        "unanswerable",
        "a cat and a dog ran far away",
        "unanswerable",
        "yes no",
    ],
)
SAMPLES = {
    "joint_goal_em": TURNS,
    "dialogue_f1": TURNS,
    "sequence_f1": TAGS,
    "tag_accuracy": TAGS,
    "tag_macro_f1": TAGS,
    "macro_f1": LABELS,
    "mcc": LABELS,
    "parsing": PARSES,
    "parsing_ud": PARSES,
    "pearson": NUMBERS,
    "spearman": NUMBERS,
    "mse": NUMBERS,
    "relatedness": NUMBERS,
}
TABLE = {
    "sql": {"sel": 0, "agg": 0, "conds": [[1, 0, 2]]},
    "header": ["a", "b"],
    "rows": [["x", 2], ["y", 3]],
}


def scored(name):
    """Return a metric's score and rows on its sample."""
    predictions, answers = SAMPLES.get(name, TEXTS)
    references = [
        Item([answer], id=f"en_{index // 2}_{index % 2}", meta=TABLE) for index, answer in enumerate(answers)
    ]
    metric = METRICS[name].for_data(references)
    return metric, metric.statistics(predictions, references)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_complete(name):
    metric = METRICS[name]
    assert metric.name == name and metric.signature.startswith(f"{name}|") and metric.definition.endswith(".")
    metric, rows = scored(name)
    assert len(rows) == 6 and all(len(row) == len(metric.columns) for row in rows)
    assert all(type(value) is float for row in rows for value in row)
    scores = metric.score(
        {column: sum(values) for column, values in zip(metric.columns, zip(*rows, strict=True), strict=True)}
    )
    low, high = metric.range
    assert low <= scores[metric.headline] <= high


@pytest.mark.parametrize("name", METRICS)
def test_score_of_arrays_is_the_score_of_each(name):
    metric, rows = scored(name)
    weights = numpy.random.default_rng(7).multinomial(6, [1 / 6] * 6, size=(5, 8))
    weights[0, 0] = 0
    sums = weights @ numpy.array(rows)
    scores = metric.score({column: sums[..., index] for index, column in enumerate(metric.columns)})
    assert all(numpy.shape(values) == (5, 8) for values in scores.values())
    for place in numpy.ndindex(5, 8):
        totals = {column: float(sums[place][index]) for index, column in enumerate(metric.columns)}
        for score, value in metric.score(totals).items():
            assert scores[score][place] == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_everything_exported_is_there_and_listed():
    assert sorted(set(package.__all__)) == sorted(package.__all__)
    assert all(hasattr(package, name) for name in package.__all__)
    assert all(callable(getattr(package, name)) for name in METRICS if name in package.__all__)


def test_the_docs_name_tests_that_exist():
    root = Path(__file__).parents[2]
    section = (
        (root / "docs" / "metrics.md").read_text(encoding="utf-8").split("## How the metrics are tested")[1]
    )
    lines = [line for line in section.split("\n## ")[0].splitlines() if line.startswith("| `")]
    code = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for line in lines:
        names, *_, tests = (cell.strip() for cell in line.strip("|").split("|"))
        assert set(re.findall(r"`(\w+)`", names)) <= set(METRICS)
        found = re.findall(r"`(test_\w+)`", tests)
        assert found and all(f"def {test}(" in code for test in found), names
