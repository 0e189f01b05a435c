"""Contexts are cut after a word, as little as necessary, with few token counts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decabench.prompts.messages import NEAR, PromptTooLongError, fit
from decabench.tasks.example import Question

COUNTERS = {
    "characters": lambda context: 10 + len(context),
    "bytes": lambda context: 10 + len(context.encode()),
    "words": lambda context: 10 + len(context.split()),
    "quarters": lambda context: 10 + -(-len(context) // 4),
}
"""Tokenizers whose counts never decrease for longer texts."""

CONTEXTS = st.lists(
    st.one_of(
        st.sampled_from(["a", "word", "Wörter", "  ", "\n", "x" * 90, "中" * 70]), st.text(max_size=12)
    ),
    max_size=60,
).map(" ".join)


def question(context: str) -> Question:
    return Question("q1", "What?", context)


def ends_of_words(context: str) -> set[int]:
    return {
        end
        for end in range(1, len(context) + 1)
        if not context[end - 1].isspace() and (end == len(context) or context[end].isspace())
    }


@given(context=CONTEXTS, budget=st.integers(10, 200), name=st.sampled_from(sorted(COUNTERS)))
@settings(max_examples=150, deadline=None)
def test_what_is_kept_fits_and_no_more_would(context: str, budget: int, name: str) -> None:
    count = COUNTERS[name]
    kept = fit(question(context), budget, count)
    if kept is None:
        assert count(context) <= budget
        return
    start, end = kept
    assert start == 0 <= end < len(context) and count(context) > budget
    assert count(context[:end]) <= budget
    ends = sorted(ends_of_words(context))
    later = next((other for other in ends if other > end), None)
    if later is not None and later - end <= NEAR:
        assert count(context[:later]) > budget
    if end and end not in ends:  # within a word: a long one, all of whose next character is too much
        begin = max([other for other in ends if other < end], default=0)
        assert later is not None and later - begin > NEAR
        assert count(context[: end + 1]) > budget


@given(context=CONTEXTS, budget=st.integers(10, 200), steps=st.lists(st.integers(0, 400), min_size=1))
@settings(max_examples=100, deadline=None)
def test_a_counter_that_goes_up_and_down_is_never_overrun(
    context: str, budget: int, steps: list[int]
) -> None:
    def count(text: str) -> int:
        return 10 + steps[len(text) % len(steps)] if text else 10

    kept = fit(question(context), budget, count)
    assert count(context if kept is None else context[slice(*kept)]) <= budget


@pytest.mark.parametrize("budget", [20, 500, 1_000, 2_500, 2_999])
def test_few_counts(budget: int) -> None:
    """Each count tokenizes the whole prompt, so few are allowed."""
    calls = []

    def count(context: str) -> int:
        calls.append(context)
        return 12 + sum(1 + len(word) // 6 for word in context.split())

    context = " ".join(f"word{'s' * (number % 9)}" for number in range(2_500))
    assert fit(question(context), budget, count) is not None
    assert len(calls) <= 14


def test_all_of_it_is_none_and_takes_one_count() -> None:
    calls: list[str] = []
    assert fit(question("a b c"), 5, lambda context: calls.append(context) or 5) is None  # type: ignore[func-returns-value]
    assert calls == ["a b c"]


def test_nothing_of_it_may_fit() -> None:
    assert fit(question("abc def"), 10, lambda context: 10 + len(context)) == (0, 0)


def test_a_prompt_that_is_too_long_without_it() -> None:
    with pytest.raises(
        PromptTooLongError, match="q1 takes 1,000 tokens without the context, but only 512 fit"
    ):
        fit(question("a"), 512, lambda context: 1_000 + len(context))


def test_too_long_with_no_context_at_all() -> None:
    with pytest.raises(PromptTooLongError):
        fit(question(""), 5, lambda context: 6)
