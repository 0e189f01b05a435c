"""Arithmetic on floats and numpy arrays alike, so that one formula scores one sum or a thousand resamples.

numpy is imported only when an array is given; callers without arrays never need it.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["any_nonzero", "exponential", "f1", "is_scalar", "logarithm", "percent", "ratio", "where"]


def is_scalar(value: Any) -> bool:
    """Tell whether this is a plain number, as numpy's own float is, and not an array."""
    return isinstance(value, int | float)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Return `yes` where the condition holds, else `no`."""
    if isinstance(condition, bool):
        return yes if condition else no
    import numpy

    return numpy.where(condition, yes, no)


def ratio(part: Any, whole: Any) -> Any:
    """part / whole, or 0 where whole is 0."""
    if is_scalar(whole) and is_scalar(part):
        return part / whole if whole else 0.0
    import numpy

    part, whole = numpy.broadcast_arrays(numpy.asarray(part, float), numpy.asarray(whole, float))
    return numpy.divide(part, whole, out=numpy.zeros(whole.shape), where=whole != 0)


def percent(part: Any, whole: Any) -> Any:
    """100 * part / whole, or 0 where whole is 0."""
    return 100 * ratio(part, whole)


def f1(precision: Any, recall: Any) -> Any:
    """The harmonic mean 2PR / (P + R), or 0 where both are 0."""
    return ratio(2 * (precision * recall), precision + recall)


def logarithm(value: Any, at_zero: float) -> Any:
    """The natural logarithm, or `at_zero` where the value is 0."""
    if is_scalar(value):
        return math.log(value) if value else at_zero
    import numpy

    return numpy.log(value, out=numpy.full(numpy.shape(value), at_zero), where=value != 0)


def exponential(value: Any) -> Any:
    """e to the value."""
    if is_scalar(value):
        return math.exp(value)
    import numpy

    return numpy.exp(value)


def any_nonzero(value: Any) -> bool:
    """Tell whether a float, or any entry of an array, is not 0."""
    return bool(value) if is_scalar(value) else bool(value.any())
