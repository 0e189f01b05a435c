"""The Joint Many-Task model's suites: the paper's Table 1, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decabench.tasks.suites.jmt import JMT_PTB
from tests.tasks.conftest import shared

__all__ = ["shared"]

COLUMNS = {"single": 0, "JMT all": 1, "JMT AB": 2, "JMT ABC": 3, "JMT DE": 4}
ROWS = {
    "POS": "ptb.pos",
    "Chunking": "conll2000",
    "Dependency LAS": "ptb.dep",
    "Relatedness": "sick.relatedness",
    "Entailment": "sick.entailment",
}


@pytest.mark.mirror
def test_scores_are_those_of_the_paper(shared: Path) -> None:
    text = (shared / "papers" / "joint_many_task_model.txt").read_text(encoding="utf-8")
    table = text[: text.index("Table 1: Test set results")].rsplit("JMT_{\\rm DE}", 1)[1]
    rows = {row.name: row.scores for row in JMT_PTB.published}
    for name, task in ROWS.items():
        (line,) = [line for line in table.splitlines() if f"\t{name}\t" in line]
        cells = line.split(f"\t{name}\t")[1].split("\t")
        for row, column in COLUMNS.items():
            printed = re.sub(r"[()]", "", cells[column])
            assert rows[row].get(task) == (None if printed == "n/a" else float(printed)), (row, name)
