import pytest

from decabench.metrics import accuracy


def test_accuracy():
    assert float(
        accuracy([" Positive ", "negative", ""], ["positive", ["x", "Negative"], "y"])
    ) == pytest.approx(200 / 3)
