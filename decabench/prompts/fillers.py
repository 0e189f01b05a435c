"""Detect placeholders for missing answers, such as `nan`, `None`, `N/A` or U+FFFD.

Tables and programs write them for failed rows, and they score as wrong answers. These checks never change a
score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from decabench.metrics import Item, Metric
from decabench.prompts.forms import takes_for
from decabench.prompts.prose import says_nothing
from decabench.prompts.tagged import NO_CHANGE
from decabench.tasks import AnswerForm, Output
from decabench.text import excerpt

__all__ = ["GivenAnswers", "describe_fillers"]


@dataclass(frozen=True)
class GivenAnswers:
    """The answers in a file, with their examples."""

    output: Output
    """The task's output type."""
    metric: Metric
    """The headline metric."""
    places: Sequence[str]
    """The location of each answer for messages, such as `line 3` or an id."""
    texts: Sequence[str]
    """The answers, in dataset order."""
    references: Sequence[Item] | None = None
    """Examples with gold answers, which messages never show; None if they are unknown or hidden."""
    read_prompts: Callable[[], Mapping[str, tuple[str, str]]] | None = None
    """Returns the question and context of each example by id.

    Called only if answers may be copies of them.
    """
    read_form: Callable[[], AnswerForm] = AnswerForm
    """Returns the form of the task's answers, which may include special words such as `None`."""


_UNANSWERABLE = "unanswerable"
_LONGEST = 300
"""The maximum length of a placeholder, in characters."""
_MISSING = re.compile(
    r"[^\w\\/]*(?:nan|none|null|nil|na|n/a|undefined|nonetype|object (?:object|undefined|null)|\\n"
    r"|#(?:value|ref|name|num|div/0)[!?])[^\w/]*|\W*(?-i:NaT)\W*",
    re.IGNORECASE,
)
"""Missing values as written by pandas (`<NA>`), Excel (`#N/A`), JavaScript (`[object Object]`) and others."""
_NO_ANSWER = re.compile(
    r"no(?:t a)? ?(?:answers?|ans|span|text|info|information)(?: (?:found|available|given|possible|exists?))?"
    r"|not? (?:found|available|applicable|known|sure|in (?:the |this )?(?:passage|text|context|paragraph)|enough info)"
    r"|(?:(?:the|this) question is |it is |is )?(?:un|not )answerable(?: question)?|unanswered|unknown|idk|empty"
    r"|unable to (?:answer|determine|say|tell)"
    r"|can ?(?:no|')t (?:be )?answer(?:ed)?|cannotanswer|impossible(?: to (?:answer|say|tell|determine))?|is impossible"
)
"""Other phrases for `unanswerable`, in lower case and without punctuation."""


def describe_fillers(given: GivenAnswers) -> Iterator[str]:
    """Yield sentences about placeholders among the answers.

    The text of a gold answer or label never counts as a placeholder.
    """
    counts = Counter(text for text in given.texts if 0 < len(text.strip()) <= _LONGEST)
    may_be_none = _may_be_unanswerable(given)
    takes = takes_for(given.metric)

    def is_filler(text: str) -> bool:
        if not may_be_none:
            return bool(_MISSING.fullmatch(text))
        is_none = says_nothing(text.strip()) or _NO_ANSWER.fullmatch(_plain(text)) or _MISSING.fullmatch(text)
        return bool(is_none) and not takes(text, _UNANSWERABLE)

    def are_several() -> bool:
        total = sum(counts[text] for text in words)
        return total > 1 and 100 * total >= len(given.texts)

    words = set(filter(is_filler, counts))
    if are_several():  # otherwise gold answers are not needed
        own = _own_words(given, 2 * max(map(len, words)))
        words = {text for text in words if _plain(text) not in own}
    if are_several():
        total = sum(counts[text] for text in words)
        place = next(place for place, text in zip(given.places, given.texts, strict=True) if text in words)
        named = Counter({text: counts[text] for text in words}).most_common(4)
        shown = [f"{excerpt(text, 40)!r}{f' ({count:,})' if len(words) > 1 else ''}" for text, count in named]
        listed = ", ".join(shown) + (", …" if len(words) > len(named) else "")
        meaning = (
            f"say that there is no answer in words that the metric doesn't recognize: write {_UNANSWERABLE}"
            if may_be_none
            else "are placeholders for missing values: answer these examples again"
        )
        yield f"{total:,} of {len(given.texts):,} answers ({listed}) {meaning}; the first is {place}"
    yield from _broken(given)


def _may_be_unanswerable(given: GivenAnswers) -> bool:
    return given.metric.name in ("squad2", "corpus_f1")


def _own_words(given: GivenAnswers, longest: int) -> set[str]:
    form = given.read_form()
    own = {*getattr(given.output, "names", ()), *form.labels}
    if form.kind == "state":
        own.add(NO_CHANGE)
    own.update(text for item in given.references or () for text in item.answers if len(text) <= longest)
    return set(map(_plain, own - {_UNANSWERABLE}))


def _plain(text: str) -> str:
    return re.sub(r"[^\w']+|_", " ", text.casefold().replace("\u2019", "'")).strip()


def _broken(given: GivenAnswers) -> Iterator[str]:
    seen = [place for place, text in zip(given.places, given.texts, strict=True) if "\ufffd" in text]
    if not seen or any("\ufffd" in text for item in given.references or () for text in item.answers):
        return
    verb = "contains" if len(seen) == 1 else "contain"
    yield (
        f"{len(seen):,} of {len(given.texts):,} answers {verb} the replacement character U+FFFD, because "
        "a program misread or truncated UTF-8: read and write whole characters as UTF-8; the first is "
        f"{seen[0]}"
    )
