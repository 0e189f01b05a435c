from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from decabench.errors import DataError
from decabench.tasks import DECATHLON, SUITES, PublishedRow
from decabench.tasks.registry import load_included
from decabench.tasks.store import Store
from decabench.tasks.suite import Combination, Suite
from tests.tasks.fixtures import write_lines

# Suites: combined scores, faults in suites, and suites in TOML files.

TWO = Suite("two", "Two", ("sst", "schema"), "mean", "average")


@pytest.mark.parametrize(("total", "combined"), [("sum", 150.0), ("mean", 75.0), ("none", None)])
def test_the_total(total: Combination, combined: float | None) -> None:
    suite = replace(TWO, total=total)
    assert suite.combine({"sst": 90, "schema": 60, "squad": 1}) == combined
    assert suite.combine({"sst": 90}) is None


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"name": "My Suite"},
            "Suite 'My Suite': A name must consist of lowercase letters, digits, dots, hyphens and underscores",
        ),
        ({"tasks": ()}, "'tasks' must list at least one task."),
        ({"tasks": ("sst", "schema", "sst")}, "'tasks' lists sst more than once. List each task only once."),
        ({"total": "product"}, "'total' must be 'sum', 'mean' or 'none', not 'product'."),
        (
            {"published": (PublishedRow("M", "joint", {"sst": 1.0, "squad": 2.0}),)},
            "The published row 'M' has scores for tasks that are not in the suite: squad.",
        ),
        ({"source_url": "javascript:alert(1)"}, "'source_url' must begin with https:// or http://"),
        ({"title": "Two\x1b]0;mine"}, "'title' contains characters that can't be printed"),
    ],
)
def test_a_suite_checks_itself(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        replace(TWO, **changes)
    assert sentence in str(caught.value)


TOML = ['format = "decabench.suite/1"', 'name = "two"', 'tasks = ["sst", "schema"]']


def load_suite(path: Path) -> Suite:
    (suite,) = load_included(path)
    assert isinstance(suite, Suite)
    return suite


def test_a_whole_file(tmp_path: Path) -> None:
    lines = [
        *TOML,
        'title = "Two tasks"\ndescription = "Short."\ntotal = "mean"\ntotal_name = "average"',
        'source = "A paper"\nsource_url = "https://example.org"\nnotes = ["One.", "Two."]',
        '[[published]]\nname = "M"\ntraining = "joint"\ntotal = 75\nsource = "Table 2"',
        "scores = { sst = 90, schema = 60.0 }",
        '[[published]]\nname = "N"',
    ]
    assert load_suite(write_lines(tmp_path / "two.toml", lines)) == Suite(
        name="two",
        title="Two tasks",
        tasks=("sst", "schema"),
        total="mean",
        total_name="average",
        description="Short.",
        source="A paper",
        source_url="https://example.org",
        published=(
            PublishedRow("M", "joint", {"sst": 90.0, "schema": 60.0}, 75.0, "Table 2"),
            PublishedRow("N", "", {}),
        ),
        notes=("One.", "Two."),
        origin="user",
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (TOML[:2], "'tasks' is missing; expected a list of strings"),
        ([*TOML, 'taks = ["sst"]'], "There is no key 'taks'. Did you mean tasks?"),
        ([*TOML, 'total = "maen"'], "There is no total 'maen'. Did you mean mean?"),
        ([*TOML, "[[published]]\nscores = { sst = 'x' }"], "[[published]] 1, scores: 'sst' must be a number"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, lines: list[str], sentence: str) -> None:
    path = write_lines(tmp_path / "two.toml", lines)
    with pytest.raises(DataError) as caught:
        load_suite(path)
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)


# The built-in suites: every published row against the text of its paper, and commands that mean the decathlon.


@pytest.fixture
def paper(shared: Path) -> Callable[[str], str]:
    """Return a function that reads the text of a paper."""

    def read(name: str) -> str:
        path = shared / "papers" / f"{name}.txt"
        if not path.exists():
            pytest.skip("the papers are not next to the project")
        return path.read_text(encoding="utf-8")

    return read


@pytest.mark.parametrize("row", DECATHLON.published, ids=lambda row: f"{row.name} {row.training}")
def test_sums_of_the_decathlon(row: PublishedRow) -> None:
    assert tuple(row.scores) == DECATHLON.tasks
    assert (row.total is None) == (row.training == "single-task")
    if row.total is not None:
        assert math.isclose(
            DECATHLON.combine(row.scores) or 0, row.total, abs_tol=0.2 + 2e-6 if row.source else 2e-6
        )


def test_commands_without_tasks_mean_the_decathlon(
    command: Callable[..., Result], home: Path, tmp_path: Path
) -> None:
    assert Store(home).records("subj")
    out, options = tmp_path / "out", ("--home", home)
    assert command("predict", "--predictor", "majority", "--output", out, *options).exit_code == 0
    assert {path.name for path in (out / "predictions").iterdir()} == {
        f"{name}.validation.jsonl" for name in DECATHLON.tasks
    }
    done = command("prepare", "--sample", "--home", tmp_path / "fresh")
    assert done.exit_code == 0, done.output
    assert {path.name for path in (tmp_path / "fresh" / "tasks").iterdir() if path.is_dir()} == set(
        DECATHLON.tasks
    )


@pytest.mark.mirror
@pytest.mark.parametrize("name", ["movies", "products"])
def test_classification(paper: Callable[[str], str], name: str) -> None:
    lines = paper("shared_memory_multi_task_learning").splitlines()
    # As the text has these names.
    cut = {"MV-RNN": "MV-RNN (", "CNN-multichannel": "CNN-multio", "Tree-LSTM": "Tree-LST"}
    for row in SUITES[name].published:
        printed = " | ".join(f"{score:.1f}" for score in row.scores.values())
        printed = printed.replace("86.8 | 89.3", "86.8 | - | 89.3")
        start = f"| {cut.get(row.name, row.name)} "
        assert any(start in line.replace("|", " |") and printed in line for line in lines), row.name


@pytest.mark.mirror
def test_code_switching(paper: Callable[[str], str]) -> None:
    text = paper("multi_task_recurrent_modular_networks")
    table = text[: text.index("Table 3: Results of POS tagging")]
    rows = {row.name: row.scores["hien.pos"] for row in SUITES["codeswitch"].published}
    added = ("", " + DC-MTL", " + IC-MTL", " + rrn-RMN", " + MT-RMN")
    for base, printed in (("Cross-stitch", "Cross-stitch."), ("Sluice", "Sluice"), ("GIRNet", "GIRNet")):
        found = re.findall(rf"{re.escape(printed)} ((?:\d+\.\d ){{20}})", table)[-1].split()
        assert [rows[base + name] for name in added] == [float(cell) for cell in found[::4]]
    # The supplied text lacks the beginning of the first row.
    assert "38.9 1.6 51.5 0.5 49.4 0.9 51.4 1.4 49.7 0.8 53.5 1.9 52.7 0.8 55.2 1.2 53.4 2.4" in table
    assert [rows["NS-MTL" + name] for name in added] == [44.3, 51.5, 51.4, 53.5, 55.2]


@pytest.mark.mirror
def test_joint_many_task_model(paper: Callable[[str], str]) -> None:
    text = paper("joint_many_task_model")
    table = text[: text.index("Table 1: Test set results")].rsplit("JMT_{\\rm DE}", 1)[1]
    rows = {row.name: row.scores for row in SUITES["jmt.ptb"].published}
    lines = ("POS", "Chunking", "Dependency LAS", "Relatedness", "Entailment")
    for name, task in zip(lines, SUITES["jmt.ptb"].tasks, strict=True):
        (line,) = [line for line in table.splitlines() if f"\t{name}\t" in line]
        cells = line.split(f"\t{name}\t")[1].split("\t")
        for row, cell in zip(("single", "JMT all", "JMT AB", "JMT ABC", "JMT DE"), cells, strict=False):
            printed = re.sub(r"[()]", "", cell)
            assert rows[row].get(task) == (None if printed == "n/a" else float(printed)), (row, name)
