"""The code-switched suite: the paper's Table 3, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from decabench.tasks.suites.code_switching import CODESWITCH
from tests.tasks.conftest import shared

__all__ = ["shared"]

ADDED = ("", " + DC-MTL", " + IC-MTL", " + rrn-RMN", " + MT-RMN")
PRINTED = {"NS-MTL": "NS", "Cross-stitch": "Cross-stitch.", "Sluice": "Sluice", "GIRNet": "GIRNet"}


@pytest.mark.mirror
def test_scores_are_those_of_the_paper(shared: Path) -> None:
    """A row of the table is accuracy, deviation, F1, deviation, five times."""
    text = (shared / "papers" / "multi_task_recurrent_modular_networks.txt").read_text(encoding="utf-8")
    table = text[: text.index("Table 3: Results of POS tagging")]
    rows = {row.name: row.scores["hien.pos"] for row in CODESWITCH.published}
    for base in ("Cross-stitch", "Sluice", "GIRNet"):
        found = re.findall(rf"{re.escape(PRINTED[base])} ((?:\d+\.\d ){{20}})", table)[-1].split()
        assert [rows[base + added] for added in ADDED] == [float(cell) for cell in found[::4]]
    # The supplied text has lost the first row's beginning.
    assert "38.9 1.6 51.5 0.5 49.4 0.9 51.4 1.4 49.7 0.8 53.5 1.9 52.7 0.8 55.2 1.2 53.4 2.4" in table
    assert [rows["NS-MTL" + added] for added in ADDED] == [44.3, 51.5, 51.4, 53.5, 55.2]
