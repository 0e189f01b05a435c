"""The ceiling that cut contexts leave: the share of examples whose context still contains the gold answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from decabench.metrics import Item

__all__ = ["context_ceiling", "is_reachable"]

_ALWAYS = "unanswerable"
"""QA-ZRE's answer if the context has none; no cut can remove it."""


def context_ceiling(
    kept: Mapping[str, tuple[int, int]], references: Sequence[Item], contexts: Iterable[Mapping[str, Any]]
) -> float:
    """Return the share of examples whose gold answer was not cut off, 0–100.

    Args:
        kept: By id, which characters of the context the model was shown, if not all.
        references: The examples that were scored.
        contexts: Rows with the `id` and `context` of every example of the split.
    """
    golds = {item.id: item.answers for item in references if item.id in kept}
    lost = sum(
        not is_reachable(golds[row["id"]], row["context"], kept[row["id"]])
        for row in contexts
        if row["id"] in golds
    )
    return 100 * (1 - lost / len(references))


def is_reachable(golds: Sequence[str], context: str, kept: tuple[int, int]) -> bool:
    """Return whether a gold answer found in the whole context is still in the part that was kept.

    Also true if the whole context contains none of them verbatim, because then the cut removed none.
    """
    shown = context[slice(*kept)]
    before = [gold for gold in golds if gold == _ALWAYS or _holds(context, gold)]
    return not before or any(gold == _ALWAYS or _holds(shown, gold) for gold in before)


def _holds(text: str, gold: str) -> bool:
    """Return whether the text contains an answer, or each of several joined with `, `, ignoring case and spacing."""
    return _holds_words(text, gold) or all(_holds_words(text, part) for part in gold.split(", "))


def _holds_words(text: str, words: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in words.split())
    return re.search(rf"(?<!\w){pattern}(?!\w)", text, re.IGNORECASE) is not None
