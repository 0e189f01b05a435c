import numpy
import pytest

from decabench.metrics.base import any_nonzero, exponential, f1, logarithm, percent, ratio, where


@pytest.mark.parametrize(
    ("part", "whole", "expected"), [(1, 2, 0.5), (1, 0, 0.0), (0, 0, 0.0), (3.0, 2, 1.5)]
)
def test_ratio(part, whole, expected):
    assert ratio(part, whole) == expected
    assert ratio(numpy.array([part]), numpy.array([whole])) == [expected]


def test_ratio_broadcasts():
    assert ratio(100.0, numpy.array([[4.0, 0.0]])).tolist() == [[25.0, 0.0]]


def test_percent_and_f1():
    assert percent(1, 4) == 25
    assert f1(50.0, 100.0) == pytest.approx(200 / 3)
    assert f1(0.0, 0.0) == 0
    assert f1(numpy.array([0.0, 50.0]), numpy.array([0.0, 50.0])).tolist() == [0, 50]


def test_where_logarithm_exponential():
    assert (where(True, 1, 2), where(False, 1, 2)) == (1, 2)
    assert where(numpy.array([True, False]), 1, 2).tolist() == [1, 2]
    assert (logarithm(1.0, -9.0), logarithm(0.0, -9.0), exponential(0.0)) == (0.0, -9.0, 1.0)
    assert logarithm(numpy.array([1.0, 0.0]), -9.0).tolist() == [0.0, -9.0]
    assert exponential(numpy.array([0.0])).tolist() == [1.0]


def test_any_nonzero():
    assert any_nonzero(1.0) and any_nonzero(numpy.array([0, 1]))
    assert not any_nonzero(0.0) and not any_nonzero(numpy.zeros(2))
