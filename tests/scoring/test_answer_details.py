"""Brier score, log loss and calibration error, compared with the formulas written out for three answers."""

import math

import pytest

from decabench.metrics import Item
from decabench.scoring.answer_details import calibrate
from decabench.submission import AnswerLine


def line(id_, **probabilities):
    return AnswerLine(
        1, id_, max(probabilities, key=probabilities.get), rule="choices", probabilities=probabilities
    )


def test_three_answers():
    lines = {0: line("a", yes=0.9, no=0.1), 1: line("b", yes=0.95, no=0.05), 2: line("c", yes=0.4, no=0.6)}
    golds = [Item(("Yes",)), Item(("no",)), Item(("no",))]
    found = calibrate(lines, golds)
    assert found is not None and found.n == 3
    assert found.brier == pytest.approx((2 * 0.1**2 + 2 * 0.95**2 + 2 * 0.4**2) / 3)
    assert found.log_loss == pytest.approx(-(math.log(0.9) + math.log(0.05) + math.log(0.6)) / 3)
    assert [(each.n, each.accuracy) for each in found.bins] == [(1, 1.0), (2, 0.5)]
    assert found.bins[1].confidence == pytest.approx(0.925)
    assert found.error == pytest.approx((1 * 0.4 + 2 * 0.425) / 3)


def test_answers_without_probabilities():
    assert calibrate({0: AnswerLine(1, "a", "yes")}, [Item(("yes",))]) is None
