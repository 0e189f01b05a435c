"""One of a few labels in what a model says, and nothing where it is in doubt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from decabench.extraction.cleaning import lines_of
from decabench.extraction.form import AnswerForm

__all__ = ["find_label", "labels_for", "options"]

_NEGATED = re.compile(
    r"(?:\b(?:not|no|never|neither|nor|without|cannot|hardly|rather than|instead of)|n['\u2019]t)"
    r"\W+(?:[\w'\u2019]+\W+){0,2}$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?<=[.?!:;])\s+|\s+--\s+")
_ASKS = re.compile(
    r"(?:is|are|was|were|does|do|did|would|which|what|who|how|can|could|has|have)\b", re.IGNORECASE
)
_ASKS_WHAT = re.compile(r"(?:which|what|who|how)\b", re.IGNORECASE)
_NEAR = 80
"""How many characters before a label may deny it."""
_ARTICLE = re.compile(r"^(?:an?|the)\s+")
_WORDS = re.compile(r"[^\W_](?:.*[^\W_])?", re.DOTALL)
_ENDS = re.compile(r"\s*(?:[.!;:)\]\n]|[–—-]\s|,(?!\s*(?:or|and)\b)|$)")


def labels_for(form: AnswerForm, question: str) -> tuple[str, ...]:
    """The labels among which a question asks to choose."""
    if not form.labels_from_question or (form.labels and all(_mentions(question, form.labels))):
        return form.labels
    return options(question) or form.labels


def _mentions(text: str, labels: Sequence[str]) -> list[bool]:
    return [bool(_pattern([label]).search(text)) for label in labels]


def options(question: str) -> tuple[str, ...]:
    """What a question gives to choose from at its end: `Who? Bob or Charlie?`, `-- yes, no, or maybe?`."""
    clause = _CLAUSE.split(question.strip().rstrip("?.! "))[-1]
    before, found, last = clause.rpartition(" or ")
    if not found:
        return ()
    first = [part.strip() for part in before.strip().rstrip(",").split(",")]
    if _ASKS_WHAT.match(first[0]) and len(first) > 1:
        first = first[1:]  # `Which is it, negative or positive?`
    elif _ASKS.match(first[0]):
        first[0] = first[0].split()[-1]  # `Is this review negative or positive?`
    found_all = (*first, last.strip())
    return found_all if all(found_all) else ()


def _key(text: str) -> str:
    """What two spellings of a label share: no case, no marks around it, no article."""
    words = _WORDS.search(text)
    return _ARTICLE.sub("", " ".join(words.group().casefold().split())) if words else text.strip()


def _pattern(labels: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(map(_key, labels), key=len, reverse=True)
    words = "|".join(re.escape(label).replace(r"\ ", r"\s+") for label in longest_first)
    return re.compile(rf"(?<![\w-])(?:{words})(?![\w-]|['\u2019]\w)", re.IGNORECASE)


def find_label(text: str, labels: Sequence[str]) -> str | None:
    """The label that a text gives as its answer; None where it gives none, several, or one that it denies."""
    by_key = {_key(label): label for label in labels if label.strip()}
    lines = lines_of(text)
    if not lines or not by_key:
        return None
    for candidate in (text, lines[0], lines[-1]):
        if _key(candidate) in by_key:
            return by_key[_key(candidate)]
    pattern = _pattern(list(by_key.values()))
    opening = pattern.match(lines[0].lstrip("*_`\"'“ "))
    if opening and _ENDS.match(opening.string[opening.end() :].lstrip("*_`\"'”")):
        if not pattern.match(opening.string[opening.end() :].lstrip("*_`\"'”,.;: ")):
            return by_key[_key(opening.group())]
    found = {_only(line, pattern, by_key) for line in (lines[0], lines[-1])} - {None}
    return found.pop() if len(found) == 1 else None


def _only(line: str, pattern: re.Pattern[str], by_key: dict[str, str]) -> str | None:
    """The one label of a line, where no other is there and none is denied."""
    matches = list(pattern.finditer(line))
    if any(_NEGATED.search(line[max(0, match.start() - _NEAR) : match.start()]) for match in matches):
        return None
    found = {by_key[_key(match.group())] for match in matches}
    return found.pop() if len(found) == 1 else None
