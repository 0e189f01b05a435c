"""Find the labels that a question offers, and the places where a text mentions them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from functools import lru_cache

from decabench.metrics import fold_label
from decabench.tasks import AnswerForm, Label, Output

_CLAUSE = re.compile(r"(?<=[.?!:;])\s+|\s+--\s+")
_ASKS = re.compile(
    r"(?:is|are|was|were|does|do|did|would|which|what|who|how|can|could|has|have)\b", re.IGNORECASE
)
_ASKS_WHAT = re.compile(r"(?:which|what|who|how)\b", re.IGNORECASE)


def labels_for(form: AnswerForm, question: str) -> tuple[str, ...]:
    """Return the labels to choose from for a question. They come from the form or from the question itself."""
    if not form.labels_from_question:
        return form.labels
    if form.labels and all(_pattern((label,))[0].search(question) for label in form.labels):
        return form.labels
    return options(question) or form.labels


def is_other_label(text: str, output: Output, question: str) -> bool:
    """Return whether an answer differs from all possible labels, ignoring case and whitespace.

    If the output declares no labels, the possible labels are the question's options. Always returns False for other
    types of output.
    """
    labels = possible_labels(output, question)
    return bool(labels) and fold_label(text) not in map(fold_label, labels)


def possible_labels(output: Output, question: str) -> tuple[str, ...]:
    """Return the labels of an output, or the question's options if the output declares no labels.

    The result is empty for other types of output.
    """
    return tuple(output.names or options(question)) if isinstance(output, Label) else ()


def options(question: str) -> tuple[str, ...]:
    """Return the options at the end of a question, such as `-- yes, no, or maybe?`."""
    clause = _CLAUSE.split(question.strip().rstrip("?.! "))[-1]
    before, found, last = clause.rpartition(" or ")
    if not found:
        return ()
    first = [part.strip() for part in before.strip().rstrip(",").split(",")]
    if _ASKS_WHAT.match(first[0]) and len(first) > 1:
        first = first[1:]  # as in `Which is it, negative or positive?`
    elif _ASKS.match(first[0]):
        first[0] = first[0].split()[-1]  # as in `Is this review negative or positive?`
    found_all = (*first, last.strip())
    return found_all if all(found_all) else ()


_NO_DECIMALS = r"(?!(?<=\d)(?!\.0+(?!\d))[.,:/]\d)"
"""Prevents a numeric label from matching at the beginning of another number.

For example, 3 doesn't match in `3.5`, `3,000` or `3/10`, but it matches `3.0`.
"""


@lru_cache(256)
def _pattern(labels: tuple[str, ...]) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """Return a pattern that matches any of the labels, and the labels in the order of the pattern's groups.

    Labels that differ from another label only in case are left out, because the pattern ignores case.
    """
    counts = Counter(label.casefold() for label in labels)
    names = sorted((label for label in labels if counts[label.casefold()] == 1), key=len, reverse=True)
    words = (r"[\s_-]+".join(map(re.escape, label.split())) for label in names)
    groups = "|".join(f"({word})" for word in words) or "(?!)"
    pattern = rf"(?<![\w\u2212-])(?!(?<=\d[.,:/])\d)(?:{groups})(?:\.0+(?!\d))?(?![\w+#-]|['\u2019]\w){_NO_DECIMALS}"
    return re.compile(pattern, re.IGNORECASE), tuple(names)


def find_mentions(text: str, labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return the labels that occur in a text as whole words, as (start, end, label)."""
    pattern, names = _pattern(tuple(dict.fromkeys(label for label in labels if label.strip())))
    if any(name.startswith("-") for name in names):
        text = text.replace("\u2212", "-")
    return [(*match.span(), names[(match.lastindex or 1) - 1]) for match in pattern.finditer(text)]


def match_label(text: str, labels: Sequence[str], question: str | None = None) -> str | None:
    """Return the label if the text is a label, or a sentence made up of a label and words of its question.

    Returns None for any other text. Case, punctuation and articles are ignored, but not signs that negate the label,
    such as a cross.
    """
    plain = text.strip()
    if plain in labels:
        return plain if plain else None
    if _STRIKES.search(plain):
        return None
    plain = plain.strip("_ ")
    found = find_mentions(plain, labels)
    if len(found) != 1:
        return None
    start, end, label = found[0]
    before = _ARTICLE.sub("", plain[:start])
    others = set(re.findall(r"[^\W_][\w'\u2019]*", f"{before} {plain[end:]}".casefold()))
    if others and ("?" in plain or question is None or not _words_in(question) >= others):
        return None
    return label


def _words_in(question: str) -> Set[str]:
    """Return the words that may surround a label in a sentence: the question's words and a few such as `it` and
    `is`.

    Words that would reverse the meaning of the sentence are left out.
    """
    asked = re.sub('"[^"]*"', "", question).casefold()
    known = {word for word in re.findall(r"[\w'\u2019]+", asked) if not _REVERSES.fullmatch(word)}
    return known | {"it", "this", "is", "a", "an", "the"}


_REVERSES = re.compile(
    r"not|no|never|n?either|nor|none|or|if|cannot|hardly|false|wrong|\w+n['\u2019]t", re.IGNORECASE
)
"""Matches words that would change the meaning of a sentence that otherwise repeats its question."""
_STRIKES = re.compile(
    r"~~|[~!\u00ac\u2260\u2264\u2265]\s*\w|[\u2610\u2717\u2718\u274c\u2716\u2715\U0001f44e\U0001f6ab]|\[ ?\]"
)
"""Signs of negation, such as a cross, a tilde, an unchecked box or a line through the text."""
_ARTICLE = re.compile(r"(?<![^\W_])(?:an?|the|his|her|its|their)\s+$", re.IGNORECASE)
