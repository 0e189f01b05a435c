"""Cuts a context so that its prompt fits a model's window."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from decabench.errors import DecabenchError
from decabench.predictor import Question

__all__ = ["NEAR", "PromptTooLongError", "fit"]

NEAR = 64
"""A word longer than this many characters may be cut within; every other stays whole or goes."""

_WORD = re.compile(r"\S+")


class PromptTooLongError(DecabenchError):
    """A prompt does not fit even without its context."""


def fit(question: Question, budget: int, count: Callable[[str], int]) -> tuple[int, int] | None:
    """The characters [0, end) of the context whose prompt fits into `budget` tokens; None where all of it does.

    `count` gives the tokens of the whole prompt with that context; it is called some ten times. What is cut is
    the end, after a word. Raises PromptTooLongError.
    """
    context = question.context
    whole = count(context)
    if whole <= budget:
        return None
    bare = count("")
    if bare > budget:
        raise PromptTooLongError(
            f"The prompt of {question.id} takes {bare:,} tokens without its context, and {budget:,} fit: use fewer "
            "shots, a shorter template or a longer window."
        )

    def fits(end: int) -> bool:
        return count(context[:end]) <= budget

    ends = [0, *(match.end() for match in _WORD.finditer(context))]
    guess = bisect_left(ends, len(context) * (budget - bare) // max(1, whole - bare))
    last = _last(0, len(ends), guess, lambda index: fits(ends[index]))
    start = ends[last]
    stop = ends[last + 1] if last + 1 < len(ends) else start
    if stop - start <= NEAR:
        return 0, start
    return 0, _last(start, stop, (start + stop) // 2, fits)


def _last(low: int, high: int, guess: int, holds: Callable[[int], bool]) -> int:
    """The last number in [low, high) for which it holds: it does for `low`, and then ever after the last it does not.

    Steps away from the guess that grow, then halves: few calls where the guess is near.
    """
    step = 2
    probe = guess
    while high - low > 1:
        if not low < probe < high:
            probe = (low + high) // 2
        if holds(probe):
            low, probe = probe, probe + step
        else:
            high, probe = probe, probe - step
        step *= 4
    return low
